package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/turn"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Move brings the machine to the target host: while it runs, if it runs. It
// returns the machine as it is then, wherever that is, and how it went; the VM
// is nil when nobody can say. A machine that is on the target already is left
// alone, and the state is the zero value.
//
// How it went is kept in the machine's metadata as well. o is what was said for
// this very move; the rest comes from the policy that holds for the machine, and
// the fleet's own.
//
// A target that is cordoned is waited for, though not for long: Terraform may end
// its maintenance in the same apply. As long as that lasts the machine stays, and the
// error is ErrBlocked.
//
// When ctx ends a migration is aborted, which takes seconds, unless the guest
// is on the target already. A machine that another run moves elsewhere at that
// time is left to it, and the error is ErrBusy.
func (f *Fleet) Move(
	ctx context.Context, uuid string, last LastKnown, target string, o migration.Options,
) (*VM, migration.State, error) {
	vm, how, err := f.moveAfter(ctx, uuid, last, wish{target: target, options: o, priority: turn.PriorityUser},
		func(ctx context.Context, vm *VM, last LastKnown) (*VM, error) {
			vm, err := f.concludeFor(ctx, vm, last, MoveOrder{Target: target, Options: o})
			if err == nil && vm.Host != target {
				f.awaitUncordoned(ctx, target)
			}

			return vm, err
		})

	return vm, how.state, err
}

// wish is where and how a machine is to be moved.
type wish struct {
	target   string
	options  migration.Options
	priority int
	// starts says that a machine which is off is started as soon as it is there.
	starts bool
	// unlessPinnedHere says that a machine which its configuration pins to where it is stays.
	unlessPinnedHere bool
}

// moveInTurn is Move for one that has another priority among those that wait,
// and that moves the machine on from where another run brings it, but not from
// where its configuration wants it by now. The move that it returns says how it
// went.
func (f *Fleet) moveInTurn(ctx context.Context, uuid string, last LastKnown, w wish) (*VM, *move, error) {
	w.unlessPinnedHere = true

	return f.moveAfter(ctx, uuid, last, w, func(ctx context.Context, vm *VM, last LastKnown) (*VM, error) {
		return f.concludeInterrupted(ctx, vm, last, w.options)
	})
}

// moveAfter is moveInTurn after another move has been brought to its end by conclude.
func (f *Fleet) moveAfter(
	ctx context.Context, uuid string, last LastKnown, w wish,
	conclude func(context.Context, *VM, LastKnown) (*VM, error),
) (*VM, *move, error) {
	to, err := f.targetHost(w.target)
	if err != nil {
		return nil, &move{}, err
	}

	vm, err := f.findNow(ctx, uuid, last)
	if err == nil {
		vm, err = conclude(ctx, vm, last)
	}

	if err != nil || vm.host == to {
		return vm, &move{}, err
	}

	m := &move{
		fleet: f, vm: vm, from: vm.host, to: to, options: w.options, priority: w.priority, starts: w.starts,
		unlessPinnedHere: w.unlessPinnedHere,
	}
	now, err := m.locked(ctx, last)

	return now, m, err
}

// targetHost is the host of that name, which must be one that can be asked.
func (f *Fleet) targetHost(name string) (*host, error) {
	to := f.host(name)

	switch {
	case to == nil:
		return nil, &Error{
			Host: name, Kind: ErrUnconfigured,
			Detail: fmt.Sprintf("host %q is not in the provider's hosts; configured are %s", name, quoteList(f.HostNames())),
			Remedy: "Use one of the configured names, or add the host to the provider's hosts.",
		}
	case to.cfg.Fenced:
		return nil, &Error{
			Host: name, Kind: ErrUnreachable, Detail: fmt.Sprintf("host %q is fenced", name), Remedy: "Choose another host.",
		}
	default:
		return to, nil
	}
}

// move is one machine on its way.
type move struct {
	fleet    *Fleet
	vm       *VM // as it was at the source
	from, to *host
	// options are those that were said for this move, tuning what is in force once it begins.
	options  migration.Options
	tuning   migration.Tuning
	priority int
	// starts says that the machine, which is off, is started once it is there.
	starts bool
	// unlessPinnedHere says that a machine which its configuration pins to the source stays.
	unlessPinnedHere bool
	// id is how whoever ordered the move knows its record again, "" if nobody will.
	id string
	// unlessPinnedElsewhere says that a machine which its configuration pins to another host than the target stays.
	unlessPinnedElsewhere bool
	state                 migration.State
	// copied are the files of the disks that were copied, kept says that the source keeps its own of them.
	copied []string
	kept   bool
	// stays is what neither host loses with its definition of the machine, which is off.
	stays []libvirt.Kept
	// record is what is kept of the move. Its start is zero until something is done.
	record domain.Migration
}

// locked moves the machine once it is its turn, under its lock on both hosts,
// and returns what Move does.
func (m *move) locked(ctx context.Context, last LastKnown) (*VM, error) {
	f, uuid := m.fleet, m.vm.UUID

	f.log.InfoContext(ctx, "migration", "phase", migration.PhasePending, "name", m.vm.Name, "source", m.from.name,
		"target", m.to.name)

	leave, err := f.queue.Enter(ctx, uuid, m.from.name, m.to.name, m.priority)
	if err != nil {
		return m.vm, m.notStarted(err)
	}
	defer leave()

	// Whoever finds the machine on the target as soon as it is there takes the
	// lock there, so both are needed: in one order for all, as another may be
	// about to move it back.
	first, second := m.from, m.to
	if second.name < first.name {
		first, second = second, first
	}

	held, unlockFirst, err := f.lockOn(ctx, first, uuid, "moving")
	if err != nil {
		return m.vm, err
	}
	defer unlockFirst()

	held, unlockSecond, err := f.lockOn(held, second, uuid, "moving")
	if err != nil {
		return m.vm, err
	}
	defer unlockSecond()

	now, err := f.findSettled(held, uuid, last)
	if err != nil || now.host != m.from {
		m.from.forget()
		m.to.forget()
	}

	if err != nil || now.host == m.to {
		return now, err
	}

	m.vm = now

	if now.host != m.from {
		return now, &Error{
			VM: now.Name, Host: now.Host, Kind: ErrBusy, Detail: "it was moved by somebody else meanwhile",
			Remedy: "Plan and apply again.",
		}
	}

	err = m.run(held)

	return m.outcome(ctx, err)
}

func (m *move) run(ctx context.Context) error {
	if m.unlessPinnedHere && m.vm.Metadata.Host == m.from.name {
		return errPinned
	}

	m.to.forgetRecord()   // It may have been cordoned by now.
	m.from.forgetRecord() // Its policies may be others.

	if len(m.vm.Metadata.Copies) > 0 {
		now, err := m.fleet.discardCopies(ctx, m.vm, m.to)
		if err != nil {
			return err
		}

		m.vm = now
	}

	var err error
	if m.tuning, err = m.fleet.tuning(ctx, m.vm, m.options); err != nil {
		return err
	}

	machine, blockers, err := m.preflight(ctx)
	if err != nil {
		return err
	}

	if m.unlessPinnedElsewhere {
		blockers = append(blockers, pinBlocker(m.vm, m.to, status.False)...)
	}

	if blocking := migration.Blocking(blockers); len(blocking) > 0 {
		return &Error{VM: m.vm.Name, Host: m.from.name, Err: &migration.BlockedError{Blockers: blocking}}
	}

	// A definition that was left behind there is in the way of the one that comes.
	if slices.Contains(m.vm.StaleHosts, m.to.name) && m.vm.Active {
		if err := m.fleet.removeStaleOn(ctx, m.to.name, m.vm); err != nil {
			return err
		}
	}

	if !machine.Live() {
		return m.cold(ctx, machine)
	}

	return m.live(ctx, machine)
}

// live moves a machine that runs.
func (m *move) live(ctx context.Context, machine migration.Machine) error {
	release, err := m.reserve(ctx, machine.Facts.Memory)
	if err != nil {
		return err
	}
	defer release()

	if err := m.begin(ctx, migration.MethodLive); err != nil {
		return err
	}

	if err := m.clearAutostart(ctx); err != nil {
		return err
	}

	var released atomic.Bool

	m.state, err = migration.Run(ctx, migration.Request{
		Machine: machine, Source: m.from.conn, Target: m.to.conn, Address: m.to.cfg.MigrationAddress,
		PeerURI:      m.to.cfg.PeerURI,
		SourceTunnel: m.from.cfg.Tunnel, TargetTunnel: m.to.cfg.Tunnel, Options: m.tuning.Options, Logger: m.fleet.log,
		Made: func(ctx context.Context, s migration.State, images []string) error {
			m.copied = images

			return m.made(ctx, s, images)
		},
		Progress: func(s migration.State) {
			// From now on the target has the machine, and counts it by itself.
			if s.Phase == migration.PhaseRunning && released.CompareAndSwap(false, true) {
				m.fleet.background.Go(release)
			}
		},
	})

	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()

	if err != nil {
		err = m.fleet.giveUp(after, m.vm.UUID, m.from, m.to, m.tuning.Options, err)
		m.state.FailureReason = failureReason(m.state, err)

		return m.failure(ctx, err)
	}

	m.kept = *m.tuning.Options.WithDefaults().KeepSourceDisks
	m.restoreAutostart(after, m.to)
	m.fleet.setClock(after, m.to, m.vm)

	return nil
}

// clearAutostart keeps the source from starting the machine by itself once it
// has left.
func (m *move) clearAutostart(ctx context.Context) error {
	if !m.vm.Autostart {
		return nil
	}

	return m.from.conn.SetAutostart(ctx, m.vm.UUID, false)
}

// restoreAutostart sets on the host that has the machine now what it had before.
func (m *move) restoreAutostart(ctx context.Context, on *host) {
	if !m.vm.Autostart {
		return
	}

	if err := on.conn.SetAutostart(ctx, m.vm.UUID, true); err != nil {
		m.fleet.log.WarnContext(ctx, "autostart not set", "name", m.vm.Name, "host", on.name, "error", err.Error())
	}
}

// clockTimeout bounds the one order to a guest's agent after its arrival.
const clockTimeout = 5 * time.Second

// setClock makes up for the time in which the guest stood still, if it can. The
// machine, which runs on that host now, may have been read before it moved.
func (f *Fleet) setClock(ctx context.Context, on *host, vm *VM) {
	if !vm.AgentConnected {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()

	if err := on.conn.SetGuestTime(ctx, vm.UUID); err != nil {
		f.log.DebugContext(ctx, "guest's clock not set", "name", vm.Name, "host", on.name, "error", err.Error())
	}
}
