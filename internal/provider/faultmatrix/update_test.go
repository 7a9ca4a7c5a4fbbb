package faultmatrix

import (
	"fmt"
	"strings"
	"testing"
)

// TestAccFaults_update: a fault hits when an update has written the definition, and before the VM that runs has the
// change. What is left of it is in the next plan, and made by the next apply, without a restart.
func TestAccFaults_update(t *testing.T) {
	t.Parallel()
	spread(t, 2, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newScene(t)
		image := s.l.Image(t, s.from.Name, s.name, "raw", 1<<20)
		limit := 100
		limited := func() string { return fmt.Sprintf("<total_iops_sec>%d<", limit) }
		config := func() string {
			return s.block() + s.vm(s.from, fmt.Sprintf("termination_grace_period = \"0s\"\n  timeouts = { update = \"%v\" }\n"+
				"  disks = { root = { file = %q, format = \"raw\", io_tune = { total_iops_sec = %d } } }", brief, image, limit))
		}
		s.tf.Config(t, config())
		s.tf.Run(t, "apply")
		written := func() bool { return s.defined(s.from, limited())() }
		unable, updates := []string{"Error: Unable to update virtual machine"}, []string{
			"Plan: 0 to add, 1 to change", "Running virtual machine lacks changes", "disks.root.io_tune",
		}
		hit := func(play func(*testing.T, struck), c struck) {
			t.Helper()
			if !turn() {
				return
			}
			limit++
			s.tf.Config(t, config())
			play(t, c)
			for _, definition := range [][]string{{}, {"--inactive"}} {
				xml := s.l.Virsh(t, s.from.Name, append([]string{"dumpxml", s.name}, definition...)...)
				if !strings.Contains(xml, limited()) {
					t.Errorf("%s: %v hasn't the limit %d", c.fault, definition, limit)
				}
			}
		}
		for _, c := range []struck{
			{
				fault: "SSH cut at the source", when: written, harm: cut(s.from), fails: true, sees: unable,
				plan: updates,
			},
			{
				fault: "libvirtd killed", when: written, harm: daemonKilled(s.from), fails: true, sees: unable,
				plan: updates,
			},
			{
				fault: "libvirtd frozen", when: written, harm: daemonFrozen(s.from), fails: true, sees: unable,
				plan: updates,
			},
			{fault: "QEMU killed", when: written, harm: qemuKilled(s.from, s.name), fails: true, chance: true},
			{
				fault: "QEMU frozen", when: written, harm: qemuFrozen(s.from, s.name), fails: true, sees: unable,
				plan: []string{noChanges},
			},
			{fault: "link cut", when: written, harm: linkCut(s.from), fails: true, sees: unable, plan: updates},
			{
				fault: "disk full", when: locked(s.from), harm: definitionsFull(s.from), fails: true,
				sees: append([]string{"No space left on device"}, unable...),
				plan: []string{"Plan: 0 to add, 1 to change", "~ total_iops_sec"},
			},
		} {
			c.limit = brief
			hit(s.play, c)
		}
		hit(s.playKilled, struck{fault: "provider killed", when: written, plan: updates})
		hit(s.playFrozen, struck{fault: "provider frozen", when: written, fails: true, sees: unable, plan: updates})
		s.tf.Run(t, "destroy")
	})
}
