package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// inspectionsAtOnce is how many VMs are inspected at a time.
const inspectionsAtOnce = 6

// inputQuery says what to find out about a host that is to be drained.
type inputQuery struct {
	// turn is that of the drain which asks; nil: none does.
	turn *turn
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
	// unsafe are VMs whose live migration libvirt refused.
	unsafe unsafeMoves
	// stuck are VMs, by UUID, that arrive or leave and aren't waited for, with the reason. They are VMs on the host, and
	// nothing is known about their moves.
	stuck map[string]error
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

	recordings := records.RecordingsOf(ctx, append([]inventory.Reply{from}, others...))

	if in.Policies, err = dr.records.EvictionPolicies().ForVMsOn(h, recordings); err != nil {
		return in, nil, err
	}

	if in.MigrationPolicies, err = dr.records.MigrationPolicies().ForVMsOn(h, recordings); err != nil {
		return in, nil, err
	}

	for _, a := range others {
		if a.Err == nil && !a.Host.Config.Unschedulable {
			in.Hosts = append(in.Hosts, dr.placement.CapacityOf(ctx, a))
		}
	}

	residents, onItsWay := dr.residentsOf(ctx, from, answers, q.stuck)
	if q.atRest && onItsWay != nil {
		return in, onItsWay, nil
	}

	evacuees, leaving, err := dr.inspectVMs(ctx, residents, in, others, q)
	in.VMs = evacuees

	dr.readRoom(ctx, in, others)

	return in, cmp.Or(onItsWay, leaving), err
}

// resident is a VM on the host that is to be drained.
type resident struct {
	evacuation.VM
	// vm is nil if the host's definition of the VM can't be read.
	vm *inventory.VM
	// unclear is why nothing can be said about moves of the VM. Nil means that it can be inspected.
	unclear error
}

// residentOf returns the VM of an entry of the host. vm is the VM if it was found.
func residentOf(on inventory.Reply, e *inventory.Entry, vm *inventory.VM, unclear error) resident {
	if vm == nil || vm.On != on.Host {
		on.Domain = e
		vm, _ = inventory.NewVM(on)
	}

	if vm == nil {
		return resident{
			VM:      evacuation.VM{UUID: e.UUID, Name: e.Name, Active: e.Active(), Persistent: e.Persistent},
			unclear: unclear,
		}
	}

	r := resident{VM: records.ForPolicies(vm), vm: vm, unclear: unclear}
	r.StartedMemory = vm.On.StartedMemory(vm.Entry)
	r.StartedUse = vm.Entry.DefinedUse().WithMetadata(vm.Metadata).OnOtherHost()

	return r
}

// residentsOf returns the VMs on the host, sorted, without those that are arriving or leaving, of which onItsWay names
// one. A stale definition is not a VM on the host. A VM that runs there and can't be located, for example because it
// runs on another host too, is a VM on the host: it fails its own step, and the other VMs leave.
func (dr *Drainer) residentsOf(
	ctx context.Context, from inventory.Reply, answers []inventory.Reply, stuck map[string]error,
) (residents []resident, onItsWay error) {
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
		case stuck[uuid] != nil && e.Active():
			residents = append(residents, residentOf(from, e, vm, stuck[uuid]))
		case err != nil && vm != nil && vm.Migrating && !vm.BrokeInPostCopy():
			onItsWay = &onItsWayError{error: err, vm: vm}
		case err != nil || vm.On == from.Host:
			residents = append(residents, residentOf(from, e, vm, err))
		}
	}

	slices.SortFunc(residents, func(a, b resident) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return residents, onItsWay
}

// inspectVMs returns the VMs with what blocks their moves, without VMs that leave meanwhile, of which onItsWay names
// one. A VM that can't be inspected, for example because its QEMU doesn't answer, fails its own step and delays no
// other VM. The error is that of a host that doesn't answer.
func (dr *Drainer) inspectVMs(
	ctx context.Context, residents []resident, in evacuation.Input, others []inventory.Reply, q inputQuery,
) (evacuees []evacuation.VM, onItsWay, err error) {
	inspected := make([]*evacuation.VM, len(residents))
	leaving := make([]error, len(residents))

	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(inspectionsAtOnce)

	for i, r := range residents {
		calls.Go(func() error {
			m, err := r.VM, r.unclear
			if err == nil {
				m, err = dr.inspectVM(ctx, r, in, others, q)
			}

			if err != nil && r.unclear == nil {
				var left bool

				left, leaving[i], err = dr.whySick(ctx, r.vm, err)
				if left {
					return nil
				}
			}

			if err != nil && (ctx.Err() != nil || errors.Is(err, errHostSilent)) {
				return err
			}

			if err != nil {
				m = r.VM
				m.Unclear, m.LiveBlockers = true, dr.unclearRoutes(r, others, q.turn, err)
			}

			inspected[i] = &m

			return nil
		})
	}

	err = calls.Wait()

	for i, m := range inspected {
		if m != nil {
			evacuees = append(evacuees, *m)
		}

		onItsWay = cmp.Or(onItsWay, leaving[i])
	}

	return evacuees, onItsWay, err
}

// errHostSilent says that the host that is to be drained doesn't answer.
var errHostSilent = errors.New("the host that is to be drained doesn't answer")

// whySick is called for a VM that could not be inspected. It says whether the VM has left its host since the snapshot,
// or is leaving it now: in the latter case onItsWay names it. Otherwise it returns the error, with errHostSilent if the
// reason is not the VM but its host.
func (dr *Drainer) whySick(
	ctx context.Context, vm *inventory.VM, failed error,
) (left bool, onItsWay, err error) {
	now, answers, err := dr.hosts.FindAmong(ctx, vm.UUID, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})

	at := slices.IndexFunc(answers, func(a inventory.Reply) bool { return a.Host == vm.On })

	switch {
	case inventory.IsNotFound(err):
		return true, nil, nil
	case err == nil && now.Migrating && !now.BrokeInPostCopy():
		return true, &onItsWayError{error: now.RequireIdle(), vm: now}, nil
	case err == nil && now.On != vm.On:
		return true, nil, nil
	case at < 0 || answers[at].Err != nil:
		return false, nil, fmt.Errorf("%w: %w", errHostSilent, failed)
	default:
		return false, nil, failed
	}
}

// unclearRoutes returns for each host that may accept the VM that nothing is known about a move there.
func (dr *Drainer) unclearRoutes(
	r resident, others []inventory.Reply, by *turn, why error,
) map[string][]migration.Blocker {
	vm := cmp.Or(r.vm, &inventory.VM{})
	ways := make(map[string][]migration.Blocker, len(others))

	for _, a := range others {
		ways[a.Host.Name] = dr.knownBlockers(vm, a, by)
		if len(ways[a.Host.Name]) == 0 {
			ways[a.Host.Name] = []migration.Blocker{{
				Reason: migration.StateNotMigratable, Status: status.Unknown,
				Message: fmt.Sprintf("what blocks its moves can't be read: %v", why),
				Remedy:  "Look at the VM on its host. The other VMs leave the host without it.",
			}}
		}
	}

	return ways
}

// inspectVM returns a VM that is to leave, with what blocks its moves to each host.
func (dr *Drainer) inspectVM(
	ctx context.Context, r resident, in evacuation.Input, others []inventory.Reply, q inputQuery,
) (evacuation.VM, error) {
	m, vm := r.VM, r.vm
	m.LiveBlockers = map[string][]migration.Blocker{}

	if before, known := q.known[vm.UUID]; known {
		m.Unclear = before.Unclear
		m.LiveBlockers, m.LiveBytes, m.LiveSpace = before.LiveBlockers, before.LiveBytes, before.LiveSpace
		m.ColdBlockers, m.ColdBytes, m.ColdSpace = before.ColdBlockers, before.ColdBytes, before.ColdSpace

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
		live, err := dr.routes(ctx, inspected, vm, others[goal:goal+1], q.turn, options)
		q.unsafe.block(vm.UUID, live)

		if err == nil && len(migration.Blocking(live.blockers[q.goals[vm.UUID]])) == 0 {
			m.LiveBlockers, m.LiveBytes, m.LiveSpace = live.blockers, live.bytes, live.space

			return m, nil
		}
	}

	live, err := dr.routes(ctx, inspected, vm, others, q.turn, options)
	if err != nil {
		return m, err
	}

	q.unsafe.block(vm.UUID, live)

	m.LiveBlockers, m.LiveBytes, m.LiveSpace = live.blockers, live.bytes, live.space

	if vm.Active && rule.Fallback == evacuation.ColdMigrate {
		var cold routes // None if it is transient.

		if off := move.TurnedOff(ctx, vm, inspected); off != nil {
			if cold, err = dr.routes(ctx, *off, vm, others, q.turn, options); err != nil {
				return m, err
			}
		}

		m.ColdBlockers, m.ColdBytes, m.ColdSpace = cold.blockers, cold.bytes, cold.space
	}

	return m, nil
}
