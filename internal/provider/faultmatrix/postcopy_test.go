package faultmatrix

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// slowly is a guest that moves in post-copy, slowly enough to be hit there.
type slowly struct{ *scene }

func newSlowly(t *testing.T) *slowly {
	t.Helper()
	s := &slowly{newScene(t)}
	s.on(t, s.from, "5m")
	s.tf.Run(t, "apply")
	s.l.AwaitAgent(t, s.from.Name, s.name)
	return s
}

// on pins the VM to a host, with a limit for the apply.
func (s *slowly) on(t *testing.T, host *lab.Host, limit string) {
	t.Helper()
	s.tf.Config(t, s.block()+s.guest(fmt.Sprintf(`host = %q
  termination_grace_period = "0s"
  timeouts                 = { update = %q }
  migration_options        = {
    allow_post_copy = true, bandwidth = "2Mi", completion_timeout_per_gib = "2s", recovery_timeout = "20s"
  }`, host.Name, limit)))
}

// leave moves the VM, which move applies, and expects its guest on the other host, not restarted.
func (s *slowly) leave(t *testing.T, fault, limit string, move func()) {
	t.Helper()
	from, to := s.from, s.to
	s.on(t, to, limit)
	// Before it begins: without a limit all memory has come before the fault.
	s.l.Virsh(t, from.Name, "migrate-setspeed", s.name, "8", "--postcopy")
	move()
	if here, there := s.state(t, from), s.state(t, to); here != "" || there != "running (migrated)" {
		t.Errorf("%s: the source has it %q, the target %q", fault, here, there)
	}
	s.from, s.to = to, from
}

// hit moves the VM while a fault hits. All of the memory comes, and the next apply does what is left to do, without
// another move.
func (s *slowly) hit(t *testing.T, play func(*testing.T, struck), c struck) {
	t.Helper()
	c.when, c.plan = s.inPostCopy(), []string{"Plan: 0 to add, 1 to change"}
	s.leave(t, c.fault, brief.String(), func() { play(t, c) })
}

// fail is hit for a fault that fails the apply.
func (s *slowly) fail(t *testing.T, fault string, h harm) {
	t.Helper()
	s.hit(t, s.play, struck{fault: fault, harm: h, fails: true, sees: []string{"Error: Unable to "}})
}

// TestAccFaults_postCopy: a fault hits when the guest runs on the target, and the rest of its memory is at the source.
func TestAccFaults_postCopy(t *testing.T) {
	t.Parallel()
	spread(t, 2, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newSlowly(t)
		if turn() {
			s.fail(t, "SSH cut at the source", cut(s.from))
		}
		if turn() {
			s.fail(t, "SSH cut at the target", cut(s.to))
		}
		if turn() {
			s.movesTwice(t, "second run")
		}
		if turn() {
			s.movesWithoutAgent(t, "agent hung")
		}
		s.tf.Run(t, "destroy")
	})
}

// movesTwice moves the VM with two runs, the second of which begins while memory is at the source.
func (s *slowly) movesTwice(t *testing.T, fault string) {
	t.Helper()
	s.leave(t, fault, "5m", func() {
		second := acctest.NewCLI(t)
		second.Share(t, s.tf)
		first := s.start(t, struck{fault: fault, when: s.inPostCopy()}, func(*acctest.Running) error { return nil })
		second.Run(t, "apply")
		if said, err := first.Wait(); err != nil {
			t.Errorf("%s: the first one fails: %v\n%s", fault, err, said)
		}
		for _, tf := range []*acctest.CLI{s.tf, second} {
			if out, empty := tf.Empty(t); !empty {
				t.Errorf("%s: left to do:\n%s", fault, out)
			}
		}
	})
}

// movesWithoutAgent moves the VM once its agent has hung up.
func (s *slowly) movesWithoutAgent(t *testing.T, fault string) {
	t.Helper()
	s.l.HangAgent(t, s.from.Name, s.name)
	s.leave(t, fault, "5m", func() {
		s.trap.set(s.inPostCopy(), func() {})
		s.tf.Run(t, "apply")
		if !s.trap.sprung() {
			t.Error(fault + ": it was never in post-copy")
		}
		if out, empty := s.tf.Empty(t); !empty {
			t.Errorf("%s: left to do:\n%s", fault, out)
		}
	})
}

// TestAccFaults_postCopyFrozen: something freezes then, or the provider is killed while the hosts keep their
// connection.
func TestAccFaults_postCopyFrozen(t *testing.T) {
	t.Parallel()
	spread(t, 2, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newSlowly(t)
		if turn() {
			s.fail(t, "libvirtd frozen", daemonFrozen(s.from))
		}
		if turn() {
			s.fail(t, "QEMU frozen", qemuFrozen(s.from, s.name))
		}
		// libvirt notices that its client is gone, and QEMU continues without one.
		if turn() {
			s.leave(t, "provider killed", ample.String(), func() {
				s.playKilled(t, struck{
					fault: "provider killed", when: s.inPostCopy(), plan: []string{"Plan: 0 to add, 1 to change"},
				})
			})
		}
		// The frozen run fails if its time is over when it continues. Otherwise it finds the VM where it was to be.
		if turn() {
			s.hit(t, s.playFrozen, struck{fault: "provider frozen", chance: true})
		}
		s.tf.Run(t, "destroy")
	})
}
