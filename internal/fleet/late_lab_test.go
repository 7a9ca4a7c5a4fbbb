package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// An abort in post-copy comes too late: the migration is waited for, and its record says how the abort went.
func TestLab_abortComesTooLate(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	vm := unpinned(t, f, l, "dirty=16")
	options := migration.Options{
		AllowPostCopy: new(true), CompletionTimeoutPerGiB: new(2 * time.Second), Bandwidth: new(uint64(2 << 20)),
	}
	from := f.Host("kvm1").Conn
	// Before it begins: the switch may come before the test sees that it has begun.
	if err := from.SetMigrationBandwidth(t.Context(), vm.UUID, 1<<20, true); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)

	go func() {
		order := move.Order{UUID: vm.UUID, Last: lastOf(vm), ID: "4711", Target: "kvm2", Options: options}
		now, record, err := f.MoveOnce(ctx, order)
		if err != nil || now.Host != "kvm2" || !now.Running() || record.Failed || !record.AbortRequested ||
			record.AbortStatus != migration.AbortFailed || record.Mode != string(migration.PostCopy) {
			t.Errorf("%+v, %+v, %v", now, record, err)
		}

		over <- err
	}()

	awaitJob(t, f, vm.UUID, over)

	waiting, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()

	for {
		d, err := from.Domain(waiting, vm.UUID)
		if err != nil {
			t.Errorf("it has left before its abort: %v", err)

			break
		}

		if d.State == libvirt.Paused && d.Reason == "Postcopy" {
			break
		}

		if len(over) > 0 { // It failed before its switch to post-copy.
			break
		}

		if err := admission.Pause(waiting, 50*time.Millisecond); err != nil {
			t.Fatalf("it hasn't switched to post-copy: %v", err)
		}
	}

	cancel()

	if err := from.SetMigrationBandwidth(t.Context(), vm.UUID, 0, true); err != nil && !inventory.IsNotFound(err) {
		t.Error(err)
	}

	if err := fleettest.Await(t, over); err != nil {
		t.Error(err)
	}

	onlyOn(t, f, vm.UUID, "kvm2")
	recorded(t, l, "kvm2", vm.UUID, `abort-requested="true"`, `abort-status="Failed"`)
}
