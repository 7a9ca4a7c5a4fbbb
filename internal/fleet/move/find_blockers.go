package move

import (
	"context"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// findBlockersUnderLock finds everything that blocks the move, right before the move. It asks the target again if the
// target seems to be full: a VM may have left since it was read.
func (m *move) findBlockersUnderLock(ctx context.Context) (migration.VM, []migration.Blocker, error) {
	inspected, blockers, err := m.mover.FindBlockers(ctx, m.vm, m.to, m.effective.Options, true)

	if err == nil && slices.ContainsFunc(blockers, migration.IsOfNeighbours) {
		m.to.Forget()
		blockers, err = m.mover.CheckTarget(ctx, m.vm, inspected, m.to, m.effective.Options)
	}

	if err != nil || len(migration.Blocking(blockers)) > 0 {
		return inspected, blockers, err
	}

	linked, err := m.mover.placement.LinkBlockers(ctx, m.vm, m.to)

	return inspected, append(blockers, linked...), err
}

// reserveForCold reserves room on the target for a stopped VM, and devices if the VM requests any by class.
func (m *move) reserveForCold(
	ctx context.Context, inspected migration.VM,
) (devices map[string]domain.Row, release func(), err error) {
	if m.starts {
		return m.mover.placement.ReserveArrival(ctx, m.vm, m.to, m.to.WithOverhead(inspected.Mobility.Memory, m.vm.Entry))
	}

	return m.mover.placement.ReserveArrival(ctx, m.vm, m.to, 0)
}
