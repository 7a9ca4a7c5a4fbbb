package hostmaintenance

import (
	"cmp"
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// copyTimeout returns how much longer a drain may take because of what it copies: memory, and disks that move with
// their VMs. It returns 0 if the timeout is declared or the time is unknown, in which case the drain reports why.
func (r *Resource) copyTimeout(
	ctx context.Context, declared timeouts.Value, timeout string, want fleet.Drain,
) time.Duration {
	if given, ok := declared.Attributes()[timeout]; ok && !given.IsNull() || r.Data == nil || r.Data.Fleet == nil {
		return 0
	}
	if want.Steps != nil {
		return evacuationBudget(want.Steps)
	}
	plan, err := r.Data.Fleet.PlanEvacuation(ctx, want.Host, fleet.EvacuationQuery{
		MoveStopped: want.MoveStopped, Maintenance: true, ID: want.ID,
	})
	if err != nil {
		return 0
	}
	return evacuationBudget(plan.Steps)
}

// backTimeout returns how long it may take to move the VMs of the maintenance back, 0 if that is unknown.
func (r *Resource) backTimeout(ctx context.Context, m *model) time.Duration {
	if r.Data == nil || r.Data.Fleet == nil {
		return 0
	}
	host := m.Host.ValueString()
	record, err := r.Data.Fleet.Record(ctx, host)
	if err != nil {
		return 0
	}
	return backBudget(record.Evacuation, r.Data.Fleet.LostMaintenance(ctx, host, m.ID.ValueString(), &record))
}

// backBudget is the time for what the host has recorded, or, if it has lost that, for what the other hosts were told.
func backBudget(recorded, told *hostrecord.Evacuation) time.Duration {
	e := cmp.Or(recorded, told)
	if e == nil {
		return 0
	}
	steps := make([]evacuation.Step, len(e.Steps))
	for i, s := range e.Steps {
		steps[i] = s.Step
	}
	return evacuationBudget(steps)
}

// evacuationBudget returns the time after which migrations of all steps, one after another, count as not converging. It
// is doubled, because a disruption doubles the time.
func evacuationBudget(steps []evacuation.Step) time.Duration {
	var bytes uint64
	for _, s := range steps {
		bytes += s.Transfer
	}
	return 2 * migration.Options{}.Budget(bytes)
}
