package volume

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// replacing are the attributes of which another value is another volume.
var replacing = []string{
	"name", "pool", "format", "image", "clone", "copy_of", "preallocation", "permissions", "encryption",
}

// isReplaced says that another volume takes the place of the one that is there. That attributes require it, the
// framework doesn't tell the plan of the resource.
func isReplaced(req resource.ModifyPlanRequest) bool {
	planned, is := attributes(req.Plan.Raw), attributes(req.State.Raw)
	return slices.ContainsFunc(replacing, func(name string) bool { return !planned[name].Equal(is[name]) })
}

func attributes(object tftypes.Value) map[string]tftypes.Value {
	var all map[string]tftypes.Value
	_ = object.As(&all) // It is an object.
	return all
}
