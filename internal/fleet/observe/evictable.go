package observe

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// JudgeEvictable sets for every sampled VM whether draining its host would succeed for the VM, by the fleet's policies,
// as far as its hosts answered. It asks no host.
func (ob *Observer) JudgeEvictable(all []HostSamples) {
	known := make([]records.Recording, 0, len(all))

	for _, s := range all {
		if s.record.Host != nil {
			known = append(known, s.record)
		}
	}

	known = records.WithoutRemoved(known)

	for _, s := range all {
		for i := range s.VMs {
			s.VMs[i].Evictable = ob.evictable(s.VMs[i].VM, known, s.private)
		}
	}
}

// evictable says whether draining its host would succeed for the running VM, as far as its definition, its state and
// the policies tell: its rule moves it live and it can be moved, or its rule does something else with it. private are
// the networks that are local to its host. evictable doesn't ask other hosts what they reach. It returns nil for a VM
// that is off, and when the policies can't be read.
func (ob *Observer) evictable(vm *inventory.VM, known []records.Recording, private map[string]bool) *bool {
	p := vm.Entry.Parse()
	if !vm.Active || p.Live == nil {
		return nil
	}

	rule, err := ob.records.Rule(vm, known)
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
			return vm.Metadata.Host != vm.Host || !evacuation.RequestsEviction(method) // The pin would bring it back.
		}
	}

	if live, otherwise := passes(true), passes(false); live == otherwise {
		return new(live)
	}

	policies, err := ob.records.MigrationPolicies().ForVMsOn(vm.On, known)
	if err != nil {
		return nil
	}

	m := migration.VM{
		UUID: vm.UUID, Name: vm.Name, State: vm.State, Reason: vm.Reason, Mobility: p.Live.Mobility(),
	}
	options := migration.ResolveOptions(records.ForPolicies(vm).On(vm.Host), rule.Options, policies, ob.migration).Options
	stays := !*options.WithDefaults().AllowNetworkChange &&
		slices.ContainsFunc(m.Mobility.Interfaces, func(i domain.MobileInterface) bool {
			return i.Type == "network" && private[i.Source]
		})

	return new(passes(!stays && len(migration.Blocking(migration.DomainBlockers(m))) == 0 &&
		len(options.StayingImages(m.Mobility)) == 0))
}
