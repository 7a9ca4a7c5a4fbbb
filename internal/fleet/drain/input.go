package drain

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// preflightsAtOnce is how many VMs are inspected at a time.
const preflightsAtOnce = 6

// inputQuery says what to find out about a host that is to be drained.
type inputQuery struct {
	// moveStopped also moves VMs that are off.
	moveStopped bool
	// askQEMU also asks QEMU itself what blocks a migration, which taints the VMs.
	askQEMU bool
	// atRest inspects no VM while another one arrives or leaves.
	atRest bool
	// known are VMs, by UUID, that were inspected before and aren't inspected again.
	known map[string]evacuation.VM
	// goals are, by UUID, the hosts to which VMs are to move live. If nothing blocks that move, no other host is asked.
	goals map[string]string
}

// evacuationInput collects everything that draining the host depends on, without VMs that are arriving or leaving.
// onItsWay names one of these, nil for none.
func (dr *Drainer) evacuationInput(
	ctx context.Context, h *inventory.Host, q inputQuery,
) (in evacuation.Input, onItsWay, err error) {
	in = evacuation.Input{Host: h.Name, Default: dr.defaultEviction, MoveStopped: q.moveStopped}

	answers, err := dr.hosts.Snapshot(ctx)
	if err != nil {
		return in, nil, err
	}

	var (
		from   inventory.Reply
		others []inventory.Reply
	)

	for _, a := range answers {
		switch {
		case a.Host == h:
			from = a
		case !a.Fenced():
			others = append(others, a)
		}
	}

	if from.Err != nil {
		return in, nil, from.Err
	}

	records := records.RecordingsOf(ctx, append([]inventory.Reply{from}, others...))

	if in.Policies, err = dr.records.EvictionPolicies().ForVMsOn(h, records); err != nil {
		return in, nil, err
	}

	if in.MigrationPolicies, err = dr.records.MigrationPolicies().ForVMsOn(h, records); err != nil {
		return in, nil, err
	}

	for _, a := range others {
		if a.Err == nil && !a.Host.Config.Unschedulable {
			in.Hosts = append(in.Hosts, dr.placement.CapacityOf(a))
		}
	}

	vms, onItsWay, err := dr.vmsOn(ctx, from, answers)
	if err != nil || q.atRest && onItsWay != nil {
		return in, onItsWay, err
	}

	evacuees, leaving, err := dr.inspectVMs(ctx, vms, in, others, q)
	in.VMs = evacuees

	dr.readFreeSpace(ctx, in)

	return in, cmp.Or(onItsWay, leaving), err
}

// vmsOn returns the VMs on the host, sorted, without those that are arriving or leaving, of which onItsWay names one. A
// stale definition is not a VM on the host.
func (dr *Drainer) vmsOn(
	ctx context.Context, from inventory.Reply, answers []inventory.Reply,
) (vms []*inventory.VM, onItsWay, err error) {
	last := inventory.LastKnown{Host: from.Host.Name}

	for uuid, e := range from.View.Domains {
		vm, err := inventory.Locate(inventory.RepliesAbout(answers, uuid), uuid, last)
		if e.Active() && inventory.Inconsistent(vm, err) {
			if vm, err = dr.hosts.FindNow(ctx, uuid, last); inventory.IsNotFound(err) {
				continue // It was removed since.
			}
		}

		if err == nil {
			err = vm.RequireIdle()
		}

		switch {
		case err != nil && !e.Active():
			continue // Which host it belongs to is unknown, and it is off.
		case err != nil && vm != nil && vm.Migrating && !vm.BrokeInPostCopy():
			onItsWay = &onItsWayError{error: err, vm: vm}
		case err != nil:
			return nil, nil, err
		case vm.On == from.Host:
			vms = append(vms, vm)
		}
	}

	slices.SortFunc(vms, func(a, b *inventory.VM) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return vms, onItsWay, nil
}

// inspectVMs returns the VMs with what blocks their moves, without VMs that leave meanwhile, of which onItsWay names
// one.
func (dr *Drainer) inspectVMs(
	ctx context.Context, vms []*inventory.VM, in evacuation.Input, others []inventory.Reply, q inputQuery,
) (evacuees []evacuation.VM, onItsWay, err error) {
	looked := make([]*evacuation.VM, len(vms))
	leaving := make([]error, len(vms))

	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(preflightsAtOnce)

	for i, vm := range vms {
		calls.Go(func() error {
			m, err := dr.inspectVM(ctx, vm, in, others, q)
			if err == nil {
				looked[i] = &m

				return nil
			}

			var left bool
			if left, leaving[i] = dr.hasLeft(ctx, vm); left {
				return nil
			}

			return err
		})
	}

	err = calls.Wait()

	for i, m := range looked {
		if m != nil {
			evacuees = append(evacuees, *m)
		}

		onItsWay = cmp.Or(onItsWay, leaving[i])
	}

	return evacuees, onItsWay, err
}

// onItsWayError says that a VM is arriving at the host or leaving it.
type onItsWayError struct {
	error
	vm *inventory.VM
}

// Unwrap returns the wrapped error.
func (e *onItsWayError) Unwrap() error { return e.error }

// hasLeft says whether a VM has left its host since the snapshot, or is leaving it now. In the latter case onItsWay
// names it.
func (dr *Drainer) hasLeft(ctx context.Context, vm *inventory.VM) (left bool, onItsWay error) {
	now, err := dr.hosts.FindNow(ctx, vm.UUID, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})

	switch {
	case inventory.IsNotFound(err):
		return true, nil
	case err == nil && now.Migrating && !now.BrokeInPostCopy():
		return true, &onItsWayError{error: now.RequireIdle(), vm: now}
	default:
		return err == nil && now.On != vm.On, nil
	}
}

// inspectVM returns a VM that is to leave, with what blocks its moves to each host.
func (dr *Drainer) inspectVM(
	ctx context.Context, vm *inventory.VM, in evacuation.Input, others []inventory.Reply, q inputQuery,
) (evacuation.VM, error) {
	m := records.ForPolicies(vm)
	m.Live = map[string][]migration.Blocker{}

	if before, known := q.known[vm.UUID]; known {
		m.Live, m.LiveBytes, m.LiveSpace = before.Live, before.LiveBytes, before.LiveSpace
		m.Cold, m.ColdBytes, m.ColdSpace = before.Cold, before.ColdBytes, before.ColdSpace

		return m, nil
	}

	rule := evacuation.SelectRule(m, in.Host, in.Policies, in.Default)

	if rule.Strategy == evacuation.External || rule.Strategy == evacuation.None && vm.Active ||
		!vm.Active && !in.MoveStopped {
		return m, nil // Its step doesn't depend on possible targets.
	}

	options := migration.ResolveOptions(m.On(in.Host), rule.Options, in.MigrationPolicies, dr.migration).Options

	inspected, err := move.Inspect(ctx, vm)
	if err != nil {
		return m, err
	}

	if q.askQEMU {
		inspected = inspected.AskQEMU(ctx, vm.On.Conn)
	}

	goal := slices.IndexFunc(others, func(a inventory.Reply) bool { return a.Host.Name == q.goals[vm.UUID] })
	if goal >= 0 && vm.Active {
		live, err := dr.routes(ctx, inspected, vm, others[goal:goal+1], options)
		if err == nil && len(migration.Blocking(live.blockers[q.goals[vm.UUID]])) == 0 {
			m.Live, m.LiveBytes, m.LiveSpace = live.blockers, live.bytes, live.space

			return m, nil
		}
	}

	live, err := dr.routes(ctx, inspected, vm, others, options)
	if err != nil {
		return m, err
	}

	m.Live, m.LiveBytes, m.LiveSpace = live.blockers, live.bytes, live.space

	persistent := vm.Entry.Parse().Persistent
	if vm.Active && rule.Fallback == evacuation.ColdMigrate && persistent != nil {
		inspected = inspected.TurnedOff(persistent.Mobility())
		move.MarkSharedOwnDisks(ctx, vm, &inspected.Mobility)

		cold, err := dr.routes(ctx, inspected, vm, others, options)
		if err != nil {
			return m, err
		}

		m.Cold, m.ColdBytes, m.ColdSpace = cold.blockers, cold.bytes, cold.space
	}

	return m, nil
}
