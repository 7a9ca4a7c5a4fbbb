package fleet

import (
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// The run that moves the VM is killed at the switchover, as in TestLab_runIsKilledAtTheSwitchover, and the two hosts
// have swapped names in the configuration of the next run. It resumes the guest at the host that was the source, and
// then moves it.
func TestLab_hostsSwapNamesAfterTheSwitchover(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	d := evacuee(t, l, "swapped", nil)
	d.Spec.Kernel.Cmdline += " dirty=8"
	vm := booted(t, l, create(t, alone, l, d))

	left := migration.State{
		SourceHost: from.Name, TargetHost: to.Name, Start: time.Now(), Phase: migration.PhasePreparingTarget,
	}.Record("", "a run that is lost")
	left.SourceUUID, left.TargetUUID = from.HostUUID, to.HostUUID

	if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(left)); err != nil {
		t.Fatal(err)
	}

	wake := l.LoseMover(t, vm.Name, from, to)

	swapped := ownConfig("bob", from, to)
	swapped.Hosts[from.Name], swapped.Hosts[to.Name] = swapped.Hosts[to.Name], swapped.Hosts[from.Name]
	bob := openFleet(t, swapped)

	now, state, err := bob.Move(t.Context(), vm.UUID, inventory.LastKnown{Host: to.Name, HostUUID: from.HostUUID},
		from.Name, migration.Options{})
	if err != nil || now.HostUUID != to.HostUUID || !now.Running() || state.Phase != migration.PhaseSucceeded {
		t.Fatalf("%+v, %+v, %v", now, state, err)
	}

	m := now.Metadata.Migrations
	if len(m) != 2 || !m[0].Failed || !m[0].Completed() || m[1].Failed {
		t.Fatalf("%+v", m)
	}

	if m[1].SourceUUID != from.HostUUID || m[1].TargetUUID != to.HostUUID || m[0].SourceHost != to.Name {
		t.Errorf("%+v", m)
	}

	if err := wake(); err == nil {
		t.Error("the run that was resumed reports that it moved the VM")
	}

	onlyOn(t, f, vm.UUID, to.Name)
}
