package move

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// MoveBudget returns how long a move by the order may take before it counts as not converging, as of the snapshot. The
// time depends on the VM's memory and on what is copied with it. Without a target, it is the longest time of all hosts.
// 0 means no limit.
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

	most := inspected.Mobility.Memory

	for _, h := range ck.hosts.Configured {
		if h == vm.On || h.Config.Fenced || order.Target != "" && h.Name != order.Target {
			continue
		}

		load := migration.EstimateTransfer(ctx, ck.WithTarget(ctx, vm, inspected, h), vm.On.Conn, h.Conn, effective.Options)
		most = max(most, load.Most)
	}

	return effective.Options.Budget(most), nil
}
