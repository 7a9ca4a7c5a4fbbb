package fleet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// slowImages makes libvirt on a host wait before it makes an image with qemu-img, until release is called. begun is
// called to wait until libvirt makes one.
func slowImages(t *testing.T, l *lab.Lab, host, dir string) (begun, release func()) {
	t.Helper()
	l.Run(t, host, "sh", "-ec", `cd "$0"
cp /usr/bin/qemu-img real
printf '#!/bin/sh\n: >%s/begun\nuntil [ -e %s/go ]; do sleep 0.1; done\nexec %s/real "$@"\n' "$0" "$0" "$0" >waits
chmod +x waits
mount --bind waits /usr/bin/qemu-img`, dir)

	begun = func() {
		lab.Await(t, "an image to be made", func() bool {
			_, err := l.Host(host).Run(t.Context(), "test", "-e", dir+"/begun")

			return err == nil
		})
	}

	return begun, func() { l.Run(t, host, "touch", dir+"/go") }
}

// A run is broken off while libvirt makes a disk of its new VM, and removes what it has begun. Another run of the same
// configuration has found the VM, and waits for its lock: it creates the VM, as if it had come later. If it has found
// the VM only when it had begun its own, it says that the name was taken.
func TestLab_createThatIsUndoneMeanwhile(t *testing.T) {
	t.Parallel()

	t.Run("found", func(t *testing.T) { t.Parallel(); undoneMeanwhile(t, false) })
	t.Run("found late", func(t *testing.T) { t.Parallel(); undoneMeanwhile(t, true) })
}

func undoneMeanwhile(t *testing.T, late bool) {
	t.Helper()

	l, pool := lab.Open(t), lab.Name(t)
	host := l.StartHost(t).Name
	first, next := labFleet(t, l, "first", nil), labFleet(t, l, "next", nil)
	dir := directory(t, l, host)
	diskPool(t, l, host, pool, dir)

	begun, release := slowImages(t, l, host, dir)

	d := owner(t, l, "Halted", pool)
	d.Metadata.Host = host
	l.RemoveDomain(t, d.Spec.Name)

	if late {
		if _, err := next.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	type created struct {
		vm  *inventory.VM
		err error
	}

	undone, made, waits := make(chan created, 1), make(chan created, 1), make(chan struct{})

	go func() {
		vm, err := first.Create(ctx, d)
		undone <- created{vm, err}
	}()

	begun()
	listen(next, &onLog{Message: "waiting for another run's lease", Do: func() { close(waits) }})

	go func() {
		vm, err := next.Create(t.Context(), d)
		made <- created{vm, err}
	}()

	select {
	case <-waits:
	case r := <-made:
		t.Fatalf("the other run didn't wait: %+v, %v", r.vm, r.err)
	case <-time.After(fleettest.Patience):
		fleettest.Hung(t, "the other run to wait")
	}

	cancel()
	release()

	if r := fleettest.Await(t, undone); r.vm != nil || !errors.Is(r.err, context.Canceled) {
		t.Errorf("broken off: %+v, %v", r.vm, r.err)
	}

	r := fleettest.Await(t, made)

	if late {
		if r.vm != nil || !errors.Is(r.err, inventory.ErrExists) {
			t.Errorf("the other run: %+v, %v", r.vm, r.err)
		}

		hasOnly(t, l, host, dir+"/"+pool)

		return
	}

	if r.err != nil {
		t.Fatalf("the other run: %v", r.err)
	}

	if err := next.FinishCreate(t.Context(), r.vm); err != nil {
		t.Error(err)
	}

	onlyOn(t, next, r.vm.UUID, host)
	hasOnly(t, l, host, dir+"/"+pool, r.vm.Metadata.OwnDisks["disk0"].Path)

	if report, err := next.Delete(t.Context(), r.vm.UUID, lastOf(r.vm), 0); err != nil || len(report.KeptDisks) > 0 {
		t.Errorf("deleting it: %+v, %v", report, err)
	}

	hasOnly(t, l, host, dir+"/"+pool)
}
