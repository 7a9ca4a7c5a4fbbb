package faultmatrix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// drained is a host with two VMs that are not managed with Terraform, and leave it one after the other.
type drained struct {
	*scene
	names []string
	// limit is the timeout of the drain and of its end.
	limit time.Duration
}

func newDrained(t *testing.T) *drained {
	t.Helper()
	d := &drained{scene: newScene(t), limit: brief}
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", d.name, i)
		d.names = append(d.names, name)
		d.l.RemoveDomain(t, name)
		d.l.Define(t, d.from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
			<os><type arch="x86_64">hvm</type></os></domain>`, name))
		d.l.Virsh(t, d.from.Name, "start", name)
	}
	return d
}

// maintain declares the maintenance, or that there is none.
func (d *drained) maintain(t *testing.T, on bool) {
	t.Helper()
	config := d.block()
	if on {
		config += fmt.Sprintf("resource \"virtfleet_host_maintenance\" \"this\" {\n  host = %[1]q\n  restore = true\n"+
			"  timeouts = { create = \"%[2]v\", delete = \"%[2]v\" }\n}\n", d.from.Name, d.limit)
	}
	d.tf.Config(t, config)
}

// oneLeft says that a host has one of the VMs no more.
func (d *drained) oneLeft(h *lab.Host) func() bool {
	return func() bool {
		for _, name := range d.names {
			if _, err := os.Stat(h.Path("/etc/libvirt/qemu/" + name + ".xml")); err != nil {
				return true
			}
		}
		return false
	}
}

// unconfirmed says that one of the VMs runs on the target, and that the source hasn't been told.
func (d *drained) unconfirmed() bool {
	return slices.ContainsFunc(d.names, func(name string) bool {
		return noted(d.to, name, isRunning) && noted(d.from, name, isHandedOver)
	})
}

// all expects both VMs to run on a host and the other one to have none of them. One whose QEMU was killed is off, where
// it was; it is started.
func (d *drained) all(t *testing.T, fault string, h *lab.Host) {
	t.Helper()
	for _, name := range d.names {
		for _, other := range []*lab.Host{d.from, d.to} {
			state, err := d.l.TryVirsh(t, other.Name, "domstate", "--reason", name)
			if state = strings.TrimSpace(state); err != nil {
				state = ""
			}
			if fault == "QEMU killed" && strings.HasPrefix(state, "shut off") {
				d.l.Virsh(t, other.Name, "start", name)
				continue
			}
			if strings.HasPrefix(state, "running") != (other == h) || other != h && state != "" {
				t.Errorf("%s: host %s has %s as %q", fault, other.Name, name, state)
			}
		}
	}
}

// gather brings back what the end of a maintenance didn't: it doesn't know of a VM that left while the host that keeps
// its record was silent.
func (d *drained) gather(t *testing.T) {
	t.Helper()
	for name := range strings.FieldsSeq(d.l.Virsh(t, d.to.Name, "list", "--name")) {
		if err := d.to.Migrate(t.Context(), name, d.from); err != nil {
			t.Fatal(err)
		}
	}
	d.all(t, "", d.from)
}

// TestAccFaults_drain: a fault hits a drain when the first VM has left.
func TestAccFaults_drain(t *testing.T) {
	t.Parallel()
	spread(t, 4, func(t *testing.T, turn func() bool) {
		t.Helper()
		d := newDrained(t)
		moment := d.oneLeft(d.from)
		unable := []string{"Error: Unable to begin maintenance"}
		replaces := []string{"must be replaced", "Plan: 1 to add, 0 to change, 1 to destroy"}
		hit := func(play func(*testing.T, struck), c struck) {
			t.Helper()
			if !turn() {
				return
			}
			d.maintain(t, true)
			c.limit = d.limit
			play(t, c)
			d.all(t, c.fault, d.to)
			d.maintain(t, false)
			d.tf.Run(t, "apply")
			d.gather(t)
		}
		for _, c := range []struck{
			// It takes longest.
			{fault: "link cut", when: moment, harm: linkCut(d.from), fails: true, sees: unable, plan: replaces},
			{
				fault: "libvirtd killed", when: moment, harm: daemonKilled(d.from), fails: true, sees: unable,
				plan: replaces,
			},
			{ // The source's libvirtd keeps a process without a guest. A run has to tell it that the guest has left.
				fault: "libvirtd killed at the handover", when: d.unconfirmed, harm: daemonKilled(d.from), fails: true,
				sees: unable, plan: append([]string{"Virtual machine is being migrated", "(Migration)"}, replaces...),
			},
			{
				fault: "libvirtd frozen", when: moment, harm: daemonFrozen(d.from), fails: true, sees: unable,
				plan: replaces,
			},
			{fault: "QEMU killed", when: moment, harm: qemuKilled(d.from, d.names...), plan: []string{noChanges}},
			{
				fault: "QEMU frozen", when: moment, harm: qemuFrozen(d.from, d.names...), fails: true, sees: unable,
				plan: replaces,
			},
		} {
			hit(d.play, c)
		}
		d.limit = brief + time.Minute // The next run may have to take over locks on the target, one after the other.
		hit(d.play, struck{
			fault: "SSH cut at the target", when: moment, harm: cut(d.to), fails: true, sees: unable, plan: replaces,
		})
		d.limit = ample
		hit(d.playFrozen, struck{
			fault: "provider frozen", when: moment, fails: true, sees: unable, plan: []string{"Plan: 1 to add"},
		})
	})
}

// TestAccFaults_restore: a fault hits the end of a maintenance when the first VM has come back.
func TestAccFaults_restore(t *testing.T) {
	t.Parallel()
	spread(t, 4, func(t *testing.T, turn func() bool) {
		t.Helper()
		d := newDrained(t)
		moment := d.oneLeft(d.to)
		unable, ends := []string{"Error: Unable to end maintenance"}, []string{"Plan: 0 to add, 0 to change, 1 to destroy"}
		hit := func(play func(*testing.T, struck), c struck) {
			t.Helper()
			if !turn() {
				return
			}
			d.maintain(t, true)
			d.tf.Run(t, "apply")
			d.all(t, "", d.to)
			d.maintain(t, false)
			c.limit = d.limit
			play(t, c)
			d.all(t, c.fault, d.from)
		}
		// The host that can't be reached keeps up to three locks: its record's, that on its room, and a VM's. The next run
		// takes them over one after the other.
		d.limit = brief + time.Minute
		hit(d.play, struck{
			fault: "SSH cut at the target", when: moment, harm: cut(d.from), fails: true, sees: unable, plan: ends,
		})
		d.limit = brief
		for _, c := range []struck{
			{fault: "libvirtd killed", when: moment, harm: daemonKilled(d.to), fails: true, sees: unable, plan: ends},
			{fault: "libvirtd frozen", when: moment, harm: daemonFrozen(d.to), fails: true, sees: unable, plan: ends},
			{fault: "QEMU killed", when: moment, harm: qemuKilled(d.to, d.names...), plan: []string{noChanges}},
			{
				fault: "QEMU frozen", when: moment, harm: qemuFrozen(d.to, d.names...), fails: true, sees: unable,
				plan: ends,
			},
			{fault: "link cut", when: moment, harm: linkCut(d.to), fails: true, sees: unable, plan: ends},
			{fault: "disk full", when: moment, harm: definitionsFull(d.from), fails: true, sees: unable, plan: ends},
		} {
			hit(d.play, c)
		}
		d.limit = ample
		hit(d.playKilled, struck{fault: "provider killed", when: moment, plan: ends})
		hit(d.playFrozen, struck{fault: "provider frozen", when: moment, fails: true, sees: unable, plan: ends})
		if turn() {
			d.restoresTwice(t, "second run")
		}
	})
}

// restoresTwice ends a maintenance with two runs, the second of which begins when the first VM has come back.
func (d *drained) restoresTwice(t *testing.T, fault string) {
	t.Helper()
	d.maintain(t, true)
	d.tf.Run(t, "apply")
	d.maintain(t, false)
	second := acctest.NewCLI(t)
	second.Share(t, d.tf)
	first := d.start(t, struck{fault: fault, when: d.oneLeft(d.to)}, func(*acctest.Running) error { return nil })
	second.Run(t, "apply")
	if said, err := first.Wait(); err != nil {
		t.Errorf("%s: the first one fails: %v\n%s", fault, err, said)
	}
	d.all(t, fault, d.from)
	for _, tf := range []*acctest.CLI{d.tf, second} {
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("%s: left to do:\n%s", fault, out)
		}
	}
}
