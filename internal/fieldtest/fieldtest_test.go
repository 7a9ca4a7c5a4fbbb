package fieldtest_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fieldtest"
)

type inner struct {
	Name string
	Port *int
}

type outer struct {
	On    bool
	Since time.Time
	Inner *inner
	List  []inner
	Map   map[string]string
}

// Each field is changed once, the value itself never.
func TestVariants(t *testing.T) {
	t.Parallel()
	full := func() outer {
		return outer{
			Since: time.Unix(1, 0), Inner: &inner{"a", new(1)}, List: []inner{{"b", new(2)}}, Map: map[string]string{"k": "v"},
		}
	}
	one := full()
	all := fieldtest.Variants(t, one)
	want := []string{
		"Inner removed", "Inner.Name", "Inner.Port", "Inner.Port removed", "List[0] removed", "List[0].Name", "List[0].Port",
		"List[0].Port removed", "Map[k]", "Map[k] removed", "On", "Since",
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	for path, variant := range all {
		if reflect.DeepEqual(variant, one) {
			t.Errorf("%s: nothing is different", path)
		}
	}
	if !reflect.DeepEqual(one, full()) {
		t.Errorf("the value was changed: %+v", one)
	}
}
