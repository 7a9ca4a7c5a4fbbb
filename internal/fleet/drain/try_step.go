package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// externalPoll is how often the drain looks whether another tool has moved a VM.
const externalPoll = 2 * time.Second

// shutdownRemainder is how long an interrupted drain waits for a guest that is shutting down already.
const shutdownRemainder = inventory.AskTimeout

// tryStep carries out a step once, and returns its result.
func (d *drainRun) tryStep(ctx context.Context, i int, rule evacuation.Rule) (result string, err error) {
	s := d.steps[i]

	if err := d.markAgain(ctx, s); err != nil {
		return "", err
	}

	switch s.Method {
	case evacuation.MethodLeave:
		return hostrecord.ResultLeft, nil
	case evacuation.MethodLive:
		d.noteTarget(ctx, i)

		vm, how, err := d.drainer.mover.MoveForDrain(ctx, s.UUID, d.lastKnown(), move.Request{
			Target: s.Target, Options: rule.Options, Priority: admission.PriorityMaintenance,
		})
		d.noteKept(ctx, i, how)
		d.noteUnsafe(i, err)

		return hostrecord.ResultMoved, verifyArrived(d.host, vm, s, err)
	case evacuation.MethodCold:
		d.noteTarget(ctx, i)

		how, err := d.drainer.moveCold(ctx, d.host, s, rule.Options, nil, coldNotes{
			ran:       func(ctx context.Context, ran, halted bool) error { return d.noteRan(ctx, i, ran, halted) },
			forcedOff: func(f hostrecord.ForcedOff) { d.noteForcedOff(i, f) },
		})
		d.noteKept(ctx, i, how)

		return hostrecord.ResultColdMoved, err
	case evacuation.MethodShutdown:
		return d.turnOff(ctx, i, hostrecord.ResultShutDown, func(ctx context.Context, vm *inventory.VM) error {
			return d.drainer.shutDownForEviction(ctx, vm, func(f hostrecord.ForcedOff) { d.noteForcedOff(i, f) })
		})
	case evacuation.MethodSave:
		return d.turnOff(ctx, i, hostrecord.ResultSaved, func(ctx context.Context, vm *inventory.VM) error {
			return vm.On.Conn.SaveDomain(ctx, vm.UUID)
		})
	case evacuation.MethodExternal:
		return hostrecord.ResultMoved, d.awaitGone(ctx, i)
	case evacuation.MethodPinned:
		return "", move.ErrPinned
	default:
		return "", fmt.Errorf("%w: its step is %s", move.ErrStays, s.Method)
	}
}

// noteTarget notes the UUID of the step's target. When the maintenance ends, the provider's hosts may give the target
// another name.
func (d *drainRun) noteTarget(ctx context.Context, i int) {
	uuid := ""

	if h := d.drainer.hosts.Host(d.steps[i].Target); h != nil {
		if info, err := h.Conn.Info(ctx); err == nil { // The move reports an error.
			uuid = info.UUID
		}
	}

	d.mu.Lock()
	d.steps[i].TargetUUID = uuid
	d.mu.Unlock()
}

// verifyArrived returns an error if the VM is still on the host that it was to leave. On any other host it has left,
// whichever run or tool moved it there.
func verifyArrived(from *inventory.Host, vm *inventory.VM, s hostrecord.RecordedStep, err error) error {
	if err == nil && vm != nil && vm.Host == from.Name {
		return &inventory.Error{VM: s.Name, Host: from.Name, Kind: move.ErrNotMoved, Detail: "it is still there"}
	}

	return err
}

// turnOff turns the VM off by calling off, and keeps the host from starting the VM when it boots. It returns result,
// that the VM was moved if it is on another host, or that it was left if a user has stopped it.
func (d *drainRun) turnOff(
	ctx context.Context, i int, result string, off func(context.Context, *inventory.VM) error,
) (string, error) {
	uuid, last := d.steps[i].UUID, d.lastKnown()

	err := d.drainer.mover.WithVMLocked(ctx, uuid, last, "evicting", func(ctx context.Context, vm *inventory.VM) error {
		switch {
		case vm.Host != d.Host:
			result = hostrecord.ResultMoved

			return nil
		case !vm.Active && !d.steps[i].Stopping:
			result = hostrecord.ResultLeft // As a VM that was off when the drain began.

			return nil
		}

		admission.MarkStarted(ctx)

		if err := d.suspendAutostart(ctx, i, vm); err != nil || !vm.Active {
			return err
		}

		return off(ctx, vm)
	})

	return result, err
}

// suspendAutostart keeps the host from starting the VM when it boots. Before that it records this, so that Release
// restores the autostart even if this run is killed, and that the drain turns the VM off.
func (d *drainRun) suspendAutostart(ctx context.Context, i int, vm *inventory.VM) error {
	suspend := vm.Autostart && vm.Persistent

	d.mu.Lock()
	d.steps[i].Stopping = true
	d.steps[i].Autostart = d.steps[i].Autostart || suspend
	d.mu.Unlock()

	if err := d.writeRecord(ctx, false); err != nil {
		return err
	}

	if !suspend {
		return nil
	}

	return vm.On.Conn.SetAutostart(ctx, vm.UUID, false)
}

// shutDownForEviction shuts the guest down, and tells forcedOff if the guest had to be forced off.
func (dr *Drainer) shutDownForEviction(
	ctx context.Context, vm *inventory.VM, forcedOff func(hostrecord.ForcedOff),
) error {
	outcome, err := dr.lifecycle.StopToReturn(ctx, vm, inventory.GracePeriod(vm.Metadata), "evicted")
	if err == nil && outcome.Forced() {
		forcedOff(hostrecord.ForcedOff{Name: vm.Name, Host: vm.Host, How: string(outcome)})
	}

	return err
}

// noteForcedOff notes in a step that the guest was forced off.
func (d *drainRun) noteForcedOff(i int, f hostrecord.ForcedOff) {
	d.mu.Lock()
	d.steps[i].ForcedOff = &f
	d.mu.Unlock()
}

// startAfterMove starts a VM that was to leave a host, on its current host, unless it runs, its configuration turns it
// off by now, or a user has saved its memory to a file. ranHere says that this run saw the VM run and shut it down, so
// that it can't run on a host that doesn't answer. haltedBefore says that its configuration turned it off before, and
// that it ran all the same. restarted says that it was not moved, and was started on the host that it was to leave.
func (dr *Drainer) startAfterMove(
	ctx context.Context, from *inventory.Host, uuid string, last inventory.LastKnown, ranHere, haltedBefore bool,
) (restarted bool, err error) {
	err = dr.mover.WithVMLocked(ctx, uuid, last, "starting", func(ctx context.Context, vm *inventory.VM) error {
		if vm.Active || vm.SavedToFile() || vm.Metadata.RunStrategy == status.Halted && !haltedBefore {
			return nil
		}

		if ranHere {
			vm.SilentHosts = nil
		}

		if vm.On == from {
			// The VM was not moved, so it is restored to the state before it was shut down. The cordon is the drain's
			// own.
			err := dr.lifecycle.Start(ctx, dr.placement.AdmitReturn(vm), vm)
			restarted = err == nil

			return err
		}

		return dr.start(ctx, vm)
	})

	return restarted, err
}

// start starts a stopped VM, if its host has room for it and isn't cordoned. The caller holds the VM's lock.
func (dr *Drainer) start(ctx context.Context, vm *inventory.VM) error {
	held, permit, err := dr.placement.Admit(ctx, vm)
	if err != nil {
		return err
	}
	defer permit.Release()

	return dr.lifecycle.Start(held, permit, vm)
}

// noteRan records whether the VM of a step runs, and is shut down to be moved: see coldNotes.
func (d *drainRun) noteRan(ctx context.Context, i int, ran, halted bool) error {
	note := func(ran bool) {
		d.mu.Lock()
		defer d.mu.Unlock()

		d.steps[i].Ran, d.steps[i].Halted = ran, ran && halted
	}

	note(ran)

	err := d.writeRecord(ctx, false)
	if err != nil {
		note(false) // The VM is not shut down, and the next try records it; or it runs again, recorded or not.
	}

	return err
}

// coldNotes are told what a cold move does with a guest that runs.
type coldNotes struct {
	// ran records that the VM runs, before its guest is shut down: if this run is killed, the next one starts it again.
	// halted says that its configuration turns it off. If the VM isn't moved and runs again where it was, that is taken
	// back: if its user turns it off then, it stays off.
	ran func(ctx context.Context, ran, halted bool) error
	// forcedOff notes that the guest was forced off.
	forcedOff func(hostrecord.ForcedOff)
}

// moveCold moves a VM from a host while it is off. A VM that runs is shut down when it is its turn to move, once note
// has recorded that it ran, and is started again afterwards, on the host that it is on then. If ctx ends while its
// guest shuts down, moveCold waits for that a little longer: see turnsOffSoon. A VM that has left the host meanwhile is
// left alone. The host doesn't keep the originals of disks that are in remove.
func (dr *Drainer) moveCold(
	ctx context.Context, from *inventory.Host, s hostrecord.RecordedStep, o migration.Options, remove []string,
	note coldNotes,
) (move.SourceFiles, error) {
	last := inventory.LastKnown{Host: from.Name}

	vm, err := dr.hosts.FindNow(ctx, s.UUID, last)
	if err != nil {
		return move.SourceFiles{}, err
	}

	starts, shut, halted := s.Ran, false, s.Halted

	if starts { // On the other host, nothing would tell that it was saved.
		if err := lifecycle.SavedMeanwhile(vm, "moved"); err != nil {
			return move.SourceFiles{}, err
		}
	}

	request := move.Request{
		Target: s.Target, Options: o, Priority: admission.PriorityMaintenance, Starts: starts, RemoveOriginals: remove,
	}

	if vm.Active {
		request.From = from
		request.TurnOff = func(ctx context.Context, vm *inventory.VM) error {
			starts, halted = true, vm.Metadata.RunStrategy == status.Halted

			if err := note.ran(ctx, true, halted); err != nil {
				return err
			}

			admission.MarkStarted(ctx)

			shut = true

			return dr.shutDownForEviction(ctx, vm, note.forcedOff)
		}
	}

	vm, how, err := dr.mover.MoveForDrain(ctx, s.UUID, last, request)
	if shut && errors.Is(err, migration.ErrBlocked) {
		err = fmt.Errorf("%w; %w", err, errShutDownInVain)
	}

	if shut && ctx.Err() != nil && vm != nil && vm.Active && vm.On == from && !dr.turnsOffSoon(ctx, vm) {
		err = fmt.Errorf("%w; %w", errMayTurnOff, err)
	}

	if vm != nil && starts {
		after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
		defer cancel()

		restarted, startErr := dr.startAfterMove(after, from, s.UUID,
			inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}, shut, halted)
		if restarted {
			if err := note.ran(after, false, false); err != nil { // The caller's end records it, unless the run is killed.
				dr.log.WarnContext(ctx, "not recorded that a VM runs again", "name", vm.Name, "error", err.Error())
			}
		}

		err = errors.Join(err, startErr)
	}

	return how, verifyArrived(from, vm, s, err)
}

// errShutDownInVain says that a guest was shut down for a move that could not take place.
var errShutDownInVain = errors.New("its guest was shut down for this move, which isn't tried again")

// errMayTurnOff says that a guest was still shutting down when nothing waited for it any more.
var errMayTurnOff = errors.New("its guest may still turn off; the next run that moves the VM starts it")

// turnsOffSoon waits for a guest that was still shutting down when ctx ended, and reports whether it is off. Then the
// caller can start the VM again.
func (dr *Drainer) turnsOffSoon(ctx context.Context, vm *inventory.VM) bool {
	dr.log.InfoContext(ctx, "waiting for a guest that was asked to shut down", "name", vm.Name, "host", vm.Host)

	after, cancel := lease.CleanupContext(ctx, shutdownRemainder)
	defer cancel()

	off, err := inventory.Await(after, vm, func(d *libvirt.Domain) bool { return d == nil || !d.Active() })

	return err == nil && off
}

// awaitGone waits until another tool has moved the VM, shut it down or removed it, and notes where it went.
func (d *drainRun) awaitGone(ctx context.Context, i int) error {
	s := d.steps[i]

	for {
		vm, err := d.drainer.hosts.FindNow(ctx, s.UUID, d.lastKnown())

		switch {
		case inventory.IsNotFound(err):
			return nil
		case err == nil && vm.Host != d.Host:
			d.mu.Lock()
			defer d.mu.Unlock()

			d.steps[i].Arrived = vm.Host

			return nil
		case err == nil && !vm.Active:
			return nil
		}

		if admission.Pause(ctx, externalPoll) != nil {
			return &inventory.Error{
				VM: s.Name, Host: d.Host, Kind: lifecycle.ErrNotReady, Err: context.Cause(ctx),
				Detail: "its strategy is External, and it was not moved away",
			}
		}
	}
}
