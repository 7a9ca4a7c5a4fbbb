package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// The disk of one VM is a full copy of the disk of another one. While another run starts that one, the copy waits, and
// it isn't made while a guest writes to its source.
func TestLab_ownDiskIsNoCopyOfAWrittenDisk(t *testing.T) {
	t.Parallel()

	l, f, pool, dir := withPool(t, "kvm1")
	other := labFleet(t, l, t.Name()+"-other", nil)

	d := owner(t, l, "Halted", pool)
	d.Spec.Kernel, d.Metadata.TerminationGracePeriod = nil, new(time.Duration(0))
	source := create(t, f, l, d)
	d.Spec.Disks = source.PersistentSpec.Disks

	copied := owner(t, l, "Halted", pool)
	copied.Spec.Name += "-copy"
	disk := copied.OwnDisks["disk0"]
	disk.Image, disk.Clone = pool+"/"+source.Metadata.OwnDisks["disk0"].Volume, domain.CloneFull
	copied.OwnDisks["disk0"] = disk

	l.RemoveDomain(t, copied.Spec.Name)

	var failed error

	done := make(chan struct{})

	f.ForgetAll()
	listen(other, &onLog{Message: "starting VM", Do: func() {
		go func() {
			defer close(done)

			vm, err := f.Create(t.Context(), copied)
			failed = err

			if vm != nil {
				_ = f.FinishCreate(t.Context(), vm)
			}
		}()

		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
	}})

	d.Metadata.RunStrategy = "Always"
	if _, err := other.Update(t.Context(), source.UUID, lastOf(source), d); err != nil {
		t.Fatal(err)
	}

	fleettest.Await(t, done)

	if !errors.Is(failed, storage.ErrInUse) || !strings.Contains(failed.Error(), source.Name) {
		t.Errorf("%v; want that %q may write to the disk", failed, source.Name)
	}

	if files := filesOn(t, l, "kvm1", dir); len(files) != 1 {
		t.Errorf("there are %q; want nothing of the copy", files)
	}

	d.Metadata.RunStrategy = "Halted"
	if _, err := f.Update(t.Context(), source.UUID, lastOf(source), d); err != nil {
		t.Fatal(err)
	}

	_, release, err := other.Lock(t.Context(), other.Host("kvm1"), source.UUID, "starting")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()

	if vm, err := f.Create(ctx, copied); vm != nil || !errors.Is(err, records.ErrLocked) {
		t.Errorf("%+v, %v; want the copy to wait for the run that has the source's VM", vm, err)
	}

	release()

	vm := create(t, f, l, copied)

	if files := filesOn(t, l, "kvm1", dir); len(files) != 2 {
		t.Errorf("there are %q; want the disk and its copy", files)
	}

	for _, uuid := range []string{vm.UUID, source.UUID} {
		if _, err := f.Delete(t.Context(), uuid, lastOf(vm), 0); err != nil {
			t.Fatal(err)
		}
	}

	if files := filesOn(t, l, "kvm1", dir); len(files) != 0 {
		t.Errorf("%q are left", files)
	}
}
