package records

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Recording is one host's record, or why it can't be read.
type Recording struct {
	Host   *inventory.Host
	Record *hostrecord.Record
	Err    error
}

// readRecordings reads the records of several hosts in parallel.
func readRecordings(hosts []*inventory.Host, read func(*inventory.Host) (*hostrecord.Record, error)) []Recording {
	all := make([]Recording, len(hosts))

	var reading sync.WaitGroup

	for i, h := range hosts {
		all[i].Host = h

		reading.Go(func() { all[i].Record, all[i].Err = read(h) })
	}

	reading.Wait()

	return all
}

// Recordings returns the records of several hosts, without policies that were removed while their host could not be
// queried.
func Recordings(hosts []*inventory.Host, read func(*inventory.Host) (*hostrecord.Record, error)) []Recording {
	return WithoutRemoved(readRecordings(hosts, read))
}

// RecordingsOf returns the records of the hosts of the replies, as of the snapshot.
func RecordingsOf(ctx context.Context, answers []inventory.Reply) []Recording {
	hosts := make([]*inventory.Host, len(answers))
	of := make(map[*inventory.Host]inventory.Reply, len(answers))

	for i, a := range answers {
		hosts[i], of[a.Host] = a.Host, a
	}

	return Recordings(hosts, func(h *inventory.Host) (*hostrecord.Record, error) { return of[h].RecordIfAny(ctx) })
}

// Records returns the records of all hosts that are not fenced, as of the snapshot.
func (s *Store) Records(ctx context.Context) ([]Recording, error) {
	answers, err := s.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	return RecordingsOf(ctx, slices.DeleteFunc(answers, inventory.Reply.Fenced)), nil
}

// Rule returns the evacuation rule that applies to the VM if its host is drained.
func (s *Store) Rule(vm *inventory.VM, all []Recording) (*evacuation.Rule, error) {
	policies, err := s.EvictionPolicies().ForVMsOn(vm.On, all)
	if err != nil {
		return nil, err
	}

	rule := evacuation.SelectRule(ForPolicies(vm), vm.Host, policies, s.defaultEviction)

	return &rule, nil
}

// ForPolicies returns the VM in the form in which policies select it.
func ForPolicies(vm *inventory.VM) evacuation.VM {
	return evacuation.VM{
		UUID: vm.UUID, Name: vm.Name, Active: vm.Active, Persistent: vm.Persistent, Autostart: vm.Autostart,
		Memory: vm.On.CommittedMemory(vm.Entry), Labels: vm.Metadata.Labels, Strategy: vm.Metadata.EvictionStrategy,
		Pin: vm.Metadata.Host, Avoids: vm.Metadata.Avoids, Use: vm.Entry.HostUse().OnOtherHost(),
	}
}

// List returns every VM of the fleet from one bulk reading and the record of each host, sorted by name, and the hosts
// that did not answer. An error of one VM doesn't prevent the others from being listed.
func (s *Store) List(ctx context.Context) (vms []inventory.Listed, silent []string, err error) {
	answers, err := s.hosts.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}

	vms, silent = s.hosts.ListConsistent(ctx, answers)
	records := RecordingsOf(ctx, slices.DeleteFunc(slices.Clone(answers), inventory.Reply.Fenced))

	for i := range vms {
		if m := &vms[i]; m.VM != nil {
			m.Rule, m.RuleErr = s.Rule(m.VM, records)
		}
	}

	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}

	return vms, silent, nil
}
