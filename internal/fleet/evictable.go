package fleet

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// JudgeEvictable says of every machine that was sampled whether emptying its host
// would get past it, by the policies that hold for the fleet as far as its hosts
// answered. Nobody is asked for that.
func (f *Fleet) JudgeEvictable(all []HostSamples) {
	records := make([]recording, 0, len(all))

	for _, s := range all {
		if s.record.host != nil {
			records = append(records, s.record)
		}
	}

	records = withoutRemoved(records)

	for _, s := range all {
		for i := range s.Machines {
			s.Machines[i].Evictable = f.evictable(s.Machines[i].VM, records)
		}
	}
}

// evictable says whether emptying its host would get past the running machine, as
// far as its definition, its state and the policies tell: by its rule it is moved
// live and can be, or something else is done with it. Other hosts aren't asked what
// they reach. It is nil for a machine that is off, and when the policies can't be
// read.
func (f *Fleet) evictable(vm *VM, records []recording) *bool {
	p := vm.entry.parse()
	if !vm.Active || p.live == nil {
		return nil
	}

	rule, err := f.rule(vm, records)
	if err != nil {
		return nil
	}

	if eviction.Decide(*rule, false) != eviction.MethodBlocked {
		return new(true)
	}

	policies, err := f.MigrationPolicies().forMachinesOn(vm.host, records)
	if err != nil {
		return nil
	}

	m := migration.Machine{
		UUID: vm.UUID, Name: vm.Name, State: vm.State, Reason: vm.Reason, Facts: p.live.Mobility(),
	}
	options := migration.Tune(forPolicies(vm).On(vm.Host), rule.Options, policies, f.migration).Options

	return new(len(migration.Blocking(migration.DomainBlockers(m))) == 0 && len(options.StayingImages(m.Facts)) == 0)
}
