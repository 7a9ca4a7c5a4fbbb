package faultmatrix

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestAccFaults_agentHung: an agent that is connected, and answers nothing, holds up neither a move nor a drain nor its
// end nor an update. A stop asks the guest in another way.
func TestAccFaults_agentHung(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	config := func(vm, maintenance string) {
		t.Helper()
		s.tf.Config(t, s.block()+s.guest(vm)+maintenance)
	}
	settled := func(what string, h *lab.Host) {
		t.Helper()
		if got := s.state(t, h); !strings.HasPrefix(got, "running") {
			t.Errorf("%s: on host %s it is %q", what, h.Name, got)
		}
		if out, empty := s.tf.Empty(t); !empty {
			t.Errorf("%s: left to do:\n%s", what, out)
		}
	}
	const patient = "termination_grace_period = \"90s\"\n  "
	config(patient+fmt.Sprintf("host = %q", s.from.Name), "")
	s.tf.Run(t, "apply")
	s.l.AwaitAgent(t, s.from.Name, s.name)
	s.l.HangAgent(t, s.from.Name, s.name)

	config(patient+fmt.Sprintf("host = %q", s.to.Name), "")
	s.tf.Run(t, "apply")
	settled("pre-copy", s.to)

	config(patient, "")
	s.tf.Run(t, "apply")
	config(patient, fmt.Sprintf("resource \"virtfleet_host_maintenance\" \"this\" {\n  host = %q\n  restore = true\n}",
		s.to.Name))
	s.tf.Run(t, "apply")
	settled("drain", s.from)
	config(patient, "")
	s.tf.Run(t, "apply")
	settled("restore", s.to)

	// Its channel is open, which is what wait_for waits for.
	config(patient+"title = \"Web\"\n  wait_for = { guest_agent = true, timeout = \"5s\" }", "")
	s.tf.Run(t, "apply")
	settled("update", s.to)

	config(patient+"title = \"Web\"\n  run_strategy = \"Halted\"", "")
	s.tf.Run(t, "apply")
	if got := s.state(t, s.to); got != "shut off (shutdown)" {
		t.Errorf("stop: it is %q", got)
	}
	if out, empty := s.tf.Empty(t); !empty {
		t.Errorf("stop: left to do:\n%s", out)
	}
	s.tf.Run(t, "destroy")
}
