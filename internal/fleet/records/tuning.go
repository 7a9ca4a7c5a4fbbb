package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Tuning is how the VM would be moved now: own are the options that were written for that very migration. What the host
// that it is on says of policies counts before what others say.
func (s *Store) Tuning(
	ctx context.Context, vm *inventory.VM, own migration.Options,
) (migration.EffectiveOptions, error) {
	records, err := s.Records(ctx)
	if err != nil {
		return migration.EffectiveOptions{}, err
	}

	policies, err := s.MigrationPolicies().ForMachinesOn(vm.On, records)
	if err != nil {
		return migration.EffectiveOptions{}, err
	}

	return migration.ResolveOptions(ForPolicies(vm).On(vm.Host), own, policies, s.migration), nil
}
