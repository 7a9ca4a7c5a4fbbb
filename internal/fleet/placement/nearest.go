package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// mostNearest is how many names a problem lists at most: a host knows a hundred CPU models and machine types.
const mostNearest = 5

// nearest says which of the known names a user may have meant by one that isn't known: those with few other letters,
// the nearest first, or all if none is near. It returns "" if no name is known.
func nearest(name string, known []string) string {
	if len(known) == 0 {
		return ""
	}

	name = strings.ToLower(name)
	far := max(2, len(name)/3)

	var near []string

	for _, k := range known {
		if letters(name, strings.ToLower(k)) <= far {
			near = append(near, k)
		}
	}

	slices.SortFunc(near, func(a, b string) int {
		return cmp.Or(letters(name, strings.ToLower(a))-letters(name, strings.ToLower(b)), strings.Compare(a, b))
	})

	if len(near) == 0 {
		return "; it has " + inventory.QuoteList(known)
	}

	return "; similar ones that it has: " + inventory.QuoteList(near[:min(len(near), mostNearest)])
}

// letters returns how many letters must be added, removed or replaced to make one text of the other.
func letters(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1

		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}

			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}

	return row[len(b)]
}
