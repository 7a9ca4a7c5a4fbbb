package virtualmachine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

// moveTarget returns the host that the VM is to be moved to, "" if it stays. It returns "" for a host that the provider
// doesn't know: the fleet reports that.
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

// onNextHost returns the planning without the maintenance of a host that the VM leaves: it doesn't decide about the
// VM's power and autostart on another host.
func (p planning) onNextHost() planning {
	if p.moveTarget() != "" {
		p.evicted, p.evicting = "", ""
	}
	return p
}

// planMove plans that the VM is on the host that it is pinned to, even if another tool moved it.
func (p planning) planMove(o *outcome) {
	m := &o.planned
	switch {
	case p.config.Host.IsUnknown():
		m.CurrentHost = types.StringUnknown()
		o.diags.Append(p.mayMoveWarning())
	case p.moveTarget() != "":
		m.CurrentHost = types.StringValue(p.moveTarget())
	default:
		return
	}
	m.planOtherHost()
	// The reason will be the migration. The addresses may have been known only from DHCP leases on the old host.
	m.StatusReason = types.StringUnknown()
	m.IPAddresses = types.MapUnknown(addressesType.ElemType)
}

// mayMoveWarning says that the plan doesn't know where the VM is to be.
func (p planning) mayMoveWarning() diag.Diagnostic {
	return diag.NewAttributeWarningDiagnostic(path.Root("host"), "Virtual machine may be moved: "+text(p.state.Name),
		fmt.Sprintf("host of virtual machine %q is known only in the apply, which moves the VM from host %q if it is "+
			"another one. This plan didn't check whether the VM can move.\n\nTo see it in the plan, first apply what "+
			"host refers to, with -target.", text(p.state.Name), text(p.state.CurrentHost)))
}

// expectMove lets the checks of a running VM's move begin without a wait for connections.
func (r *Resource) expectMove(p planning) {
	if p.moveTarget() != "" && text(p.state.Status) != status.StatusStopped {
		r.Data.Fleet.ExpectMove(p.state.lastKnown())
	}
}

// checkMove returns what blocks the planned move, given that the planned objects are on the target.
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

// moveTimeout returns how much longer an update may take because of a move: the time after which the migration ends by
// itself, times two, because a disruption doubles it. It includes the disks that are copied.
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
		budget = own.Budget(*size) // The move reports the error.
	}
	return 2 * budget
}

// move moves the VM to the host that it is pinned to, and returns where the VM was last known afterwards. vm is nil if
// there was nothing to do, or the VM's place is unknown. The diagnostics warn about a move that could no longer be
// aborted. If the update that follows would be refused because of the VM's power, the VM stays where it is.
func (r *Resource) move(
	ctx context.Context, p planning, d fleet.Desired,
) (last fleet.LastKnown, vm *fleet.VM, late diag.Diagnostics, err error) {
	last = p.state.lastKnown()
	if p.moveTarget() == "" {
		return last, nil, nil, nil
	}
	if vm, err = r.Data.Fleet.CheckPower(ctx, text(p.state.ID), last, d); err != nil {
		return last, vm, nil, err
	}
	vm, how, err := r.Data.Fleet.Move(ctx, text(p.state.ID), last, p.moveTarget(), p.config.migrationOptions())
	if vm != nil {
		last = fleet.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}
		late = migrationoptions.AbortWarning(how.AbortStatus, err != nil, how.Mode, vm.Name, vm.Host)
	}
	return last, vm, late, err
}
