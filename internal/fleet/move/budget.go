package move

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// MoveBudget is the time after which a move by the order is taken to converge no more, as of the snapshot: for the VM's
// memory and for all that is copied with it. Where the target is left open, it is that of the host for which it is
// longest. 0 is no limit.
func (ck *Checks) MoveBudget(ctx context.Context, order Order) (time.Duration, error) {
	vm, err := ck.hosts.Find(ctx, order.UUID, order.Last)
	if err != nil {
		return 0, err
	}

	effective, err := ck.records.MigrationOptionsOf(ctx, vm, order.Options)
	if err != nil {
		return 0, err
	}

	inspected, err := Inspect(ctx, vm)
	if err != nil {
		return 0, err
	}

	most := inspected.Facts.Memory

	for _, h := range ck.hosts.Configured {
		if h == vm.On || h.Config.Fenced || order.Target != "" && h.Name != order.Target {
			continue
		}

		load := migration.EstimateTransfer(ctx, ck.WithTarget(ctx, vm, inspected, h), vm.On.Conn, h.Conn, effective.Options)
		most = max(most, load.Most)
	}

	return effective.Options.Budget(most), nil
}
