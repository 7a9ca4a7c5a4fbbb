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
	s := newScene(t)
	image := s.l.Image(t, s.from.Name, s.name, "raw", 1<<20)
	limit := 100
	limited := func() string { return fmt.Sprintf("<total_iops_sec>%d<", limit) }
	config := func() string {
		return s.block() + s.vm(s.from, fmt.Sprintf("termination_grace_period = \"0s\"\n  timeouts = { update = \"40s\" }\n"+
			"  disks = { root = { file = %q, format = \"raw\", io_tune = { total_iops_sec = %d } } }", image, limit))
	}
	s.tf.Config(t, config())
	s.tf.Run(t, "apply")
	written := func() bool { return s.defined(s.from, limited())() }
	unable, updates := []string{"Error: Unable to update virtual machine"}, []string{
		"Plan: 0 to add, 1 to change", "Running virtual machine lacks changes", "disks.root.io_tune",
	}
	hit := func(play func(*testing.T, struck), c struck) {
		t.Helper()
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
		{"libvirtd killed", written, daemonKilled(s.from), true, unable, updates, false},
		{"libvirtd frozen", written, daemonFrozen(s.from), true, unable, updates, false},
		{"QEMU killed", written, qemuKilled(s.from, s.name), true, nil, nil, true},
		{"QEMU frozen", written, qemuFrozen(s.from, s.name), true, unable, []string{noChanges}, false},
		{"link cut", written, linkCut(s.from), true, unable, updates, false},
		{
			"disk full", locked(s.from), definitionsFull(s.from), true, append([]string{"No space left on device"}, unable...),
			[]string{"Plan: 0 to add, 1 to change", "~ total_iops_sec"},
			false,
		},
	} {
		hit(s.play, c)
	}
	hit(s.playKilled, struck{fault: "provider killed", when: written, plan: updates})
	hit(s.playFrozen, struck{fault: "provider frozen", when: written, fails: true, sees: unable, plan: updates})
	s.tf.Run(t, "destroy")
}
