package provider

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// unknownPaths returns the paths of all unknown values, in order and without repetition.
func unknownPaths(v tftypes.Value) []string {
	var paths []string
	_ = tftypes.Walk(v, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		switch {
		case v.IsKnown():
		case len(at.Steps()) == 0:
			paths = append(paths, "the whole block")
		default:
			paths = append(paths, attrpath.Text(attrpath.OfProtocol(at)))
		}
		return true, nil
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}
