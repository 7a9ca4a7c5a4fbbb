package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// preflightsAtOnce bounds how many machines are looked at at the same time.
const preflightsAtOnce = 6

// evacuationInput gathers everything that emptying the host depends on. While a
// machine comes or leaves it is ErrBusy.
func (f *Fleet) evacuationInput(ctx context.Context, h *host, moveStopped bool) (eviction.Input, error) {
	in, onItsWay, err := f.evacuationInputWithout(ctx, h, moveStopped)
	if err == nil {
		err = onItsWay
	}

	return in, err
}

// evacuationInputWithout is evacuationInput without the machines that come or
// leave just now. onItsWay names one of them, nil: there is none.
func (f *Fleet) evacuationInputWithout(
	ctx context.Context, h *host, moveStopped bool,
) (in eviction.Input, onItsWay, err error) {
	in = eviction.Input{Host: h.name, Default: f.defaultEviction, MoveStopped: moveStopped}

	answers, err := f.snapshot(ctx)
	if err != nil {
		return in, nil, err
	}

	var (
		from   answer
		others []answer
	)

	for _, a := range answers {
		switch {
		case a.host == h:
			from = a
		case !a.fenced():
			others = append(others, a)
		}
	}

	if from.err != nil {
		return in, nil, from.err
	}

	records := recordingsOf(ctx, append([]answer{from}, others...))

	if in.Policies, err = f.EvictionPolicies().forMachinesOn(h, records); err != nil {
		return in, nil, err
	}

	if in.MigrationPolicies, err = f.MigrationPolicies().forMachinesOn(h, records); err != nil {
		return in, nil, err
	}

	for _, a := range others {
		if a.err == nil && !a.host.cfg.Unschedulable {
			in.Hosts = append(in.Hosts, f.roomOn(a))
		}
	}

	machines, onItsWay, err := f.machinesOn(ctx, from, answers)
	if err != nil {
		return in, nil, err
	}

	evacuees, leaving, err := f.evacuees(ctx, machines, in, others)
	in.Machines = evacuees

	return in, cmp.Or(onItsWay, leaving), err
}

// roomOn is what a host has room for.
func (f *Fleet) roomOn(a answer) eviction.Host {
	f.reservations.mu.Lock()
	defer f.reservations.mu.Unlock()

	return eviction.Host{Name: a.host.name, Free: f.free(a, ""), Machines: f.company(a, "")}
}

// machinesOn are the machines that are on the host, sorted, but for those that
// come or leave just now; onItsWay names one of these. A definition that one left
// behind there is none.
func (f *Fleet) machinesOn(
	ctx context.Context, from answer, answers []answer,
) (machines []*VM, onItsWay, err error) {
	last := LastKnown{Host: from.host.name}

	for uuid, e := range from.view.domains {
		vm, err := locate(about(answers, uuid), uuid, last)
		if e.Active() && skewed(vm, err) {
			if vm, err = f.findNow(ctx, uuid, last); isNotFound(err) {
				continue // It was the last of it that was seen.
			}
		}

		if err == nil {
			err = vm.settled()
		}

		switch {
		case err != nil && !e.Active():
			continue // It is nobody's business to say where it belongs.
		case err != nil && vm != nil && vm.Migrating && !vm.broken():
			onItsWay = err
		case err != nil:
			return nil, nil, err
		case vm.host == from.host:
			machines = append(machines, vm)
		}
	}

	slices.SortFunc(machines, func(a, b *VM) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UUID, b.UUID))
	})

	return machines, onItsWay, nil
}

// evacuees are the machines with all that is in their ways, but for those that
// leave while they are looked at; onItsWay names one of these.
func (f *Fleet) evacuees(
	ctx context.Context, machines []*VM, in eviction.Input, others []answer,
) (evacuees []eviction.Machine, onItsWay, err error) {
	looked := make([]*eviction.Machine, len(machines))
	leaving := make([]error, len(machines))

	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(preflightsAtOnce)

	for i, vm := range machines {
		calls.Go(func() error {
			m, err := f.evacuee(ctx, vm, in, others)
			if err == nil {
				looked[i] = &m

				return nil
			}

			var left bool
			if left, leaving[i] = f.hasLeft(ctx, vm); left {
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

// hasLeft says that a machine has left its host since that host spoke of it, or is
// leaving it now, which is onItsWay.
func (f *Fleet) hasLeft(ctx context.Context, vm *VM) (left bool, onItsWay error) {
	now, err := f.findNow(ctx, vm.UUID, LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})

	switch {
	case isNotFound(err):
		return true, nil
	case err == nil && now.Migrating && !now.broken():
		return true, now.settled()
	default:
		return err == nil && now.host != vm.host, nil
	}
}

// evacuee is a machine that is to leave, with all that is in its ways.
func (f *Fleet) evacuee(
	ctx context.Context, vm *VM, in eviction.Input, others []answer,
) (eviction.Machine, error) {
	m := forPolicies(vm)
	m.Live = map[string][]migration.Blocker{}
	rule := eviction.Select(m, in.Host, in.Policies, in.Default)

	if rule.Strategy == eviction.External || rule.Strategy == eviction.None && vm.Active || !vm.Active && !in.MoveStopped {
		return m, nil // Nobody needs to know where it could go.
	}

	options := migration.Tune(m.On(in.Host), rule.Options, in.MigrationPolicies, f.migration).Options

	inspected, err := vm.inspect(ctx)
	if err != nil {
		return m, err
	}

	if m.Live, m.LiveBytes, err = f.ways(ctx, inspected, vm, others, options); err != nil {
		return m, err
	}

	if persistent := vm.entry.parse().persistent; vm.Active && rule.Fallback == eviction.ColdMigrate && persistent != nil {
		inspected.State, inspected.Reason, inspected.Facts = libvirt.Shutoff, "Shutdown", persistent.Mobility()
		m.Cold, m.ColdBytes, err = f.ways(ctx, inspected, vm, others, options)
	}

	return m, err
}

// ways are what is in the way of the machine to each of the other hosts, where
// room is left out, and how much is copied to those that it can go to.
func (f *Fleet) ways(
	ctx context.Context, machine migration.Machine, vm *VM, others []answer, o migration.Options,
) (ways map[string][]migration.Blocker, bytes map[string]uint64, err error) {
	ways = make(map[string][]migration.Blocker, len(others))
	bytes = make(map[string]uint64, len(others))

	for _, a := range others {
		unavailable := ""

		switch {
		case a.err != nil:
			unavailable = fmt.Sprintf("host %q does not answer: %v", a.host.name, withoutHost(a.err))
		case a.host.cfg.Unschedulable:
			unavailable = fmt.Sprintf("host %q is not schedulable", a.host.name)
		case !policy.HasLabels(a.host.cfg.Labels, vm.Metadata.HostLabels):
			unavailable = fmt.Sprintf("host %q has not all of the labels %s", a.host.name, labelText(vm.Metadata.HostLabels))
		}

		if unavailable != "" {
			ways[a.host.name] = []migration.Blocker{{
				Reason: migration.HostNotAvailable, Status: status.False, Attribute: "host", Message: unavailable,
				Remedy: "Bring the host back, or add another one.",
			}}

			continue
		}

		blockers, err := f.preflightTo(ctx, vm, machine, a.host, o)
		if err != nil {
			return nil, nil, err
		}

		blockers = slices.DeleteFunc(blockers, func(b migration.Blocker) bool { return ofRoom(b.Reason) })
		ways[a.host.name] = blockers

		if len(migration.Blocking(blockers)) == 0 {
			bytes[a.host.name] = migration.BytesTo(ctx, machine, vm.host.conn, a.host.conn, o)
		}
	}

	return ways, bytes, nil
}
