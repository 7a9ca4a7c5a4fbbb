package faultmatrix

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAccFaults_stop: a fault hits while a guest, which doesn't react, is asked to shut down.
func TestAccFaults_stop(t *testing.T) {
	t.Parallel()
	spread(t, 3, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newScene(t)
		config := func(strategy string, limit time.Duration) string {
			return s.block() + s.vm(s.from, fmt.Sprintf("run_strategy = %q\n  termination_grace_period = \"10s\"\n  "+
				"timeouts = { update = \"%v\" }", strategy, limit))
		}
		// The guest is asked as soon as the lock is taken.
		asked := func() func() bool { return after(2*time.Second, locked(s.from)) }
		unable, stops := []string{"Error: Unable to update virtual machine"}, []string{"Plan: 0 to add, 1 to change"}
		for _, c := range []struck{
			{fault: "SSH cut at the source", when: asked(), harm: cut(s.from), fails: true, sees: unable, plan: stops},
			{fault: "SSH cut at the target", when: asked(), harm: cut(s.to), plan: []string{noChanges}},
			{
				fault: "libvirtd killed", when: asked(), harm: daemonKilled(s.from), fails: true, sees: unable,
				plan: stops,
			},
			{
				fault: "libvirtd frozen", when: asked(), harm: daemonFrozen(s.from), fails: true, sees: unable,
				plan: stops,
			},
			{
				fault: "QEMU killed", when: asked(), harm: qemuKilled(s.from, s.name), plan: []string{noChanges},
				chance: true,
			},
			{
				fault: "QEMU frozen", when: asked(), harm: qemuFrozen(s.from, s.name),
				sees: []string{"Virtual machine was forced off"}, plan: []string{noChanges},
				limit: 3 * time.Minute, // libvirt waits for a QEMU that doesn't react before it kills it.
			},
			{fault: "link cut", when: asked(), harm: linkCut(s.from), fails: true, sees: unable, plan: stops},
			{
				fault: "disk full", when: locked(s.from), harm: definitionsFull(s.from), fails: true,
				sees: append([]string{"No space left on device"}, unable...), plan: stops,
			},
		} {
			if !turn() {
				continue
			}
			c.limit = cmp.Or(c.limit, brief)
			s.tf.Config(t, config("Always", c.limit))
			s.tf.Run(t, "apply")
			s.tf.Config(t, config("Halted", c.limit))
			s.play(t, c)
			if got := s.state(t, s.from); !strings.HasPrefix(got, "shut off") {
				t.Errorf("%s: it is %q", c.fault, got)
			}
		}
		s.tf.Run(t, "destroy")
	})
}
