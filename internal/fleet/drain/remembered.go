package drain

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// givenUpMemory is how long the next drain of a host goes on with what one did
// that was given up.
const givenUpMemory = 24 * time.Hour

// remembered is what an earlier attempt has done, as far as the next one goes on
// with it. Terraform deletes an unfinished drain to begin it anew, so being given
// up is no reason to forget it at once. But nothing is moved or started later by
// what nobody thinks of any more: of a drain that was given up it is what that did
// within the last day, with VMs that nobody has touched since.
func (dr *Drainer) remembered(ctx context.Context, name string, e *hostrecord.Evacuation) *hostrecord.Evacuation {
	if e == nil || e.GivenUp.IsZero() {
		return e
	}

	kept := &hostrecord.Evacuation{Since: e.Since, GivenUp: e.GivenUp}

	if time.Since(e.GivenUp) > givenUpMemory {
		return kept
	}

	for _, s := range e.Steps {
		vm, err := dr.hosts.Find(ctx, s.UUID, inventory.LastKnown{Host: name})
		if err == nil && untouchedSince(vm, name, s) || err != nil && !inventory.IsNotFound(err) {
			kept.Steps = append(kept.Steps, s) // Whoever restores it looks again at one that can't be seen now.
		}
	}

	return kept
}

// untouchedSince says that the VM is as that step of the host's drain has left it, as
// far as that can be seen: one that was moved while it was off was booted anyway.
func untouchedSince(vm *inventory.VM, host string, s hostrecord.Step) bool {
	switch {
	case s.Result != hostrecord.ResultMoved && s.Result != hostrecord.ResultColdMoved:
		return !vm.Active // It was shut down.
	case s.Target == "" || vm.Host != s.Target:
		return s.Target == "" && vm.Host != host
	case len(vm.Metadata.Migrations) == 0:
		return false
	}

	cold := s.Method == evacuation.MethodCold
	last := vm.Metadata.Migrations[len(vm.Metadata.Migrations)-1]
	restarted := !cold && vm.Reason == libvirt.ReasonBooted || vm.Active == (cold && !s.Ran)

	return last.SourceHost == host && last.TargetHost == s.Target && !last.Failed && !restarted
}
