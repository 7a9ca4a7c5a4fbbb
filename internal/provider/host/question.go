package host

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Question is what to read of hosts in addition to what is always read.
type Question struct {
	Include      types.List `tfsdk:"include"`
	Capabilities types.List `tfsdk:"node_device_capabilities"`
}

// QuestionAttributes returns the attributes of a Question.
func QuestionAttributes() map[string]schema.Attribute {
	some := func(description, byDefault string, of []string) schema.ListAttribute {
		return schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: description + " Allowed: `" + strings.Join(of, "`, `") + "`." + byDefault,
			Validators: []validator.List{
				listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(value.Among(of...)),
			},
		}
	}
	return map[string]schema.Attribute{
		"include": some("Attributes to read that require further queries to the host, or are large. Attributes that "+
			"aren't listed are null.", "", observe.HostParts),
		"node_device_capabilities": some("Only read `node_devices` with one of these capabilities.", " Default: all.",
			libvirt.NodeDeviceCapabilities()),
	}
}

// Validate refuses node_device_capabilities without node_devices.
func (q Question) Validate() diag.Diagnostics {
	var diags diag.Diagnostics
	if !q.Capabilities.IsNull() && !q.Include.IsUnknown() && !slices.Contains(value.StringList(q.Include),
		observe.PartNodeDevices) {
		diags.AddAttributeError(path.Root("node_device_capabilities"), "Node devices aren't read",
			"node_device_capabilities filters node_devices, which are read only if include names them. Set "+
				"include = [\"node_devices\"].")
	}
	return diags
}

// ToFleet returns the question in the fleet's form.
func (q Question) ToFleet() observe.HostQuestion {
	return observe.HostQuestion{
		Parts: value.StringList(q.Include), Capabilities: value.StringList(q.Capabilities),
	}
}
