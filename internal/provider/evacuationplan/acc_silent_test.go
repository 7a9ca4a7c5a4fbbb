package evacuationplan_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/evacuationplan"
)

// TestAccEvacuationPlan_silentHost: a folder previews the drain of each host, and one host doesn't answer. With
// on_unreachable = "keep", that one's steps are null, with a warning, and the plan of the others continues. Without it
// the plan fails, and says what to set. A fenced host doesn't answer either, and never fails the plan.
func TestAccEvacuationPlan_silentHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	here, tf := l.StartHost(t), acctest.NewCLI(t)
	config := func(settings, ofSilent string) string {
		// Nothing listens there, and nothing else of the lab is cut off for it.
		silent := acctest.Host{Name: "silent", URI: "qemu+ssh://root@" + here.Address + ":9/system", Settings: ofSilent}
		return acctest.Block{Lab: l, Settings: settings, Hosts: []acctest.Host{{Of: here}, silent}}.String() + `
data "virtfleet_evacuation_plan" "here" { host = "` + here.Name + `" }
data "virtfleet_evacuation_plan" "silent" { host = "silent" }
`
	}
	tf.Config(t, config("", ""))
	if out := tf.Fail(t, "plan"); !strings.Contains(out, "Error: Unable to plan evacuation") ||
		!strings.Contains(out, `With on_unreachable = "keep" in the provider block`) {
		t.Errorf("the plan doesn't say how to continue: %s", out)
	}
	for name, c := range map[string]struct{ settings, ofSilent, why string }{
		"silent":         {`on_unreachable = "keep"`, "", `on_unreachable is "keep"`},
		"fenced":         {`on_unreachable = "keep"`, "fenced = true", `Host "silent" is fenced`},
		"fenced, errors": {"", "fenced = true", `Host "silent" is fenced`},
	} {
		tf.Config(t, config(c.settings, c.ofSilent))
		if out := tf.Run(t, "apply"); !strings.Contains(out, "Warning: Unable to plan evacuation") ||
			!strings.Contains(out, c.why) || !strings.Contains(out, "Host: silent") {
			t.Errorf("%s: the missing steps aren't explained: %s", name, out)
		}
		silent, _ := tf.State(t, evacuationplan.TypeName+".silent")
		for _, attribute := range []string{"steps", "blocked", "under_maintenance"} {
			if silent[attribute] != nil {
				t.Errorf("%s: %s is %v, though nothing is known", name, attribute, silent[attribute])
			}
		}
		other, _ := tf.State(t, evacuationplan.TypeName+".here")
		if steps, known := other["steps"].([]any); !known || len(steps) > 0 || other["blocked"] != false {
			t.Errorf("%s: the other host has steps %v, blocked %v", name, other["steps"], other["blocked"])
		}
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("%s: left to do:\n%s", name, out)
		}
	}
	tf.Run(t, "destroy")
}
