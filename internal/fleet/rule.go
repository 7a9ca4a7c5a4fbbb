package fleet

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
)

// recording is what one host's record says, or why it can't be read.
type recording struct {
	host   *host
	record *HostRecord
	err    error
}

// readRecordings reads records of several hosts at once.
func readRecordings(hosts []*host, read func(*host) (*HostRecord, error)) []recording {
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
func recordings(hosts []*host, read func(*host) (*HostRecord, error)) []recording {
	return withoutRemoved(readRecordings(hosts, read))
}

// recordingsOf are the records of the hosts that gave the answers, as of the
// snapshot.
func recordingsOf(ctx context.Context, answers []answer) []recording {
	hosts := make([]*host, len(answers))
	of := make(map[*host]answer, len(answers))

	for i, a := range answers {
		hosts[i], of[a.host] = a.host, a
	}

	return recordings(hosts, func(h *host) (*HostRecord, error) { return of[h].recordIfAny(ctx) })
}

// records are those of all hosts that are not fenced, as of the snapshot.
func (f *Fleet) records(ctx context.Context) ([]recording, error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}

	return recordingsOf(ctx, slices.DeleteFunc(answers, answer.fenced)), nil
}

// recordIfAny is recordOf for a host that may not have answered.
func (a answer) recordIfAny(ctx context.Context) (*HostRecord, error) {
	if a.err != nil {
		return nil, a.err
	}

	return a.recordOf(ctx)
}

// rule is what holds for the machine if its host is to be emptied.
func (f *Fleet) rule(vm *VM, all []recording) (*eviction.Rule, error) {
	policies, err := f.EvictionPolicies().forMachinesOn(vm.host, all)
	if err != nil {
		return nil, err
	}

	rule := eviction.Select(forPolicies(vm), vm.Host, policies, f.defaultEviction)

	return &rule, nil
}

// forPolicies is the machine as policies see it.
func forPolicies(vm *VM) eviction.Machine {
	return eviction.Machine{
		UUID: vm.UUID, Name: vm.Name, Active: vm.Active, Persistent: vm.Persistent,
		Memory: vm.entry.committedMemory(), Labels: vm.Metadata.Labels, Strategy: vm.Metadata.EvictionStrategy,
		Pin: vm.Metadata.Host, Avoids: vm.Metadata.Avoids,
	}
}
