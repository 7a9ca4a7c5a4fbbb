package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// mostNearest is how many similar names a problem lists at most: a host knows a hundred CPU models and machine types.
const mostNearest = 5

// nearest says which of the known names a user may have meant by one that isn't known: those with few other letters,
// the nearest first, or all if none is near. It returns "" if no name is known.
func nearest(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}

	far := max(2, len(name)/3)
	letters := func(k string) int { return levenshtein.Distance(strings.ToLower(name), strings.ToLower(k), nil) }

	var near []string

	for _, k := range known {
		if letters(k) <= far {
			near = append(near, k)
		}
	}

	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(letters(a)-letters(b), strings.Compare(a, b))
	})

	if len(near) == 0 {
		return "; it has " + inventory.QuoteList(known)
	}

	return "; similar ones that it has: " + inventory.QuoteList(near[:min(len(near), mostNearest)])
}
