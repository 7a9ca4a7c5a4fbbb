package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// unknownPaths returns the paths of all unknown values, in order and without repetition.
func unknownPaths(v tftypes.Value) []string {
	var paths []string
	_ = tftypes.Walk(v, func(at *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if !v.IsKnown() {
			paths = append(paths, dottedSteps(at.Steps()))
		}
		return true, nil
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// dottedSteps formats a path of Terraform's protocol as attrpath.Text formats one of the framework.
func dottedSteps(steps []tftypes.AttributePathStep) string {
	all := make([]string, 0, len(steps))
	for _, step := range steps {
		switch s := step.(type) {
		case tftypes.AttributeName:
			all = append(all, string(s))
		case tftypes.ElementKeyString:
			all = append(all, string(s))
		default:
			all = append(all, fmt.Sprint(s))
		}
	}
	if len(all) == 0 {
		return "the whole block"
	}
	return strings.Join(all, ".")
}
