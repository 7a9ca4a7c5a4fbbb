package drain_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A run that loses its lease stops, and says that: no user has cancelled it, and its time isn't over. The guest runs on
// where it was.
func TestLab_lostLeaseIsNoCancel(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	d := evacuee(t, l, "slow", map[string]string{"kind": "slow"})
	d.Spec.Kernel.Cmdline += " dirty=16"
	vm := booted(t, l, create(t, alone, l, d))

	crawl(t, f, policy.Selector{Labels: d.Metadata.Labels})

	lose := func(lock string, over <-chan error) {
		t.Helper()
		fleettest.AwaitCopying(t, alone.Host(from.Name), vm.UUID, over)
		l.Virsh(t, from.Name, "secret-undefine", fleettest.Lease(t, l, from, lock))

		err := fleettest.Await(t, over)
		if !errors.Is(err, fleet.ErrLeaseLost) {
			t.Errorf("lease %s: %v", lock, err)
		}

		for _, other := range []string{"interrupted", "cancel", "its time", "timeout"} {
			if strings.Contains(fmt.Sprint(err), other) {
				t.Errorf("lease %s: %q is in %v", lock, other, err)
			}
		}

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || now.Host != from.Name || !now.Running() || now.Migrating {
			t.Errorf("lease %s: %+v, %v; want it where it was", lock, now, err)
		}
	}

	moved := make(chan error, 1)
	go func() {
		_, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, crawling())
		moved <- err
	}()

	lose(vm.UUID, moved)

	left := make(chan error, 1)
	go func() { left <- (<-draining(t.Context(), f, from.Name)).err }()

	lose("maintenance", left)
}
