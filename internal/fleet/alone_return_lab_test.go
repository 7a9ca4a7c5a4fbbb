package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A guest that this run has shut down is started again: it waits for a run that only changes another VM with its disk,
// for as long as its operation has time, and it doesn't wait for a host that hangs.
func TestLab_diskHasOneWriterAfterItsReturn(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	r := newRivals(t, l)

	var vms [2]*inventory.VM

	for i := range r.runs {
		r.wishes[i].Metadata.RunStrategy = "Halted"
		vms[i] = create(t, r.runs[i], l, r.wishes[i])
	}

	mine, theirs := 0, 1
	if vms[mine].UUID < vms[theirs].UUID { // The higher UUID gives up first.
		mine, theirs = theirs, mine
	}

	f, other := r.runs[mine], r.runs[theirs]
	restart := func(limit time.Duration) error {
		f.ForgetAll()

		if _, err := f.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()

		return f.WithVMLocked(ctx, vms[mine].UUID, lastOf(vms[mine]), "starting",
			func(ctx context.Context, vm *inventory.VM) error {
				vm.SilentHosts = nil // It ran here.

				return f.Start(ctx, f.AdmitReturn(vm), vm)
			})
	}

	_, unlock, err := other.Lock(t.Context(), other.Host(r.hosts[theirs].Name), vms[theirs].UUID, "a test")
	if err != nil {
		t.Fatal(err)
	}

	err = restart(20 * time.Second)
	tells(t, "with little time", err, placement.ErrShared, vms[0].Name, vms[1].Name)

	if errors.Is(err, context.DeadlineExceeded) || r.running(t, l) != 0 {
		t.Errorf("%v; %d run", err, r.running(t, l))
	}

	time.AfterFunc(10*time.Second, unlock)

	if err := restart(inventory.FinishTimeout); err != nil || r.running(t, l) != 1 {
		t.Errorf("%v; %d run", err, r.running(t, l))
	}

	if err := r.hosts[theirs].FreezeLibvirtd(t.Context()); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := r.hosts[theirs].ThawLibvirtd(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})

	l.Virsh(t, r.hosts[mine].Name, "destroy", vms[mine].UUID)

	ctx, cancel := context.WithTimeout(t.Context(), inventory.FinishTimeout)
	defer cancel()

	err = f.WithVMLocked(ctx, vms[mine].UUID, lastOf(vms[mine]), "starting",
		func(ctx context.Context, vm *inventory.VM) error {
			vm.SilentHosts = nil

			return f.Start(ctx, f.AdmitReturn(vm), vm)
		})
	if err != nil {
		t.Error("next to a host that hangs:", err)
	}
}
