package volume

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// replacing are the attributes whose change requires a new volume.
var replacing = []string{
	"name", "pool", "format", "image", "clone", "copy_of", "preallocation", "permissions", "encryption",
}

// isReplaced reports whether a new volume replaces the existing one. It compares the attributes itself, because the
// framework doesn't tell ModifyPlan which attributes require a replacement.
func isReplaced(req resource.ModifyPlanRequest) bool {
	planned, is := attributes(req.Plan.Raw), attributes(req.State.Raw)
	return slices.ContainsFunc(replacing, func(name string) bool { return !planned[name].Equal(is[name]) })
}

func attributes(object tftypes.Value) map[string]tftypes.Value {
	var all map[string]tftypes.Value
	_ = object.As(&all) // Plan and state are objects.
	return all
}
