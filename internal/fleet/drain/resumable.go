package drain

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// abandonedMemory is how long a later drain of the host continues the steps of a drain that was given up.
const abandonedMemory = 24 * time.Hour

// resumableSteps returns the steps of an earlier drain that the next drain continues. Terraform deletes an incomplete
// drain to replace it, so steps are kept for a while after a drain was given up. But a drain must not move or start a
// VM because of steps that users have forgotten: only steps of the last day are kept, and only for VMs that were not
// changed since.
func (dr *Drainer) resumableSteps(ctx context.Context, name string, e *hostrecord.Evacuation) *hostrecord.Evacuation {
	if e == nil || e.Abandoned.IsZero() {
		return e
	}

	kept := &hostrecord.Evacuation{Since: e.Since, Abandoned: e.Abandoned}

	if time.Since(e.Abandoned) > abandonedMemory {
		return kept
	}

	for _, s := range e.Steps {
		if s.Unsafe && !s.Done() && !s.Asked() {
			continue // It did nothing: see unsafeMovesOf.
		}

		vm, err := dr.hosts.Find(ctx, s.UUID, inventory.LastKnown{Host: name})
		if err == nil && untouchedSince(vm, name, s, e.Abandoned) || err != nil && !inventory.IsNotFound(err) {
			kept.Steps = append(kept.Steps, s) // A VM that can't be found now is looked for again when it is restored.
		}
	}

	return kept
}

// untouchedSince says whether the VM is as this step of the host's drain left it, as far as known: a VM that was moved
// while it was off was booted in any case. abandoned is when the drain was given up.
//
// The step has the names that the hosts had then, and so has a record of a migration without their UUIDs. They may have
// others by now. So a host is recognized by its UUID if it is recorded, and the source of the VM's last migration may
// have another name if that migration began before the drain was given up.
func untouchedSince(vm *inventory.VM, host string, s hostrecord.RecordedStep, abandoned time.Time) bool {
	switch {
	case s.Returning && !vm.Active: // The end of its maintenance shut it down.
		return true
	case s.Result != hostrecord.ResultMoved && s.Result != hostrecord.ResultColdMoved:
		return !vm.Active // It was shut down.
	case s.Target == "":
		return vm.Host != host
	case !isOnTarget(vm, s):
		return false
	case len(vm.Metadata.Migrations) == 0:
		return false
	}

	cold := s.Method == evacuation.MethodCold
	last := vm.Metadata.Migrations[len(vm.Metadata.Migrations)-1]
	restarted := !cold && vm.Reason == libvirt.ReasonBooted || vm.Active == (cold && !s.Ran)

	left := last.SourceHost == host || s.TargetUUID != "" && !last.Start.Truncate(time.Second).After(abandoned)

	arrived := last.TargetHost == s.Target
	if last.TargetUUID != "" && s.TargetUUID != "" {
		arrived = last.TargetUUID == s.TargetUUID
	}

	return left && arrived && !last.Failed && !restarted
}
