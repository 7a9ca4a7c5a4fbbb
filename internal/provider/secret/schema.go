package secret

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource in Terraform.
type model struct {
	ID            types.String   `tfsdk:"id"`
	Usage         types.String   `tfsdk:"usage"`
	UsageID       types.String   `tfsdk:"usage_id"`
	Description   types.String   `tfsdk:"description"`
	Private       types.Bool     `tfsdk:"private"`
	ValueWO       types.String   `tfsdk:"value_wo"`
	ValueBase64WO types.String   `tfsdk:"value_base64_wo"`
	ValueVersion  types.String   `tfsdk:"value_wo_version"`
	Hosts         types.Set      `tfsdk:"hosts"`
	HostStates    types.Map      `tfsdk:"host_states"`
	Timeouts      timeouts.Value `tfsdk:"timeouts"`
}

// timeoutsAttribute limits each operation on the secret.
var timeoutsAttribute = value.TimeoutsOf("secret", defaultTimeout)

// Schema describes the resource.
func (*secretResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	values := []validator.String{
		stringvalidator.ExactlyOneOf(path.MatchRoot("value_wo"), path.MatchRoot("value_base64_wo")),
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages a libvirt secret, for storage with credentials, encrypted volumes and TPMs, or TLS. " +
			"The secret has the same UUID on every host in `hosts`. While a VM's disk or TPM needs it, destroying it fails, " +
			"and so does replacing it without a new `value_wo_version`. Keep a copy of a passphrase " +
			"elsewhere: without it, an encrypted volume can't be read.\n\n" +
			"The value is write-only (Terraform 1.11 or later), and written again only with a new `value_wo_version`. A " +
			"plan doesn't read the value, so it doesn't show if the value was changed on a host.\n\n" +
			"**New hosts:** with `private = false`, an apply, or the move of a VM that needs the secret, copies the value " +
			"from another host. With `private = true`, the apply writes the value in the configuration, even " +
			"without a new `value_wo_version`: it must be the one that the other hosts have. The plan warns, and names " +
			"what uses the secret there. A secret that was removed from all hosts by hand is created again with its UUID.",
		Attributes: map[string]schema.Attribute{
			"id": value.StableString("UUID of the secret, the same on every host."),
			"usage": schema.StringAttribute{
				MarkdownDescription: "Usage of the secret. One of " + value.OneOf(libvirt.SecretUsages()) + ". `volume`: " +
					"passphrase of an encrypted volume. `vtpm`: that of a TPM. `iscsi`: password for iSCSI or a web server. `tls` " +
					"is for definitions written by hand.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{value.Among(libvirt.SecretUsages()...)},
			},
			"usage_id": schema.StringAttribute{
				MarkdownDescription: "Id that libvirt knows the secret by, unique on a host among secrets of the same " +
					"usage: a name (`ceph`, `tls`, `vtpm`), a target (`iscsi`), or any text, such as a volume's path (`volume`).",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"description": schema.StringAttribute{MarkdownDescription: "Description for people.", Optional: true},
			"private": schema.BoolAttribute{
				MarkdownDescription: "Whether libvirt refuses to return the value to clients. If `false`, the move of a VM " +
					"copies the secret to a host that lacks it. A change replaces the secret. Default for new secrets: `true`.",
				Optional:      true,
				Computed:      true,
				PlanModifiers: []planmodifier.Bool{boolplanmodifier.UseStateForUnknown(), boolplanmodifier.RequiresReplace()},
			},
			"value_wo": schema.StringAttribute{
				MarkdownDescription: "Value as text. A new secret requires exactly one of `value_wo`, `value_base64_wo`.",
				Optional:            true, WriteOnly: true, Sensitive: true,
				Validators: values,
			},
			"value_base64_wo": schema.StringAttribute{
				MarkdownDescription: "Value in Base64, such as a Ceph key (`ceph auth get-key`). Set either `value_wo` or " +
					"`value_base64_wo`.",
				Optional: true, WriteOnly: true, Sensitive: true,
				Validators: []validator.String{isBase64{}},
			},
			"value_wo_version": schema.StringAttribute{
				MarkdownDescription: "Any text, such as `1`. Change it to write a changed value to all hosts: Terraform can't " +
					"see that change. The first one after an import writes nothing if the usage is `volume` or `vtpm`, " +
					"otherwise the value. **Disks and TPMs keep their passphrase:** with another value, their VMs can't start or " +
					"move.",
				Optional: true,
			},
			"hosts":            onhosts.HostsAttribute("secret"),
			onhosts.StatesName: onhosts.StatesAttribute("secret", "`present` or `missing`"),
			"timeouts":         timeoutsAttribute,
		},
	}
}

// noun returns the secret's name in errors.
func (m *model) noun() string {
	return fmt.Sprintf("%s \"%s/%s\"", noun, m.Usage.ValueString(), m.UsageID.ValueString())
}
