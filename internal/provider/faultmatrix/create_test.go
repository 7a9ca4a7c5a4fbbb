package faultmatrix

import (
	"fmt"
	"strings"
	"testing"
)

// TestAccFaults_create: a fault hits a create once the VM is defined. The VM isn't in the state, and the next apply
// completes it: another one is never created. One hits the destroy.
func TestAccFaults_create(t *testing.T) {
	t.Parallel()
	spread(t, 3, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newScene(t)
		s.tf.Config(t, s.block()+s.vm(s.from, fmt.Sprintf(
			"termination_grace_period = \"0s\"\n  timeouts = { create = \"%[1]v\", delete = \"%[1]v\" }", brief)))
		begun := s.defined(s.from, s.name)
		unable, creates := []string{"Error: Unable to create virtual machine"}, []string{"Plan: 1 to add"}
		full := append([]string{"No space left on device"}, unable...)
		for _, c := range []struck{
			{
				fault: "disk full", when: locked(s.from), harm: definitionsFull(s.from), fails: true, sees: full,
				plan: creates,
			},
			{fault: "SSH cut at the source", when: begun, harm: cut(s.from), fails: true, sees: unable, plan: creates},
			{
				fault: "libvirtd killed", when: begun, harm: daemonKilled(s.from), fails: true, sees: unable,
				plan: creates,
			},
			{
				fault: "libvirtd frozen", when: begun, harm: daemonFrozen(s.from), fails: true, sees: unable,
				plan: creates,
			},
			{fault: "link cut", when: begun, harm: linkCut(s.from), fails: true, sees: unable, plan: creates},
			{
				fault: "QEMU frozen", when: s.running(s.from), harm: qemuFrozen(s.from, s.name),
				plan: []string{noChanges},
			},
			{
				fault: "QEMU frozen while it starts", when: s.started(s.from), harm: qemuFrozen(s.from, s.name),
				sees: []string{"Warning: Unable to complete virtual machine"}, plan: []string{noChanges},
				// The host may not even say that the VM has begun to start.
				failed: &struck{sees: unable, plan: creates},
			},
		} {
			if c.limit = brief; turn() {
				s.play(t, c)
				s.created(t, c.fault)
			}
		}
		if turn() {
			s.playFrozen(t, struck{fault: "provider frozen", when: begun, fails: true, sees: unable, plan: creates})
			s.created(t, "provider frozen")
		}
		if turn() {
			s.tf.Run(t, "apply")
			s.becomes(t, "destroy", s.from, "running")
			s.destroyed(t, "destroy, link cut")
		}
	})
}

// destroyed cuts the host's link when the VM is off, and before its definition is removed. The VM stays in the state,
// and the next apply removes what is left.
func (s *scene) destroyed(t *testing.T, fault string) {
	t.Helper()
	s.tf.Config(t, s.block())
	isOff := s.is(s.from, "")
	s.play(t, struck{
		fault: fault, when: func() bool { return !isOff() }, harm: linkCut(s.from), fails: true,
		sees: []string{"Error: Unable to delete virtual machine"},
		plan: []string{"Plan: 0 to add, 0 to change, 1 to destroy"}, limit: brief,
	})
	if left := s.seen(t); strings.Contains(left, "<domain") {
		t.Errorf("%s: left after the next apply: %s", fault, left)
	}
}

// created expects the VM to run, on one host, and destroys it.
func (s *scene) created(t *testing.T, fault string) {
	t.Helper()
	// A start that QEMU or libvirtd held up continues by itself once they can.
	s.becomes(t, fault, s.from, "running")
	if got := s.state(t, s.to); got != "" {
		t.Errorf("%s: host %s has it as %q", fault, s.to.Name, got)
	}
	s.tf.Run(t, "destroy")
	if left := s.seen(t); strings.Contains(left, "<domain") {
		t.Errorf("%s: left after the destroy: %s", fault, left)
	}
}
