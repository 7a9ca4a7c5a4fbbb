package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A VM for which a run reserved room on another host doesn't move there once another run may have taken that room. It
// stays where it was, and moves with a new lock.
func TestLab_arrivalEndsWithItsLock(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)

	d := light(t, l, lab.Name(t)+"-there", nil)
	d.Metadata.Host, d.Metadata.RunStrategy = to.Name, "Halted"
	there := create(t, f, l, d)

	for _, tt := range []struct{ name, strategy, last, state string }{
		{"live", "Always", "migration started", "running"}, // logged after the room is reserved
		{"cold", "Halted", "handing over definition", "shut off"},
	} {
		d := light(t, l, lab.Name(t)+"-"+tt.name, nil)
		d.Metadata.Host, d.Metadata.RunStrategy = from.Name, tt.strategy
		vm := create(t, f, l, d)

		held, permit, err := f.Admit(t.Context(), there) // All of this run's operations share the lock.
		if err != nil {
			t.Fatal(err)
		}
		defer permit.Release()

		lock, gone, reached := fleettest.Lease(t, l, to, "placement"), held.Done(), false

		listen(f, &onLog{Message: tt.last, Do: func() {
			reached = true

			l.Virsh(t, to.Name, "secret-undefine", lock)
			fleettest.Await(t, gone)
		}})

		if _, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, migration.Options{}); !reached ||
			!errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s, reached %t: %v; want the lost lease", tt.name, reached, err)
		}

		onlyOn(t, f, vm.UUID, from.Name)

		if state := l.Virsh(t, from.Name, "domstate", vm.UUID); !strings.Contains(state, tt.state) {
			t.Errorf("%s: it is %s", tt.name, state)
		}

		permit.Release()

		now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, migration.Options{})
		if err != nil || now.Host != to.Name {
			t.Errorf("%s, with a new lock: %+v, %v", tt.name, now, err)
		}
	}
}
