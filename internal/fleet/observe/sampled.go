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

// SampledVM is a VM of the fleet with its statistics on each host that has it. Its place follows from the answers of
// all hosts, as for every other reader.
type SampledVM struct {
	inventory.Listed

	// Samples are keyed by the name of the host.
	Samples map[string]Sample
}

// Home is the sample of the host that has the VM. Where hosts disagree, it is the sample of one on which the VM runs.
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

// Source is the sample of the host from which the VM is being moved, or perhaps moved: one where it is paused for a
// migration. It is nil when nothing moves the VM.
func (s SampledVM) Source() *Sample {
	if s.VM == nil || s.VM.BrokeInPostCopy() || !s.VM.Migrating && !s.VM.Entry.InMigration() {
		return nil
	}

	c, ok := s.Samples[s.VM.JobHost()]
	if !ok || c.Stats.Busy && (len(s.VM.ActiveHosts) > 1 || c.VM.Reason == libvirt.ReasonStartingUp) {
		return nil // It is handed over just now, or starts.
	}

	return &c
}

// HostCondition is the condition of a configured host, as far as one sampling shows it.
type HostCondition struct {
	Name                string
	Fenced, Schedulable bool
	// Memory, MemoryLimit and CommittedMemory are in bytes. They are 0 for a host that didn't answer.
	Memory, MemoryLimit, CommittedMemory uint64
	// Record is nil for a host that didn't answer or whose record is unreadable.
	Record *hostrecord.Record
}

// HostConditions returns the condition of every configured host, in their order. It asks no host.
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

// JoinSamples joins the hosts' samples of each VM, sorted by name. A host without samples counts as silent. Where the
// answers contradict each other, because a VM was handed over between them, it asks the hosts for that VM once more,
// until ctx ends.
func (ob *Observer) JoinSamples(ctx context.Context, all []HostSamples) []SampledVM {
	polls := make([]inventory.HostPoll, 0, len(all))
	samples := map[string]map[string]Sample{}

	for _, h := range all {
		if h.view == nil {
			continue
		}

		name := h.record.Host.Name
		polls = append(polls, inventory.HostPoll{Host: name, View: h.view})

		for _, m := range h.VMs {
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

// askAgain asks the hosts for the VM once more. It ignores an answer that decides nothing.
func (ob *Observer) askAgain(ctx context.Context, s *SampledVM) {
	vm, err := ob.hosts.FindNow(ctx, s.UUID, inventory.LastKnown{})

	switch {
	case err == nil && s.Samples[vm.Host].VM != nil:
		s.VM, s.Err, s.Inconsistent = vm, nil, false
	case errors.Is(err, inventory.ErrTwoCopies), errors.Is(err, inventory.ErrAmbiguous):
		s.VM, s.Err, s.Inconsistent = nil, err, false
	}
}

// hosts returns the hosts that have the VM, in order.
func (s SampledVM) hosts() []string { return slices.Sorted(maps.Keys(s.Samples)) }
