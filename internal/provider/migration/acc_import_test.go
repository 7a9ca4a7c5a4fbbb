package migration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccMigration_import: a migration that Terraform forgot is taken over from the VM's record, and the plan is
// empty. What isn't recorded comes from the configuration, and nothing is moved for it.
func TestAccMigration_import(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	config := func(attributes string) string { return provider(l, "") + light(name, "") + migration(attributes) }
	// forgotten returns what to import a migration by that it makes Terraform forget, and the state as it was.
	forgotten := func(configured string) (string, map[string]any) {
		t.Helper()
		was, state, _ := recorded(t, tf)
		tf.Config(t, provider(l, "")+light(name, "")+fmt.Sprintf("removed {\n  from = %s\n  lifecycle {\n"+
			"    destroy = false\n  }\n}\n", address))
		tf.Run(t, "apply")
		tf.Config(t, configured)
		return fmt.Sprintf("%v/%v", was["virtual_machine_id"], was["id"]), state
	}

	begin(t, tf, provider(l, "")+light(name, ""))
	for i, order := range []string{`target_host = "kvm2"`, ""} {
		apply(t, tf, config(order))
		id, was := forgotten(config(order))
		tf.Run(t, "import", address, id)
		if left, empty := tf.Empty(t); !empty {
			t.Errorf("migration %d: left to do:\n%s", i, left)
		}
		attributes, state, tainted := recorded(t, tf)
		acctest.CompareValues(t, attributes, map[string]any{"phase": "Succeeded"})
		acctest.CompareValues(t, state, was)
		if tainted {
			t.Error("it is tainted")
		}
	}

	ordered := config("target_host = \"kvm2\"\n  triggers = { change = \"CHG-1234\" }\n  " +
		"migration_options = { bandwidth = \"1Gi\" }")
	apply(t, tf, ordered)
	id, was := forgotten(ordered)
	uuid, _, _ := strings.Cut(id, "/")
	if out := tf.Fail(t, "import", address, uuid); !said(out, "no record of that migration", id[len(uuid)+1:]) {
		t.Errorf("import by the VM alone: %s", out)
	}
	tf.Run(t, "import", address, id)
	before := l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1")
	if actions := tf.Actions(t); actions[address] != "update" {
		t.Errorf("plan: %v, want an update", actions)
	}
	apply(t, tf, ordered)
	_, state, _ := recorded(t, tf)
	acctest.CompareValues(t, state, was)
	if after := l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1"); after != before {
		t.Errorf("the VM's records changed from %s to %s", before, after)
	}
	runsOn(t, l, name, "kvm2")

	// Imported for other triggers it is another migration, and the plan says so.
	tf.Config(t, config("target_host = \"kvm2\"\n  triggers = { change = \"CHG-1235\" }"))
	if actions := tf.Actions(t); actions[address] != "delete create" {
		t.Errorf("plan: %v, want a new migration", actions)
	}
	tf.Run(t, "destroy")
}
