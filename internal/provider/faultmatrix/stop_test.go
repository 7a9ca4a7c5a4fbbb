package faultmatrix

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAccFaults_stop: a fault hits while a guest, which doesn't react, is asked to shut down.
func TestAccFaults_stop(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	config := func(strategy, limit string) string {
		return s.block() + s.vm(s.from, fmt.Sprintf("run_strategy = %q\n  termination_grace_period = \"10s\"\n  "+
			"timeouts = { update = %q }", strategy, limit))
	}
	// The guest is asked as soon as the lock is taken.
	asked := func() func() bool { return after(2*time.Second, locked(s.from)) }
	unable, stops := []string{"Error: Unable to update virtual machine"}, []string{"Plan: 0 to add, 1 to change"}
	for _, c := range []struck{
		{"SSH cut at the source", asked(), cut(s.from), true, unable, stops, false},
		{"SSH cut at the target", asked(), cut(s.to), false, nil, []string{noChanges}, false},
		{"libvirtd killed", asked(), daemonKilled(s.from), true, unable, stops, false},
		{"libvirtd frozen", asked(), daemonFrozen(s.from), true, unable, stops, false},
		{"QEMU killed", asked(), qemuKilled(s.from, s.name), false, nil, []string{noChanges}, true},
		{
			"QEMU frozen", asked(), qemuFrozen(s.from, s.name), false,
			[]string{"Virtual machine was forced off"},
			[]string{noChanges},
			false,
		},
		{"link cut", asked(), linkCut(s.from), true, unable, stops, false},
		{
			"disk full", locked(s.from), definitionsFull(s.from), true, append([]string{"No space left on device"}, unable...),
			stops, false,
		},
	} {
		limit := "60s"
		if c.fault == "QEMU frozen" {
			limit = "3m" // libvirt waits for a QEMU that doesn't react before it kills it.
		}
		s.tf.Config(t, config("Always", limit))
		s.tf.Run(t, "apply")
		s.tf.Config(t, config("Halted", limit))
		s.play(t, c)
		if got := s.state(t, s.from); !strings.HasPrefix(got, "shut off") {
			t.Errorf("%s: it is %q", c.fault, got)
		}
	}
	s.tf.Run(t, "destroy")
}
