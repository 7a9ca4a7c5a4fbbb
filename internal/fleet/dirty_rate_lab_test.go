package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	guestagent "github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// inGuest runs a shell command in the VM's guest to its end.
func inGuest(t *testing.T, f *Fleet, vm *inventory.VM, command string) {
	t.Helper()

	report, err := f.GuestInfo(t.Context(), vm, guestagent.Options{
		Only:  []guestagent.Group{guestagent.GroupHostname},
		Probe: &guestagent.Probe{Command: []string{"/bin/sh", "-c", command}, Timeout: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}

	if p := report.Probe; p == nil || !p.Exited || p.ExitStatus == nil || *p.ExitStatus != 0 {
		t.Fatalf("%s: %+v (%v)", command, p, report.Unavailable)
	}
}

// Each measurement is of its own time: what was measured before is forgotten. So is the guest's clock, whatever became
// of it.
func TestLab_dirtyRateIsNeverStale(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, "alice", nil)
	vm := waitAgent(t, f, create(t, f, l, guest(l, lab.Name(t), "")))
	measure := func() uint64 {
		t.Helper()

		rate, err := stats.DirtyRate(t.Context(), vm.Conn(), vm.UUID, 2*time.Second, libvirt.DirtyRatePageSampling)
		if err != nil {
			t.Fatal(err)
		}

		return rate
	}

	// What is written differs from one time to the next: the hypervisor compares what its samples hold.
	inGuest(t, f, vm, `cd /dev/shm
for b in a b c; do dd if=/dev/urandom of=$b bs=1M count=4; done
: >writing
(while [ -e writing ]; do
	for b in a b c; do cat $b $b $b $b $b $b $b $b $b $b $b $b 1<>written; done
done; : >rested) >/dev/null 2>&1 &`)

	var busy uint64

	within, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for busy < 12<<20 && within.Err() == nil {
		busy = measure()
	}

	inGuest(t, f, vm, "cd /dev/shm; rm writing; until [ -e rested ]; do sleep 0.1; done")

	quiet := measure()
	t.Logf("written per second: %d and then %d MiB", busy>>20, quiet>>20)

	if quiet >= busy/2 {
		t.Errorf("the guest wrote %d bytes per second, and %d when it had stopped", busy, quiet)
	}

	// A guest that was paused, or saved to a file, has the time of day again when it runs.
	for _, still := range []string{"suspend", "managedsave"} {
		inGuest(t, f, vm, "ln -sf /bin/busybox /sbin/hwclock; date -s 2001-01-01") // Its agent needs that tool.
		l.Virsh(t, vm.Host, still, vm.Name)

		now, err := f.FindNow(t.Context(), vm.UUID, lastOf(vm))
		if err != nil {
			t.Fatal(err)
		}

		gaveUp := false
		listen(f, &onLog{Message: "guest's clock not set", Do: func() { gaveUp = true }})

		if still == "suspend" {
			err = f.Resume(t.Context(), now)
		} else {
			err = f.WithVMLocked(t.Context(), vm.UUID, lastOf(vm), "starting", admitAndStart(f))
		}

		if err != nil {
			t.Fatal(err)
		}

		l.AwaitAgent(t, vm.Host, vm.Name) // Who hasn't heard from it yet gives it no more than five seconds.

		if off := clockIsOff(t, f, vm.UUID, vm.Host); off > time.Hour && !gaveUp {
			t.Errorf("after %s the guest's clock is off by %v", still, off)
		}
	}
}

// movedMeanwhile is a host that begins to move the VM as soon as the measurement has begun.
type movedMeanwhile struct {
	stats.Conn
	move func()
}

func (m movedMeanwhile) StartDirtyRate(
	ctx context.Context, uuid string, seconds int, mode libvirt.DirtyRateMode,
) error {
	err := m.Conn.StartDirtyRate(ctx, uuid, seconds, mode)
	m.move()

	return err
}

// What is measured while the VM begins to move is of its migration as much as of its guest: it is not told.
func TestLab_dirtyRateWhileTheVMIsMoved(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	alice, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm := unpinned(t, alice, l, "dirty=8")
	order := move.Order{
		UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm2",
		Options: migration.Options{Bandwidth: new(uint64(1 << 20))},
	}
	over := make(chan error, 1)
	conn := movedMeanwhile{vm.Conn(), func() {
		go func() {
			_, _, err := alice.MoveOnce(t.Context(), order)
			over <- err
		}()
		awaitJob(t, bob, vm.UUID, over)
	}}

	rate, err := stats.DirtyRate(t.Context(), conn, vm.UUID, time.Second, libvirt.DirtyRatePageSampling)
	if !errors.Is(err, stats.ErrMigrating) {
		t.Errorf("measured %d, %v", rate, err)
	}

	if _, err := bob.WithdrawMigration(t.Context(), vm.UUID, lastOf(vm), order.ID); err != nil {
		t.Error(err)
	}

	if err := fleettest.Await(t, over); !errors.Is(err, move.ErrNotMoved) {
		t.Errorf("who moved it: %v", err)
	}
}
