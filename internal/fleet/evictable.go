package fleet

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// JudgeEvictable says of every VM that was sampled whether emptying its host
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
			s.Machines[i].Evictable = f.evictable(s.Machines[i].VM, records, s.private)
		}
	}
}

// evictable says whether emptying its host would get past the running VM, as
// far as its definition, its state and the policies tell: by its rule it is moved
// live and can be, or something else is done with it. private are the networks that
// end at its host. Other hosts aren't asked what they reach. It is nil for a VM
// that is off, and when the policies can't be read.
func (f *Fleet) evictable(vm *inventory.VM, records []recording, private map[string]bool) *bool {
	p := vm.Entry.Parse()
	if !vm.Active || p.Live == nil {
		return nil
	}

	rule, err := f.rule(vm, records)
	if err != nil {
		return nil
	}

	passes := func(movable bool) bool {
		switch method := evacuation.MethodFor(*rule, movable); method {
		case evacuation.MethodBlocked:
			return false
		case evacuation.MethodCold, evacuation.MethodShutdown, evacuation.MethodSave:
			return vm.Persistent && (vm.Metadata.Host != vm.Host || !evacuation.RequestsEviction(method))
		default:
			return vm.Metadata.Host != vm.Host || !evacuation.RequestsEviction(method) // Its configuration pins it there.
		}
	}

	if live, otherwise := passes(true), passes(false); live == otherwise {
		return new(live)
	}

	policies, err := f.MigrationPolicies().forMachinesOn(vm.On, records)
	if err != nil {
		return nil
	}

	m := migration.VM{
		UUID: vm.UUID, Name: vm.Name, State: vm.State, Reason: vm.Reason, Facts: p.Live.Mobility(),
	}
	options := migration.ResolveOptions(forPolicies(vm).On(vm.Host), rule.Options, policies, f.migration).Options
	stays := !*options.WithDefaults().AllowNetworkChange &&
		slices.ContainsFunc(m.Facts.Interfaces, func(i domain.MobileInterface) bool {
			return i.Type == "network" && private[i.Source]
		})

	return new(passes(!stays && len(migration.Blocking(migration.DomainBlockers(m))) == 0 &&
		len(options.StayingImages(m.Facts)) == 0))
}
