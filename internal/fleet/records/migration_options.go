package records

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// MigrationOptionsOf returns the options with which the VM would be moved now. own are the options of that migration
// itself. The policies in the record of the VM's host take precedence over those on other hosts.
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
