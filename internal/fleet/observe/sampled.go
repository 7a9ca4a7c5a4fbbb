package observe

import (
	"context"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// SampledVM is a VM of the fleet, with what was counted of it on each host that has it. Where it is follows from what
// all hosts say, as for every other reader.
type SampledVM struct {
	inventory.Listed

	// Samples are by the host's name.
	Samples map[string]Sample
}

// Home is the sample of the host that has the VM. Where the hosts don't agree on that, it is of one on which it runs.
func (s SampledVM) Home() Sample {
	if s.VM != nil {
		home := s.Samples[s.VM.Host]
		home.VM = s.VM

		return home
	}

	var home Sample

	for _, name := range s.hosts() {
		if c := s.Samples[name]; home.VM == nil || c.VM.Active && !home.VM.Active {
			home = c
		}
	}

	return home
}

// Source is the sample of the host that the VM is being moved from, or may be: one that stands still for a migration.
// Nil is that nothing moves it.
func (s SampledVM) Source() *Sample {
	if s.VM == nil || s.VM.BrokeInPostCopy() || !s.VM.Migrating && !s.VM.Entry.InMigration() {
		return nil
	}

	c, ok := s.Samples[s.VM.LeavesFrom()]
	if !ok || c.Stats.Busy && (len(s.VM.ActiveHosts) > 1 || c.VM.Reason == libvirt.ReasonStartingUp) {
		return nil // It is handed over just now, or starts.
	}

	return &c
}

// HostCondition is how a configured host stands, as far as one sampling of it tells.
type HostCondition struct {
	Name                string
	Fenced, Schedulable bool
	// Memory, MemoryLimit and CommittedMemory are in bytes, 0 for a host that didn't answer.
	Memory, MemoryLimit, CommittedMemory uint64
	// Record is nil for a host that didn't answer, or whose record can't be read.
	Record *hostrecord.Record
}

// HostConditions are how all configured hosts stand, in their order. It asks no host.
func (ob *Observer) HostConditions(sampled []HostSamples) []HostCondition {
	by := map[*inventory.Host]HostSamples{}

	for _, s := range sampled {
		if s.view != nil {
			by[s.record.Host] = s
		}
	}

	all := make([]HostCondition, len(ob.hosts.Configured))

	for i, h := range ob.hosts.Configured {
		c := HostCondition{Name: h.Name, Fenced: h.Config.Fenced, Schedulable: !h.Config.Unschedulable}

		if s, ok := by[h]; ok {
			a := inventory.Reply{Host: h, View: s.view, Info: s.view.Info}
			c.Memory, c.MemoryLimit, c.CommittedMemory = a.Info.MemoryBytes, a.MemoryLimit(), a.Committed("")
			c.Record = s.record.Record
		}

		all[i] = c
	}

	return all
}

// JoinSamples puts together what hosts said of every VM, sorted by name. A host whose samples are missing counts as
// silent. Where the hosts' answers don't fit together, because a VM was handed over in between, they are asked for it
// once more, until ctx ends.
func (ob *Observer) JoinSamples(ctx context.Context, all []HostSamples) []SampledVM {
	polls := make([]inventory.HostPoll, 0, len(all))
	samples := map[string]map[string]Sample{}

	for _, h := range all {
		if h.view == nil {
			continue
		}

		name := h.record.Host.Name
		polls = append(polls, inventory.HostPoll{Host: name, View: h.view})

		for _, m := range h.Machines {
			if samples[m.VM.UUID] == nil {
				samples[m.VM.UUID] = map[string]Sample{}
			}

			samples[m.VM.UUID][name] = m
		}
	}

	var joined []SampledVM

	for _, l := range ob.hosts.MergePolls(polls, nil) {
		if of := samples[l.UUID]; of != nil { // Else its definition can't be read.
			joined = append(joined, SampledVM{Listed: l, Samples: of})
		}
	}

	var questions errgroup.Group

	questions.SetLimit(inventory.SettleAtOnce)

	for i := range joined {
		if m := &joined[i]; m.Inconsistent {
			questions.Go(func() error {
				ob.askAgain(ctx, m)

				return nil
			})
		}
	}

	_ = questions.Wait() // None of them fails: what isn't answered stays as it was read.

	return joined
}

// askAgain asks the hosts for the VM once more. Of an answer that doesn't decide nothing is taken over.
func (ob *Observer) askAgain(ctx context.Context, s *SampledVM) {
	vm, err := ob.hosts.FindNow(ctx, s.UUID, inventory.LastKnown{})

	switch {
	case err == nil && s.Samples[vm.Host].VM != nil:
		s.VM, s.Err, s.Inconsistent = vm, nil, false
	case errors.Is(err, inventory.ErrTwoCopies), errors.Is(err, inventory.ErrAmbiguous):
		s.VM, s.Err, s.Inconsistent = nil, err, false
	}
}

// hosts are those that have the VM, in order.
func (s SampledVM) hosts() []string { return slices.Sorted(maps.Keys(s.Samples)) }
