package conditions

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// TestMeanings_ofEveryCondition: the description of the attribute says of each condition what it means.
func TestMeanings_ofEveryCondition(t *testing.T) {
	t.Parallel()
	types := slices.Sorted(slices.Values(status.Types()))
	if diff := cmp.Diff(types, slices.Sorted(maps.Keys(meanings))); diff != "" {
		t.Errorf("the conditions, and those with a meaning:\n%s", diff)
	}
	for _, name := range good {
		if !slices.Contains(types, name) {
			t.Errorf("%s isn't a condition", name)
		}
	}
}
