package onevm

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

const (
	attributeID   = "virtual_machine_id"
	attributeName = "name"
)

// Selection selects the VM of a data source. One of its fields is set in the configuration.
type Selection struct {
	ID   types.String `tfsdk:"virtual_machine_id"`
	Name types.String `tfsdk:"name"`
}

// Attributes returns the attributes of a Selection. Exactly one of them and of the alternatives, which are other
// attributes of the data source, must be set.
func Attributes(alternatives ...string) map[string]schema.Attribute {
	names := append([]string{attributeID, attributeName}, alternatives...)
	paths := make([]path.Expression, len(names))
	for i, name := range names {
		paths[i] = path.MatchRoot(name)
	}
	return map[string]schema.Attribute{
		attributeID: schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "UUID of the VM, on any host of the fleet. Set exactly one of `" +
				strings.Join(names, "`, `") + "`.",
			Validators: []validator.String{value.VirtualMachineID(), stringvalidator.ExactlyOneOf(paths...)},
		},
		attributeName: schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Name of the VM. It is an error if several VMs of the fleet have this name.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
	}
}

// IsSet reports whether the configuration selects one VM, instead of using an alternative.
func (s Selection) IsSet() bool { return s.Text() != "" }

// Text returns the id or name from the configuration, for messages.
func (s Selection) Text() string { return s.ID.ValueString() + s.Name.ValueString() }

// Find returns the VM, on any host of the fleet.
func (s Selection) Find(ctx context.Context, f *fleet.Fleet) (*fleet.VM, error) {
	if s.ID.IsNull() {
		return f.FindByName(ctx, s.Name.ValueString())
	}
	return f.Find(ctx, s.ID.ValueString(), fleet.LastKnown{})
}

// Of returns the selection of a VM, with both its id and its name.
func Of(vm *fleet.VM) Selection {
	return Selection{ID: types.StringValue(vm.UUID), Name: types.StringValue(vm.Name)}
}
