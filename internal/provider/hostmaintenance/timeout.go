package hostmaintenance

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// copyTimeout is what a drain adds to the default timeout for what it copies: memory, and disks that go along. 0 where
// that timeout is declared, and where it can't be told; the drain says why.
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

// backTimeout is how long it may take to bring back what was moved, 0 if that is unknown.
func (r *Resource) backTimeout(ctx context.Context, host string) time.Duration {
	if r.Data == nil || r.Data.Fleet == nil {
		return 0
	}
	record, err := r.Data.Fleet.Record(ctx, host)
	if err != nil || record.Evacuation == nil {
		return 0
	}
	steps := make([]evacuation.Step, len(record.Evacuation.Steps))
	for i, s := range record.Evacuation.Steps {
		steps[i] = s.Step
	}
	return evacuationBudget(steps)
}

// evacuationBudget is the time after which all of that, one after another, is taken to converge no more; twice, because
// a disruption doubles it.
func evacuationBudget(steps []evacuation.Step) time.Duration {
	var bytes uint64
	for _, s := range steps {
		bytes += s.Transfer
	}
	return 2 * migration.Options{}.Budget(bytes)
}
