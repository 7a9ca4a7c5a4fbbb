package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Listed is one VM of the fleet.
type Listed struct {
	UUID, Name string
	// VM is nil if Err says why the VM's location is unknown: it runs twice, is defined on several hosts, or its
	// definition can't be parsed.
	VM  *VM
	Err error
	// Rule is the evacuation rule that applies to the VM if its host is drained. It is nil if VM is nil, or if RuleErr
	// says why the rule couldn't be read from the host.
	Rule    *evacuation.Rule
	RuleErr error
	// Inconsistent says that the hosts' replies may contradict each other because the VM was handed over in between. A
	// second query resolves it; only MergePolls returns such VMs.
	Inconsistent bool
	// Doubles are second copies of the VM that have UUIDs of their own.
	Doubles []status.Double

	silent []string
	// activeOn are the hosts that have a hypervisor process of the VM.
	activeOn []string
}

// Facts returns what the bulk reading says about the VM.
func (l Listed) Facts() status.Facts {
	if l.VM != nil {
		f := l.VM.Facts()
		f.Doubles = l.Doubles

		return f
	}

	switch {
	case errors.Is(l.Err, ErrUnreachable):
		return status.Facts{SilentHosts: l.silent}
	case errors.Is(l.Err, ErrTwoCopies):
		return status.Facts{RunsOn: l.activeOn}
	default:
		return status.Facts{}
	}
}

// SettleAtOnce is how many VMs are queried again in parallel.
const SettleAtOnce = 8

// ListConsistent lists the VMs, and queries those again for which the hosts' replies contradicted each other.
func (inv *Inventory) ListConsistent(ctx context.Context, answers []Reply) (machines []Listed, silent []string) {
	machines, silent = listed(answers, nil)

	var questions errgroup.Group

	questions.SetLimit(SettleAtOnce)

	for i := range machines {
		m := &machines[i]
		if !m.Inconsistent {
			continue
		}

		questions.Go(func() error {
			m.VM, m.Err = inv.FindNow(ctx, m.UUID, LastKnown{})
			m.Inconsistent = false

			return nil
		})
	}

	_ = questions.Wait() // no function returns an error: each VM has its own
	machines = slices.DeleteFunc(machines, func(m Listed) bool { return IsNotFound(m.Err) })

	return machines, silent
}

// listed combines what the hosts' views say about every VM, sorted by name and without evacuation rules. last says
// where VMs were last seen.
func listed(answers []Reply, last map[string]LastKnown) (machines []Listed, silent []string) {
	silent = SilentHosts(answers)
	names, called := make(map[string]string), make(map[string]int)

	for _, a := range answers {
		if a.View == nil {
			continue
		}

		for uuid, e := range a.View.Domains {
			names[uuid] = e.Name
		}
	}

	for _, name := range names {
		called[name]++
	}

	for uuid, name := range names {
		of := RepliesAbout(answers, uuid)
		vm, err := Locate(of, uuid, last[uuid])
		l := Listed{UUID: uuid, Name: name, VM: vm, Err: err, Inconsistent: Inconsistent(vm, err), silent: silent}

		for _, a := range of {
			if a.Domain != nil && a.Domain.Active() {
				l.activeOn = append(l.activeOn, a.Host.Name)
			}
		}

		if vm != nil && called[name] > 1 {
			l.Doubles = vm.Doubles(answers)
		}

		machines = append(machines, l)
	}

	slices.SortFunc(machines, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return machines, silent
}

// RunningOn returns the names of the VMs that run on the host, as of the snapshot, sorted.
func (inv *Inventory) RunningOn(ctx context.Context, name string) ([]string, error) {
	h, err := inv.UsableHost(name)
	if err != nil {
		return nil, err
	}

	a, err := inv.ReplyOf(ctx, h)
	if err != nil {
		return nil, err
	}

	var names []string

	for _, e := range a.View.Domains {
		if e.Active() {
			names = append(names, e.Name)
		}
	}

	slices.Sort(names)

	return names, nil
}
