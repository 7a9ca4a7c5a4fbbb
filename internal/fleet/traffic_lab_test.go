package fleet

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What another run moves takes up the limits until it has arrived. The record that a run left behind which was killed
// takes up nothing.
func TestLab_othersMovesCount(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, alice := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	cfg := ownConfig("bob", from, to)
	cfg.MigrationLimits.PerFleet = 1
	bob := openFleet(t, cfg)
	d, other, killed := evacuee(t, l, "slow", nil), evacuee(t, l, "waits", nil), evacuee(t, l, "killed", nil)
	d.Spec.Kernel.Cmdline += " dirty=8"
	vm := booted(t, l, create(t, alone, l, d))
	second, third := create(t, alone, l, other), create(t, alone, l, killed)

	left := migration.State{
		SourceHost: from.Name, TargetHost: to.Name, Start: time.Now(), Phase: migration.PhasePreparingTarget,
	}.Record("", "a run that was killed")
	if _, err := records.WriteMetadata(t.Context(), third, third.Metadata.WithMigration(left)); err != nil {
		t.Fatal(err)
	}

	move := func(f *Fleet, vm *inventory.VM, o migration.Options) <-chan time.Time {
		over := make(chan time.Time, 1)

		go func() {
			now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, o)
			if err != nil || now.Host != to.Name {
				t.Errorf("%s: %+v, %v", vm.Name, now, err)
			}

			t.Logf("%s moved from %v to %v", vm.Name, state.Start, state.End)
			over <- state.Start
		}()

		return over
	}

	slow := move(alice, vm, migration.Options{
		Bandwidth: new(uint64(1 << 20)), CompletionTimeoutPerGiB: new(time.Hour), ProgressTimeout: new(time.Hour),
	})
	fleettest.AwaitCopying(t, alone.Host(from.Name), vm.UUID, slow)

	waits := move(bob, second, migration.Options{})

	for bob.Queue.Others() == 0 && len(waits) == 0 {
		if err := admission.Pause(t.Context(), 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}

	select {
	case <-waits:
		t.Error("it didn't wait")
	case <-slow:
		t.Error("what is slow has ended")
	default:
	}

	hurried := time.Now()
	if err := alone.Host(from.Name).Conn.SetMigrationBandwidth(t.Context(), vm.UUID, 0, false); err != nil {
		t.Fatal(err)
	}

	fleettest.Await(t, slow)

	if began := fleettest.Await(t, waits); began.Before(hurried) {
		t.Errorf("it began at %v, while the other was on its way: at %v", began, hurried)
	}
}
