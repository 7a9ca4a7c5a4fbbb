package acctest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ImportGenerated imports objects into a state of their own, with the configuration that Terraform generates. That
// must be valid as it is, and change nothing: neither by the import nor afterwards. ids are import ids by address.
func ImportGenerated(t testing.TB, provider string, ids map[string]string) {
	t.Helper()
	tf := NewCLI(t)
	var imports strings.Builder
	for _, at := range slices.Sorted(maps.Keys(ids)) {
		fmt.Fprintf(&imports, "import {\n  to = %s\n  id = %q\n}\n", at, ids[at])
	}
	tf.Config(t, provider+imports.String())
	actions := tf.Actions(t, "-generate-config-out="+filepath.Join(tf.Dir, "generated.tf"))
	for at := range ids {
		if actions[at] != "no-op" {
			t.Errorf("the import of %s does %q", at, actions[at])
		}
	}
	if t.Failed() {
		t.Fatalf("%s", tf.Run(t, "show", "planned"))
	}
	tf.Run(t, "apply")
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("after the import, the plan isn't empty: %s", out)
	}
}
