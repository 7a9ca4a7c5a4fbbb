package move

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// reserveFiles reserves room on the target for the disks that are copied there, until release is called. It fails if
// disks that are already on their way there need the room.
func (m *move) reserveFiles(ctx context.Context, inspected migration.VM) (release func(), err error) {
	mv := m.mover
	inspected = mv.WithTarget(ctx, m.vm, inspected, m.to)

	load := migration.EstimateTransfer(ctx, inspected, m.from.Conn, m.to.Conn, m.effective.Options)
	if len(load.Files) == 0 {
		return func() {}, nil
	}

	return mv.placement.ReserveFiles(ctx, m.vm, m.to, load)
}

// reserveForCold reserves room on the target for a VM that moves while it is off, and devices if the VM requests any by
// class.
func (m *move) reserveForCold(ctx context.Context) (*placement.Arrival, error) {
	return m.mover.placement.ReserveArrival(ctx, m.vm, m.to, m.starts)
}
