package conditions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestAccConditions_endOfAVM: a guest that shut down and one that was saved have come to a good end, one without a
// definition will leave nothing behind, and libvirt knows since when a VM runs.
func TestAccConditions_endOfAVM(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	m := define(t, l, "kvm2", "noagent", "")
	boot := func() {
		t.Helper()
		m.virsh("start", m.name)
		l.AwaitConsole(t, m.host, m.name, lab.GuestUp)
	}
	ends := func(reason string) {
		t.Helper()
		m.await("the VM to be off", func() bool { return strings.Contains(m.virsh("domstate", m.name), "shut off") })
		s := m.look()
		s.is("phase", "Succeeded", "status", "Stopped", "status_reason", reason, "ready", "false")
		s.condition("Started", "False", reason, "libvirt", "Shutoff")
	}

	earliest := time.Now().Truncate(time.Second)
	boot()
	latest := time.Now()
	s := m.look()
	s.condition("Started", "True", "Booted", "libvirt", "Running")
	told, _ := s.at("conditions/Started/last_transition_time").(string)
	if at, err := time.Parse(time.RFC3339, told); err != nil || at.Before(earliest) || at.After(latest) {
		t.Errorf("it was started between %s and %s, and it says %q", earliest, latest, told)
	}

	m.virsh("shutdown", m.name, "--mode", "acpi")
	ends("Shutdown")
	boot()
	m.virsh("managedsave", m.name)
	ends("Saved")

	m.virsh("managedsave-remove", m.name)
	boot()
	m.virsh("undefine", m.name)
	s = m.look()
	s.is("phase", "Running", "status", "Running")
	s.condition("Defined", "False", "Transient", "libvirt", "")
	m.virsh("destroy", m.name)
}
