package fleet

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// recording is what one host's record says, or why it can't be read.
type recording struct {
	host   *inventory.Host
	record *hostrecord.Record
	err    error
}

// readRecordings reads records of several hosts at once.
func readRecordings(hosts []*inventory.Host, read func(*inventory.Host) (*hostrecord.Record, error)) []recording {
	all := make([]recording, len(hosts))

	var reading sync.WaitGroup

	for i, h := range hosts {
		all[i].host = h

		reading.Go(func() { all[i].record, all[i].err = read(h) })
	}

	reading.Wait()

	return all
}

// recordings are the records of several hosts, without policies that were removed
// while their host was not there.
func recordings(hosts []*inventory.Host, read func(*inventory.Host) (*hostrecord.Record, error)) []recording {
	return withoutRemoved(readRecordings(hosts, read))
}

// recordingsOf are the records of the hosts that gave the answers, as of the
// snapshot.
func recordingsOf(ctx context.Context, answers []inventory.Reply) []recording {
	hosts := make([]*inventory.Host, len(answers))
	of := make(map[*inventory.Host]inventory.Reply, len(answers))

	for i, a := range answers {
		hosts[i], of[a.Host] = a.Host, a
	}

	return recordings(hosts, func(h *inventory.Host) (*hostrecord.Record, error) { return of[h].RecordIfAny(ctx) })
}

// records are those of all hosts that are not fenced, as of the snapshot.
func (f *Fleet) records(ctx context.Context) ([]recording, error) {
	answers, err := f.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	return recordingsOf(ctx, slices.DeleteFunc(answers, inventory.Reply.Fenced)), nil
}

// rule is what holds for the VM if its host is to be drained.
func (f *Fleet) rule(vm *inventory.VM, all []recording) (*evacuation.Rule, error) {
	policies, err := f.EvictionPolicies().forMachinesOn(vm.On, all)
	if err != nil {
		return nil, err
	}

	rule := evacuation.SelectRule(forPolicies(vm), vm.Host, policies, f.defaultEviction)

	return &rule, nil
}

// forPolicies is the VM as policies see it.
func forPolicies(vm *inventory.VM) evacuation.VM {
	return evacuation.VM{
		UUID: vm.UUID, Name: vm.Name, Active: vm.Active, Persistent: vm.Persistent,
		Memory: vm.On.CommittedMemory(vm.Entry), Labels: vm.Metadata.Labels, Strategy: vm.Metadata.EvictionStrategy,
		Pin: vm.Metadata.Host, Avoids: vm.Metadata.Avoids,
	}
}

// List returns every VM of the fleet from one bulk reading and the record
// of each host, sorted by name, and the hosts that did not answer. What is wrong
// with one VM does not keep the others from being listed.
func (f *Fleet) List(ctx context.Context) (machines []inventory.Listed, silent []string, err error) {
	answers, err := f.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}

	machines, silent = f.ListConsistent(ctx, answers)
	records := recordingsOf(ctx, slices.DeleteFunc(slices.Clone(answers), inventory.Reply.Fenced))

	for i := range machines {
		if m := &machines[i]; m.VM != nil {
			m.Rule, m.RuleErr = f.rule(m.VM, records)
		}
	}

	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}

	return machines, silent, nil
}
