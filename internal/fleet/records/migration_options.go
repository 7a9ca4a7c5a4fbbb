package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// MigrationOptionsOf are the options with which the VM would be moved now: own are those that were written for that
// very migration. What the VM's host says of policies counts before what others say.
func (s *Store) MigrationOptionsOf(
	ctx context.Context, vm *inventory.VM, own migration.Options,
) (migration.EffectiveOptions, error) {
	records, err := s.Records(ctx)
	if err != nil {
		return migration.EffectiveOptions{}, err
	}

	policies, err := s.MigrationPolicies().ForVMsOn(vm.On, records)
	if err != nil {
		return migration.EffectiveOptions{}, err
	}

	return migration.ResolveOptions(ForPolicies(vm).On(vm.Host), own, policies, s.migration), nil
}
