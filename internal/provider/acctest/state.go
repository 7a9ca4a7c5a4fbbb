package acctest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
)

// At returns the path of a value, which is written as its steps with dots: "disks.root.size". Each step after the first
// is an attribute or the key of a map.
func At(dotted string) tfjsonpath.Path {
	steps := strings.Split(dotted, ".")
	p := tfjsonpath.New(steps[0])
	for _, s := range steps[1:] {
		p = p.AtMapKey(s)
	}
	return p
}

// Know returns a function that expects a value in the state of this resource or data source. See At for its path.
func Know(address string) func(dotted string, want knownvalue.Check) statecheck.StateCheck {
	return func(dotted string, want knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, At(dotted), want)
	}
}

// CompareValues compares some of the values that CLI.State returned, as they are printed. See At for their paths.
func CompareValues(t testing.TB, got, want map[string]any) {
	t.Helper()
	for dotted, w := range want {
		if g := ValueAt(got, dotted); fmt.Sprint(g) != fmt.Sprint(w) {
			t.Errorf("%s is %v, want %v", dotted, g, w)
		}
	}
}

// ValueAt returns one of the values that CLI.State returned, and nil if it isn't there. See At for its path.
func ValueAt(in map[string]any, dotted string) any {
	var at any = in
	for step := range strings.SplitSeq(dotted, ".") {
		in, _ := at.(map[string]any)
		at = in[step]
	}
	return at
}
