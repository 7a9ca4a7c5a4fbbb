package fleet

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// MoveTuning is how the machine would be moved now, as of the snapshot: own are
// the options that were written for that very migration.
func (f *Fleet) MoveTuning(
	ctx context.Context, uuid string, last LastKnown, own migration.Options,
) (migration.Tuning, error) {
	vm, err := f.Find(ctx, uuid, last)
	if err != nil {
		return migration.Tuning{}, err
	}

	return f.tuning(ctx, vm, own)
}

// tuning is MoveTuning of a machine that was found. What the host that it is on
// says of policies counts before what others say.
func (f *Fleet) tuning(ctx context.Context, vm *VM, own migration.Options) (migration.Tuning, error) {
	records, err := f.records(ctx)
	if err != nil {
		return migration.Tuning{}, err
	}

	policies, err := f.MigrationPolicies().forMachinesOn(vm.host, records)
	if err != nil {
		return migration.Tuning{}, err
	}

	return migration.Tune(forPolicies(vm).On(vm.Host), own, policies, f.migration), nil
}
