package virtualmachine

import (
	"reflect"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// TestShortcut_schemaLeavesPlanningToModifyPlan: what the short cut doesn't know of would be left out of plans.
func TestShortcut_schemaLeavesPlanningToModifyPlan(t *testing.T) {
	t.Parallel()
	walk("", vmSchema.Attributes, func(at string, a schema.Attribute) {
		for _, field := range []string{"Default", "PlanModifiers"} {
			if f := reflect.ValueOf(a).FieldByName(field); f.IsValid() && !f.IsZero() {
				t.Errorf("%s has %s: ModifyPlan has to do it", at, field)
			}
		}
	})
}

// TestShortcut_leavesTheFrameworksPrivateStateAlone: the framework keeps its own entries beside ours, and changes them
// while it reads.
func TestShortcut_leavesTheFrameworksPrivateStateAlone(t *testing.T) {
	t.Parallel()
	for data, open := range map[string]bool{
		"":                                   true,
		`{"live":"e30="}`:                    true,
		`{".import_before_read":"dHJ1ZQ=="}`: false,
		`not JSON`:                           false,
	} {
		if _, ok := openPrivate([]byte(data)); ok != open {
			t.Errorf("private state %q is taken: %t, want %t", data, ok, open)
		}
	}
}
