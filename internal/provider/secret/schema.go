package secret

import (
	"context"

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

// model is the resource as Terraform has it.
type model struct {
	ID            types.String `tfsdk:"id"`
	Usage         types.String `tfsdk:"usage"`
	UsageID       types.String `tfsdk:"usage_id"`
	Description   types.String `tfsdk:"description"`
	Private       types.Bool   `tfsdk:"private"`
	ValueWO       types.String `tfsdk:"value_wo"`
	ValueBase64WO types.String `tfsdk:"value_base64_wo"`
	ValueVersion  types.String `tfsdk:"value_wo_version"`
	Hosts         types.Set    `tfsdk:"hosts"`
	HostStates    types.Map    `tfsdk:"host_states"`
}

// Schema describes the resource.
func (*secretResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	values := []validator.String{
		stringvalidator.ExactlyOneOf(path.MatchRoot("value_wo"), path.MatchRoot("value_base64_wo")),
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "A secret that hosts keep for storage with credentials, encrypted volumes or TLS: libvirt's " +
			"own secret, with one UUID on every host that is listed. Its value is write-only (Terraform 1.11 or later) and " +
			"never read back: a change of it on a host isn't seen. A host that is added gets the value from the " +
			"configuration.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				MarkdownDescription: "UUID of the secret, the same on every host.",
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"usage": schema.StringAttribute{
				MarkdownDescription: "What it is for: one of " + value.OneOf(libvirt.SecretUsages()) + ". `volume` is the " +
					"passphrase of an encrypted volume.",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.OneOf(libvirt.SecretUsages()...)},
			},
			"usage_id": schema.StringAttribute{
				MarkdownDescription: "What it is for in particular, unique on a host among those of the same usage: a name " +
					"(`ceph`, `tls`, `vtpm`), a target (`iscsi`), a volume's path or any other text (`volume`).",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"description": schema.StringAttribute{MarkdownDescription: "For people.", Optional: true},
			"private": schema.BoolAttribute{
				MarkdownDescription: "Whether libvirt keeps the value to itself. Default: `true` for a new secret.",
				Optional:            true,
				Computed:            true,
				PlanModifiers:       []planmodifier.Bool{boolplanmodifier.UseStateForUnknown(), boolplanmodifier.RequiresReplace()},
			},
			"value_wo": schema.StringAttribute{
				MarkdownDescription: "The value as text. Exactly one of `value_wo` and `value_base64_wo`.",
				Optional:            true, WriteOnly: true, Sensitive: true,
				Validators: values,
			},
			"value_base64_wo": schema.StringAttribute{
				MarkdownDescription: "The value in Base64, as a key of Ceph is printed (`ceph auth get-key`).",
				Optional:            true, WriteOnly: true, Sensitive: true,
			},
			"value_wo_version": schema.StringAttribute{
				MarkdownDescription: "Any text; a new one has the value written to all hosts again.",
				Optional:            true,
			},
			"hosts":            onhosts.HostsAttribute("secret"),
			onhosts.StatesName: onhosts.StatesAttribute("secret", "`present` or `missing`"),
		},
	}
}
