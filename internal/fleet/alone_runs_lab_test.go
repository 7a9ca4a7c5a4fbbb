package fleet

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// rivals are two VMs that write to one disk, each on a host of its own, and two runs that know both hosts.
type rivals struct {
	hosts  [2]*lab.Host
	runs   [2]*Fleet
	wishes [2]placement.Desired
}

// newRivals prepares two VMs that are off, or are to be created.
func newRivals(t *testing.T, l *lab.Lab) *rivals {
	t.Helper()

	r := &rivals{hosts: [2]*lab.Host{l.StartHost(t), l.StartHost(t)}}
	d := light(t, l, lab.Name(t), nil)

	for i, name := range []string{"alice", "bob"} {
		r.runs[i] = ownFleet(t, name, r.hosts[:]...)
		r.wishes[i] = d
		r.wishes[i].Spec.Name += "-" + name
		r.wishes[i].Metadata.Host = r.hosts[i].Name
	}

	return r
}

// running returns how many of the two VMs run.
func (r *rivals) running(t *testing.T, l *lab.Lab) (count int) {
	t.Helper()

	for i, h := range r.hosts {
		if strings.Contains(l.Virsh(t, h.Name, "list", "--name"), r.wishes[i].Spec.Name) {
			count++
		}
	}

	return count
}

// onlyOne fails the test unless one of the VMs runs, and the error of the other names both.
func (r *rivals) onlyOne(t *testing.T, l *lab.Lab, errs [2]error) {
	t.Helper()

	if n := r.running(t, l); n != 1 {
		t.Fatalf("%d of the two run: %v, %v", n, errs[0], errs[1])
	}

	failed := errors.Join(errs[0], errs[1])
	tells(t, "the other one", failed, placement.ErrShared, r.wishes[0].Spec.Name, r.wishes[1].Spec.Name)

	if errs[0] != nil && errs[1] != nil {
		t.Errorf("both failed: %v, %v", errs[0], errs[1])
	}
}

// Two runs start two VMs with one disk, on two hosts: at most one of them starts, whichever run looks first, and also
// if both look at the same moment.
func TestLab_diskHasOneWriterAcrossRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	r := newRivals(t, l)

	var vms [2]*inventory.VM

	for i := range r.runs {
		off := r.wishes[i]
		off.Metadata.RunStrategy = "Halted"
		vms[i] = create(t, r.runs[i], l, off)
	}

	start := func(i int) error {
		_, err := r.runs[i].Update(t.Context(), vms[i].UUID, lastOf(vms[i]), r.wishes[i])

		return err
	}
	stop := func() {
		for i, f := range r.runs {
			off := r.wishes[i]
			off.Metadata.RunStrategy = "Halted"

			if _, err := f.Update(t.Context(), vms[i].UUID, lastOf(vms[i]), off); err != nil {
				t.Fatal(err)
			}

			f.ForgetAll()
		}

		for _, f := range r.runs {
			if _, err := f.Snapshot(t.Context()); err != nil { // Both know both, as they are now.
				t.Fatal(err)
			}
		}
	}

	// The first run has looked, and is about to start its VM.
	stop()

	var (
		errs [2]error
		wg   sync.WaitGroup
	)

	listen(r.runs[0], &onLog{Message: "starting VM", Do: func() {
		done := make(chan struct{})

		wg.Go(func() { errs[1] = start(1); close(done) })

		select {
		case <-done:
		case <-time.After(3 * time.Second): // It waits for this start.
		}
	}})

	errs[0] = start(0)

	fleettest.AwaitAll(t, &wg)
	r.onlyOne(t, l, errs)

	// Both at once.
	for range 3 {
		stop()

		errs = [2]error{}

		for i := range r.runs {
			wg.Go(func() { errs[i] = start(i) })
		}

		fleettest.AwaitAll(t, &wg)
		r.onlyOne(t, l, errs)
	}
}

// Two runs create two VMs with one disk on two hosts. Neither knew of the other VM before: each looks again once its
// own VM is defined.
func TestLab_newDiskHasOneWriterAcrossRuns(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	r := newRivals(t, l)

	for _, f := range r.runs {
		if _, err := f.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	var errs [2]error

	createOne := func(i int) {
		l.RemoveDomain(t, r.wishes[i].Spec.Name)

		var vm *inventory.VM
		if vm, errs[i] = r.runs[i].Create(t.Context(), r.wishes[i]); vm != nil {
			if err := r.runs[i].FinishCreate(t.Context(), vm); err != nil {
				t.Error(err)
			}
		}
	}

	// The first run has defined its VM, and hasn't looked yet.
	var wg sync.WaitGroup

	listen(r.runs[0], &onLog{Message: "starting VM", Do: func() {
		done := make(chan struct{})

		wg.Go(func() { createOne(1); close(done) })

		select {
		case <-done:
		case <-time.After(3 * time.Second):
		}
	}})

	createOne(0)
	fleettest.AwaitAll(t, &wg)
	r.onlyOne(t, l, errs)
}

// A new VM whose start is refused, or is interrupted before it is asked for, was never started: it goes with its own
// disk, which no guest has seen, and nothing of it is left.
func TestLab_newVMThatNeverStartedIsRemoved(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	r := newRivals(t, l)
	pool, host := lab.Name(t), r.hosts[0].Name
	dir := directory(t, l, host)
	diskPool(t, l, host, pool, dir)

	d := &r.wishes[0]
	d.Spec.Disks = maps.Clone(d.Spec.Disks)
	d.Spec.Disks["own"] = domain.Disk{Source: domain.DiskSource{File: "/to/be/made"}}
	d.OwnDisks = map[string]domain.OwnDisk{"own": {Pool: pool, Bytes: 1 << 20}}

	l.RemoveDomain(t, d.Spec.Name)

	createFirst := func(what string, interrupted bool) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		started := false

		listen(r.runs[0], &onLog{Message: "starting VM", Do: func() {
			started = true

			if made := filesOn(t, l, host, dir); len(made) != 1 {
				t.Errorf("%s: before the start there are %q; want its disk", what, made)
			}

			if interrupted {
				cancel()
			}
		}})

		vm, err := r.runs[0].Create(ctx, *d)
		if vm != nil || !started {
			t.Errorf("%s: %+v is left of it; its start began: %t", what, vm, started)
		}

		if left := filesOn(t, l, host, dir); len(left) > 0 {
			t.Errorf("%s: %q is left of it", what, left)
		}

		if all := l.Virsh(t, host, "list", "--all", "--name"); strings.Contains(all, d.Spec.Name) {
			t.Errorf("%s: it is still defined: %s", what, all)
		}

		return err
	}

	if err := createFirst("interrupted", true); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}

	// Its run has read the hosts before the other VM is created, so that only the start sees that.
	r.runs[0].ForgetAll()

	if _, err := r.runs[0].Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}

	winner := create(t, r.runs[1], l, r.wishes[1])

	tells(t, "refused", createFirst("refused", false), placement.ErrShared, d.Spec.Name, winner.Name)
}
