package virtualmachine

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

// moveTarget is the host that the VM is to be moved to, "" when it stays. A host that the provider doesn't know is
// another matter, which the fleet explains.
func (p planning) moveTarget() string {
	if p.state == nil {
		return ""
	}
	host, current := text(p.config.Host), text(p.state.CurrentHost)
	if host == current || current == "" || !slices.Contains(p.hosts, host) {
		return ""
	}
	return host
}

// planMove plans that the VM is where it is pinned to, whoever moved it from there.
func (p planning) planMove(m *model) {
	switch {
	case p.config.Host.IsUnknown():
		m.CurrentHost = types.StringUnknown()
	case p.moveTarget() != "":
		m.CurrentHost = types.StringValue(p.moveTarget())
	default:
		return
	}
	m.CurrentHostUUID = types.StringUnknown()
	// It will run because it was migrated, and the leases of its host may have been all that told its addresses.
	m.StatusReason = types.StringUnknown()
	m.IPAddresses = types.MapUnknown(addressesType.ElemType)
}

// checkMove says what blocks the planned move, once the planned objects are on its target.
func (r *Resource) checkMove(
	ctx context.Context, p planning, planned fleet.PlannedObjects,
) ([]fleet.Problem, error) {
	if p.moveTarget() == "" {
		return nil, nil
	}
	return r.Data.Fleet.CheckMove(ctx, fleet.MoveOrder{
		UUID: text(p.state.ID), Last: p.state.lastKnown(), Target: p.moveTarget(), Options: p.config.migrationOptions(),
	}, planned)
}

// moveTimeout is what a move adds to the default timeout of an update: the time after which the migration ends by
// itself, in one way or the other, twice because a disruption doubles it. It counts the disks that are copied.
func (r *Resource) moveTimeout(ctx context.Context, p planning) time.Duration {
	size := open(p.state.Memory).quantity("size").Bytes()
	if p.moveTarget() == "" || size == nil {
		return 0
	}
	own := p.config.migrationOptions()
	budget, err := r.Data.Fleet.MoveBudget(ctx, fleet.MoveOrder{
		UUID: text(p.state.ID), Last: p.state.lastKnown(), Target: p.moveTarget(), Options: own,
	})
	if err != nil {
		budget = own.Budget(*size) // The move will say what is wrong.
	}
	return 2 * budget
}

// move brings the VM to where it is pinned to, and returns where it was last known then. The VM is nil when there was
// nothing to do, or it can't be known. What it says besides is about a move that could not be aborted any more.
func (r *Resource) move(
	ctx context.Context, p planning,
) (last fleet.LastKnown, vm *fleet.VM, late diag.Diagnostics, err error) {
	last = p.state.lastKnown()
	if p.moveTarget() == "" {
		return last, nil, nil, nil
	}
	vm, how, err := r.Data.Fleet.Move(ctx, text(p.state.ID), last, p.moveTarget(), p.config.migrationOptions())
	if vm != nil {
		last = fleet.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}
		late = migrationoptions.AbortWarning(how.AbortStatus, err != nil, how.Mode, vm.Name, vm.Host)
	}
	return last, vm, late, err
}
