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
	// VM is nil when Err says why it is unknown where the VM is: it runs twice, is defined on several hosts, or can't be
	// understood.
	VM  *VM
	Err error
	// Rule is what holds for the VM if its host is to be drained. It is nil when VM is, or when RuleErr says why the host
	// can't tell.
	Rule    *evacuation.Rule
	RuleErr error
	// Inconsistent says that the hosts' answers may not fit together, because the VM was handed over in between. Asked
	// again, they will. Only MergePolls leaves it at that.
	Inconsistent bool

	silent []string
	// activeOn are the hosts that have a hypervisor process of it.
	activeOn []string
}

// Facts are what the bulk reading tells of the VM.
func (l Listed) Facts() status.Facts {
	if l.VM != nil {
		return l.VM.Facts()
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

// LeaveSecrets makes all definitions be read without their secrets, for whoever only looks. Accounts that may do no
// more than that suffice then.
func (inv *Inventory) LeaveSecrets() {
	for _, h := range inv.Configured {
		h.Conn.LeaveSecrets()
	}
}

// SettleAtOnce is how many VMs hosts are asked for once more at a time.
const SettleAtOnce = 8

// ListConsistent is listed, with the VMs for which the answers didn't fit together asked for once more.
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

	_ = questions.Wait() // None of them fails: each VM has its own error.
	machines = slices.DeleteFunc(machines, func(m Listed) bool { return IsNotFound(m.Err) })

	return machines, silent
}

// listed puts together what the hosts' views say of every VM, sorted by name and without their rules. last says where
// VMs were seen before.
func listed(answers []Reply, last map[string]LastKnown) (machines []Listed, silent []string) {
	silent = SilentHosts(answers)
	names := make(map[string]string)

	for _, a := range answers {
		if a.View == nil {
			continue
		}

		for uuid, e := range a.View.Domains {
			names[uuid] = e.Name
		}
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

		machines = append(machines, l)
	}

	slices.SortFunc(machines, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return machines, silent
}

// RunningOn are the names of the VMs that run on the host, as of the snapshot, sorted.
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
