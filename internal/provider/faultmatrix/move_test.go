package faultmatrix

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestAccFaults_preCopy: a fault hits while memory is copied. The VM runs on one of the hosts, and the next apply moves
// it.
func TestAccFaults_preCopy(t *testing.T) {
	t.Parallel()
	spread(t, 4, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newScene(t)
		config := func(host *lab.Host, more string) {
			s.tf.Config(t, s.block()+s.vm(host, fmt.Sprintf(
				"termination_grace_period = \"0s\"\n  timeouts = { update = \"%v\" }\n%s", brief, more)))
		}
		config(s.from, "")
		s.tf.Run(t, "apply")
		unable, moves := []string{"Error: Unable to move virtual machine"}, []string{"Plan: 0 to add, 1 to change"}
		for _, c := range []struct {
			fault string
			when  func() func() bool
			harm  func() harm
			sees  string
			again []string
		}{
			{
				"libvirtd frozen", func() func() bool { return s.started(s.to) }, func() harm { return daemonFrozen(s.from) },
				"", nil,
			},
			// Its libvirtd starts the guest once it continues.
			{
				"frozen at the handover", func() func() bool { return s.handedOver(s.from) },
				func() harm { return daemonFrozen(s.to) }, "as Paused (Migration)",
				nil,
			},
			// Its libvirtd wasn't told that the guest runs on the target, and keeps a process without one.
			{
				"source frozen at the handover", s.unconfirmed, func() harm { return daemonFrozen(s.from) },
				"it isn't known what host",
				[]string{"it isn't known what host"},
			},
			{
				"QEMU frozen", func() func() bool { return s.started(s.to) },
				func() harm { return qemuFrozen(s.from, s.name) }, "", nil,
			},
		} {
			if !turn() {
				continue
			}
			from, to := s.from, s.to
			config(to, "migration_options = { bandwidth = \"2Mi\", progress_timeout = \"10s\" }")
			s.play(t, struck{
				fault: c.fault, when: c.when(), harm: c.harm(), fails: true, sees: append([]string{c.sees}, unable...),
				again: c.again, plan: moves,
			})
			if here, there := s.state(t, from), s.state(t, to); here != "" || !strings.HasPrefix(there, "running") {
				t.Errorf("%s: the source has it %q, the target %q", c.fault, here, there)
			}
			s.from, s.to = to, from
		}
		s.tf.Run(t, "destroy")
	})
}

// TestAccFaults_coldMove: a fault hits while the disk of a VM that is off is copied. The VM stays off at its source
// with its disk. The next apply removes what was begun, and moves it.
func TestAccFaults_coldMove(t *testing.T) {
	t.Parallel()
	spread(t, 3, func(t *testing.T, turn func() bool) {
		t.Helper()
		s := newScene(t)
		image := s.l.Image(t, s.from.Name, s.name, "raw", 32<<20)
		s.l.Run(t, s.from.Name, "sh", "-c", "head -c 32M /dev/urandom >"+image)
		config := func(host *lab.Host) {
			s.tf.Config(t, s.block()+s.vm(host, fmt.Sprintf("run_strategy = \"Halted\"\n  timeouts = { update = \"3m\" }\n"+
				"  disks = { root = { volume = %q, format = \"raw\" } }\n  migration_options = { keep_source_disks = false }",
				image)))
		}
		config(s.from)
		s.tf.Run(t, "apply")
		content := s.l.Run(t, s.from.Name, "sha256sum", image)
		unable, moves := []string{"Error: Unable to move virtual machine"}, []string{"Plan: 0 to add, 1 to change"}
		for _, c := range []struct {
			fault string
			play  func(*testing.T, struck)
			harm  func() harm
		}{
			{"SSH cut at the source", s.play, func() harm { return cut(s.from) }},
			{"SSH cut at the target", s.play, func() harm { return cut(s.to) }},
			{"libvirtd frozen at the target", s.play, func() harm { return daemonFrozen(s.to) }},
			{"link cut", s.play, func() harm { return linkCut(s.to) }},
			{"provider killed", s.playKilled, nil},
			{"provider frozen", s.playFrozen, nil},
			{"libvirtd killed", s.play, func() harm { return daemonKilled(s.from) }},
			{"libvirtd frozen", s.play, func() harm { return daemonFrozen(s.from) }},
		} {
			if !turn() {
				continue
			}
			from, to := s.from, s.to
			config(to)
			hit := struck{fault: c.fault, when: copied(to, image), fails: true, sees: unable, plan: moves}
			if c.harm != nil {
				hit.harm = c.harm()
			}
			c.play(t, hit)
			if here, there := s.state(t, from), s.state(t, to); here != "" || !strings.HasPrefix(there, "shut off") {
				t.Errorf("%s: the source has it %q, the target %q", c.fault, here, there)
			}
			if now := s.l.Run(t, to.Name, "sha256sum", image); now != content {
				t.Errorf("%s: the disk is %s, it was %s", c.fault, now, content)
			}
			s.from, s.to = to, from
		}
		if turn() {
			s.drainsCold(t, "link cut during a drain", image, content)
		}
		s.tf.Run(t, "destroy")
	})
}

// copied says that a part of an image has come to a host.
func copied(to *lab.Host, image string) func() bool {
	return func() bool {
		var stat unix.Stat_t
		return unix.Stat(to.Path(image), &stat) == nil && stat.Blocks > 0
	}
}

// drainsCold drains the VM's host, which shuts the VM down to move it with its disk, and cuts the target's link while
// the disk is copied. The VM is started again where it was, before the drain fails. The next apply moves and starts it.
func (s *scene) drainsCold(t *testing.T, fault, image, content string) {
	t.Helper()
	from, to := s.from, s.to
	config := func(more string) {
		s.tf.Config(t, s.block()+strings.Replace(s.vm(from, fmt.Sprintf("termination_grace_period = \"0s\"\n"+
			"  disks = { root = { volume = %q, format = \"raw\" } }", image)), fmt.Sprintf("host = %q", from.Name), "", 1)+
			fmt.Sprintf("resource \"virtfleet_eviction_policy\" \"this\" {\n  name = %[1]q\n"+
				"  selector = { names = [%[1]q] }\n  strategy = \"LiveMigrate\"\n  fallback = \"ColdMigrate\"\n"+
				"  migration_options = { keep_source_disks = false }\n}\n", s.name)+more)
	}
	config("")
	s.tf.Run(t, "apply")
	s.becomes(t, fault, from, "running")
	config(fmt.Sprintf("resource \"virtfleet_host_maintenance\" \"this\" {\n  host = %q\n"+
		"  timeouts = { create = \"%v\" }\n  depends_on = [virtfleet_eviction_policy.this]\n}\n", from.Name, brief))
	link, looked := linkCut(to), false
	look := func() {
		if now := s.state(t, from); !looked && !strings.HasPrefix(now, "running (booted)") {
			t.Errorf("%s: after the drain has failed, host %s has it %q", fault, from.Name, now)
		}
		looked = true
	}
	undo := link.undo
	link.undo = func(ctx context.Context) error {
		look()
		return undo(ctx)
	}
	s.play(t, struck{
		fault: fault, when: copied(to, image), harm: link, fails: true, sees: []string{"Error: Unable to begin maintenance"},
		plan: []string{"must be replaced", "Plan: 1 to add"}, limit: brief,
	})
	if here, there := s.state(t, from), s.state(t, to); here != "" || there != "running (booted)" {
		t.Errorf("%s: the source has it %q, the target %q", fault, here, there)
	}
	if now := s.l.Run(t, to.Name, "sha256sum", image); now != content {
		t.Errorf("%s: the disk is %s, it was %s", fault, now, content)
	}
	s.from, s.to = to, from
}
