package migration_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccMigration_replaced: -replace runs the same migration again, and its plan fails if that is impossible. With
// create_before_destroy Terraform destroys the old one last: then nothing is moved, and the apply says so.
func TestAccMigration_replaced(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := start(t, l, name)
	config := provider(l, "") + light(name, "") + migration("")
	begin(t, tf, provider(l, "")+light(name, ""))
	apply(t, tf, config)
	runsOn(t, l, name, "kvm2")

	tf.Config(t, strings.ReplaceAll(config, schedulable, "schedulable = false")) // The other host is the first one.
	tf.Run(t, "plan", "-replace="+address)
	tf.Config(t, strings.Replace(config, "migration_address", "schedulable = false\nmigration_address", 1))
	if out := tf.Fail(t, "plan", "-replace="+address); !said(out, "No host can take the VM") {
		t.Errorf("plan: %s", out)
	}
	tf.Config(t, config)
	if out := tf.Run(t, "apply", "-replace="+address); said(out, "not run again") {
		t.Errorf("apply: %s", out)
	}
	runsOn(t, l, name, "kvm1")

	before, _, _ := recorded(t, tf)
	last := provider(l, "") + light(name, "") + migration("lifecycle { create_before_destroy = true }")
	tf.Config(t, last)
	if out := tf.Run(t, "apply", "-replace="+address); !said(out, "Migration was not run again") {
		t.Errorf("apply: %s", out)
	}
	runsOn(t, l, name, "kvm1")
	after, state, _ := recorded(t, tf)
	acctest.CompareValues(t, after, map[string]any{"id": before["id"], "phase": "Succeeded"})
	acctest.CompareValues(t, state, map[string]any{"source_host": "kvm2", "target_host": "kvm1"})
	// The record is the new resource's: the destroy of the old one has not withdrawn the order.
	id, _ := after["id"].(string)
	if text := l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1"); id == "" || !strings.Contains(text, id) {
		t.Errorf("id %q isn't in %s", id, text)
	}
	if left, empty := tf.Empty(t); !empty {
		t.Errorf("left to do:\n%s", left)
	}

	// Other triggers are another migration.
	apply(t, tf, provider(l, "")+light(name, "")+
		migration("triggers = { again = \"1\" }\n  lifecycle { create_before_destroy = true }"))
	runsOn(t, l, name, "kvm2")
	tf.Run(t, "destroy")
	runsOn(t, l, name, "")
}
