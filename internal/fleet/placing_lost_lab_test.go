package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Once another run may place VMs on a host, this run neither defines nor starts a VM for which it reserved room there
// before, gives no VM a device, and says why. With a new lock it does.
func TestLab_reservationEndsWithItsLock(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	h := l.StartHost(t)
	f := ownFleet(t, "alice", h)
	f.Host(h.Name).Config.Devices = map[string][]domain.HostPart{"gpu": fleettest.PCIDevices(t, l, h, 1)}

	d := light(t, l, lab.Name(t), nil)
	d.Metadata.RunStrategy = "Halted"
	off := create(t, f, l, d)
	d.Metadata.RunStrategy = "Always"

	changed := d
	changed.Metadata.RunStrategy = "Halted"
	changed.Spec.HostDevices = map[string]domain.Row{"card": {"class": "gpu"}}

	second := light(t, l, lab.Name(t)+"-b", nil)
	second.Metadata.RunStrategy = "Halted"

	attempts := []struct {
		what string // is logged when the room is reserved
		try  func() error
	}{
		{"defining VM", func() error {
			_, err := f.Create(t.Context(), second)

			return err
		}},
		{"changing definition", func() error {
			_, err := f.Update(t.Context(), off.UUID, lastOf(off), changed)

			return err
		}},
		{"starting VM", func() error {
			_, err := f.Update(t.Context(), off.UUID, lastOf(off), d)

			return err
		}},
	}

	for _, a := range attempts {
		held, permit, err := f.Admit(t.Context(), off) // All of this run's operations share the lock.
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Release()

		lock, gone, reached := fleettest.Lease(t, l, h, "placement"), held.Done(), false

		listen(f, &onLog{Message: a.what, Do: func() {
			reached = true

			l.Virsh(t, h.Name, "secret-undefine", lock)
			fleettest.Await(t, gone)
		}})

		if err := a.try(); !reached || !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s, reached %t: %v; want the lost lease", a.what, reached, err)
		}

		if names := l.Virsh(t, h.Name, "list", "--all", "--name"); strings.Contains(names, second.Spec.Name) {
			t.Fatalf("%s: the host has %s", a.what, names)
		}

		if xml := l.Virsh(t, h.Name, "dumpxml", off.UUID); strings.Contains(xml, "<hostdev ") {
			t.Fatalf("%s: it has the device: %s", a.what, xml)
		}

		if state := l.Virsh(t, h.Name, "domstate", off.UUID); !strings.Contains(state, "shut off") {
			t.Fatalf("%s: it is %s", a.what, state)
		}

		if err := a.try(); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s again: %v; want the lost lease", a.what, err)
		}

		permit.Release()
	}

	create(t, f, l, second)

	if now, err := f.Update(t.Context(), off.UUID, lastOf(off), d); err != nil || !now.Active {
		t.Errorf("with a new lock: %+v, %v", now, err)
	}
}
