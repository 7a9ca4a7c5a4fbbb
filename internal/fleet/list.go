package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Listed is one machine of the fleet.
type Listed struct {
	UUID, Name string
	// VM is nil when Err says why nobody can tell where the machine is: it runs
	// twice, is defined on several hosts, or can't be understood.
	VM  *VM
	Err error
	// Rule is what holds for the machine if its host is to be emptied. It is nil
	// when VM is, or when RuleErr says why the host can't tell.
	Rule    *eviction.Rule
	RuleErr error
	// Skewed says that the hosts' answers may not fit together, because the machine
	// was handed over in between. Asked again, they will. Only Together leaves it
	// at that.
	Skewed bool

	silent []string
}

// Facts are what the bulk reading tells of the machine.
func (l Listed) Facts() status.Facts {
	if l.VM != nil {
		return l.VM.Facts()
	}

	if errors.Is(l.Err, ErrUnreachable) {
		return status.Facts{SilentHosts: l.silent}
	}

	return status.Facts{}
}

// List returns every machine of the fleet from one bulk reading and the record
// of each host, sorted by name, and the hosts that did not answer. What is wrong
// with one machine does not keep the others from being listed.
func (f *Fleet) List(ctx context.Context) (machines []Listed, silent []string, err error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}

	machines, silent = f.settled(ctx, answers)
	records := recordingsOf(ctx, slices.DeleteFunc(slices.Clone(answers), answer.fenced))

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

// settleAtOnce is how many machines hosts are asked for once more at a time.
const settleAtOnce = 8

// settled is listed, with the machines for which the answers didn't fit together
// asked for once more.
func (f *Fleet) settled(ctx context.Context, answers []answer) (machines []Listed, silent []string) {
	machines, silent = listed(answers, nil)

	var questions errgroup.Group

	questions.SetLimit(settleAtOnce)

	for i := range machines {
		m := &machines[i]
		if !m.Skewed {
			continue
		}

		questions.Go(func() error {
			m.VM, m.Err = f.findNow(ctx, m.UUID, LastKnown{})
			m.Skewed = false

			return nil
		})
	}

	_ = questions.Wait() // None of them fails: each machine has its own error.
	machines = slices.DeleteFunc(machines, func(m Listed) bool { return isNotFound(m.Err) })

	return machines, silent
}

// listed puts together what the hosts' views say of every machine, sorted by
// name and without their rules. last says where machines were seen before.
func listed(answers []answer, last map[string]LastKnown) (machines []Listed, silent []string) {
	silent = silentHosts(answers)
	names := make(map[string]string)

	for _, a := range answers {
		if a.view == nil {
			continue
		}

		for uuid, e := range a.view.domains {
			names[uuid] = e.Name
		}
	}

	for uuid, name := range names {
		vm, err := locate(about(answers, uuid), uuid, last[uuid])
		machines = append(machines, Listed{
			UUID: uuid, Name: name, VM: vm, Err: err, Skewed: skewed(vm, err), silent: silent,
		})
	}

	slices.SortFunc(machines, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return machines, silent
}
