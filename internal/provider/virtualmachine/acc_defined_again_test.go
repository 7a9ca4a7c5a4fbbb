package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_definedAgain: a running VM that has lost its definition is drift, and an apply defines it where
// it runs before it removes what was left behind elsewhere. What libvirt is told by hand about the host's boot is
// drift, too.
func TestAccVirtualMachine_definedAgain(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	config := idleVM(l, name).with(zoneA)
	tf.Config(t, zonedProvider(l)+config.String())
	tf.Run(t, "apply")

	// planned expects the plan to change these attributes.
	planned := func(what string, attributes ...string) {
		t.Helper()
		change := tf.Plan(t)[address]
		for _, a := range attributes {
			before, after := change.Before[a], change.After[a]
			if group, of, nested := strings.Cut(a, "."); nested {
				before, after = attributeOf(change.Before[group], of), attributeOf(change.After[group], of)
			}
			if change.Actions != "update" || fmt.Sprint(before) == fmt.Sprint(after) {
				t.Errorf("%s: the plan does %q about %s: %v, then %v", what, change.Actions, a, before, after)
			}
		}
		// An import reads it from the VM's record.
		if before, after := change.Before["placement"], change.After["placement"]; !cmp.Equal(before, after) {
			t.Errorf("%s: the plan makes %v of placement %v", what, after, before)
		}
	}
	// repaired also expects the apply to leave the VM defined on kvm2 only.
	repaired := func(what string, attributes ...string) {
		t.Helper()
		planned(what, attributes...)
		tf.Run(t, "apply", "planned")
		noChanges(t, tf)
		if out := l.Virsh(t, "kvm2", "dominfo", name); contains(out, "Persistent:     yes", "Autostart:      enable",
			"State:          running") != nil {
			t.Errorf("%s: %s", what, out)
		}
		if err := onHosts(t, l, name, "", "running")(nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	migrate(t, l, name)
	moved := []string{"location.persistent", "autostart", "location.stale_definitions"}
	planned("moved without its definition", moved...)
	tf.Run(t, "state", "rm", address)
	tf.Run(t, "import", address, name)
	repaired("moved without its definition and imported", moved...)
	l.Virsh(t, "kvm2", "undefine", name)
	repaired("undefined while it runs", "location.persistent")
	l.Virsh(t, "kvm2", "autostart", "--disable", name)
	repaired("autostart switched off", "autostart")

	// What is off is not started at boot either.
	off := hcl{"run_strategy": `"Halted"`, "termination_grace_period": `"0s"`}
	tf.Config(t, zonedProvider(l)+config.with(off).String())
	l.Virsh(t, "kvm2", "undefine", name)
	tf.Run(t, "apply")
	noChanges(t, tf)
	l.Virsh(t, "kvm2", "autostart", name)
	if change := tf.Plan(t)[address]; change.Before["autostart"] != true || change.After["autostart"] != false {
		t.Errorf("the plan makes %v of autostart %v", change.After["autostart"], change.Before["autostart"])
	}
	tf.Run(t, "apply", "planned")
	if out := l.Virsh(t, "kvm2", "dominfo", name); !strings.Contains(out, "Autostart:      disable") {
		t.Error(out)
	}
	destroyAndCheck(t, l, tf, name)
}

// attributeOf returns an attribute of a nested object, nil if it isn't there.
func attributeOf(object any, name string) any {
	all, _ := object.(map[string]any)
	return all[name]
}
