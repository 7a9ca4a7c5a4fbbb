package drain_test

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The run that moves a VM is lost when libvirt is to hand the VM over, and leaves its record open. Not only the next
// move concludes that, but any next change of the VM.
func TestLab_killedRunBlocksNoOther(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "bob", from, to)
	d := evacuee(t, l, "lost", nil)
	d.Spec.Kernel.Cmdline += " dirty=8"
	vm := booted(t, l, create(t, alone, l, d))

	lose := func(from, to *lab.Host) (wake func()) {
		t.Helper()

		left := migration.State{
			SourceHost: from.Name, TargetHost: to.Name, Start: time.Now(), Phase: migration.PhasePreparingTarget,
		}.Record("", "a run that is lost")
		if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(left)); err != nil {
			t.Fatal(err)
		}

		mover := l.LoseMover(t, vm.Name, from, to)

		return func() {
			t.Helper()

			if err := mover(); err == nil {
				t.Error("whoever woke up believes that it moved the VM")
			}
		}
	}

	wake := lose(from, to)

	d.Metadata.Labels = map[string]string{"changed": "yes"}

	vm, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || vm.Host != from.Name || !vm.Running() || vm.Metadata.Labels["changed"] != "yes" {
		t.Fatalf("updated: %+v, %v", vm, err)
	}

	wake()

	wake = lose(from, to)

	if done := fleettest.Await(t, draining(t.Context(), f, from.Name)); done.err != nil {
		t.Fatalf("drained: %+v, %v", done.steps, done.err)
	}

	if vm, err = f.FindNow(t.Context(), vm.UUID, lastOf(vm)); err != nil || vm.Host != to.Name || !vm.Running() {
		t.Fatalf("drained: %+v, %v", vm, err)
	}

	wake()

	wake = lose(to, from)

	if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
		t.Fatalf("deleted: %v", err)
	}

	wake()
	onlyOn(t, f, vm.UUID, "none")
}
