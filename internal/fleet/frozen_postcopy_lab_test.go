package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab/expiry"
)

// heldByFrozen is how long a run may be held up by a frozen QEMU once its time is over, on a busy computer.
// libvirt's own waits for that QEMU, which the run doesn't share, add up to several minutes.
const heldByFrozen = 2 * time.Minute

// The time of a run is over while the guest runs on the target, and the source's QEMU is frozen with the rest of the
// memory. The run doesn't wait for that QEMU: it leaves the record of the migration open, and says what the next run
// does. The next run waits for the rest of the memory.
func TestLab_frozenInPostCopy(t *testing.T) {
	t.Parallel()

	b := newTorn(t, migration.Options{RecoveryTimeout: new(time.Hour)})
	thaw := func() {
		if err := b.from.ThawQEMU(context.WithoutCancel(t.Context()), b.vm.Name); err != nil {
			t.Error(err)
		}
	}

	ctx, expire := expiry.Context(t)
	over := b.move(ctx)
	b.await("the guest to run on the target", func() bool {
		return b.seen(b.from) == "Paused (Postcopy)" && strings.HasPrefix(b.seen(b.to), "Running (Postcopy")
	})

	if err := b.from.FreezeQEMU(t.Context(), b.vm.Name); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(thaw)
	expire()

	expired := time.Now()

	var e end

	select {
	case e = <-over:
	case <-time.After(heldByFrozen):
		thaw()
		t.Fatalf("a frozen QEMU holds the run %v after its time is over; thawed, it ends with %v", heldByFrozen,
			fleettest.Await(t, over).err)
	}

	t.Logf("it ended %v after its time was over", time.Since(expired).Round(time.Second))

	said, ok := errors.AsType[*inventory.Error](e.err)
	if !ok || !strings.Contains(said.Detail, "each host has a part of its memory") ||
		!strings.Contains(said.Remedy, "Apply again") {
		t.Errorf("what it says: %+v", e.err)
	}

	vm, err := b.f.FindNow(t.Context(), b.vm.UUID, inventory.LastKnown{})
	if err != nil || vm.OpenMigration() == nil {
		t.Errorf("the record isn't open: %+v, %v", vm, err)
	}

	thaw()

	// The rest comes as fast as it can, if libvirt still knows of it.
	_ = b.f.Host(b.from.Name).Conn.SetMigrationBandwidth(t.Context(), b.vm.UUID, 0, true)

	now, record, err := b.f.Migrate(t.Context(), b.order)
	if err != nil || now.Host != b.to.Name || !now.Running() || record.Failed || len(now.Metadata.Migrations) != 1 {
		t.Errorf("the next run: %+v, %+v, %v", now, record, err)
	}

	onlyOn(t, b.f, b.vm.UUID, b.to.Name)
}
