package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migrate"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// externalPoll is how often it is looked whether somebody has moved a VM.
const externalPoll = 2 * time.Second

// try carries a step out once, and returns what became of it.
func (d *drain) try(ctx context.Context, i int, rule evacuation.Rule) (result string, err error) {
	s := d.steps[i]

	if err := d.markAgain(ctx, s); err != nil {
		return "", err
	}

	switch s.Method {
	case evacuation.MethodLeave:
		return hostrecord.ResultLeft, nil
	case evacuation.MethodLive:
		vm, how, err := d.drainer.mover.MoveInTurn(ctx, s.UUID, d.last(), migrate.Request{
			Target: s.Target, Options: rule.Options, Priority: admission.PriorityMaintenance,
		})
		d.noteKept(ctx, i, how, err)

		return hostrecord.ResultMoved, d.arrived(vm, s, err)
	case evacuation.MethodCold:
		if s.Ran, err = d.noteRunning(ctx, i); err != nil {
			return hostrecord.ResultColdMoved, err
		}

		how, err := d.moveCold(ctx, s, rule.Options)
		d.noteKept(ctx, i, how, err)

		return hostrecord.ResultColdMoved, err
	case evacuation.MethodShutdown:
		return d.turnOff(ctx, i, hostrecord.ResultShutDown, d.drainer.shutDownForEviction)
	case evacuation.MethodSave:
		return d.turnOff(ctx, i, hostrecord.ResultSaved, func(ctx context.Context, vm *inventory.VM) error {
			return vm.On.Conn.SaveDomain(ctx, vm.UUID)
		})
	case evacuation.MethodExternal:
		return hostrecord.ResultMoved, d.awaitGone(ctx, s)
	case evacuation.MethodPinned:
		return "", migrate.ErrPinned
	default:
		return "", fmt.Errorf("%w: its step is %s", migrate.ErrStays, s.Method)
	}
}

// arrived makes sure that a VM is where it was moved to: one that was found
// elsewhere was moved by somebody else, which is as good.
func (d *drain) arrived(vm *inventory.VM, s hostrecord.Step, err error) error {
	if err == nil && vm != nil && vm.Host == d.Host {
		return &inventory.Error{VM: s.Name, Host: d.Host, Kind: migrate.ErrNotMoved, Detail: "it is still there"}
	}

	return err
}

// requestEviction marks the VM as one that is to leave the host.
func (dr *Drainer) requestEviction(ctx context.Context, uuid, host string) error {
	return dr.mover.OnMachine(ctx, uuid, inventory.LastKnown{Host: host}, "marking",
		func(ctx context.Context, vm *inventory.VM) error {
			m := vm.Metadata
			m.Eviction = &domain.Eviction{Host: host, Owner: dr.owner, Since: time.Now()}

			if vm.Host != host {
				return nil
			}

			_, err := records.WriteMetadata(ctx, vm, m)

			return err
		})
}

// markAgain writes the request into a VM that could not be given it before.
// Nothing is done to one that doesn't carry it, and nobody else would move it.
func (d *drain) markAgain(ctx context.Context, s hostrecord.Step) error {
	d.mu.Lock()
	unmarked := d.unmarked[s.UUID]
	d.mu.Unlock()

	if !unmarked {
		return nil
	}

	if err := d.drainer.requestEviction(ctx, s.UUID, d.Host); err != nil && !inventory.IsNotFound(err) {
		return err
	}

	d.mu.Lock()
	delete(d.unmarked, s.UUID)
	d.mu.Unlock()

	return nil
}

// clearEviction takes the mark off, wherever the VM is now. One that is to
// leave another host keeps that one's. A migration that ended without its run is
// recorded as it ended: nobody else may look after the VM.
func (dr *Drainer) clearEviction(ctx context.Context, uuid, host string) error {
	last := inventory.LastKnown{}

	return dr.mover.OnMachine(ctx, uuid, last, "marking", func(ctx context.Context, vm *inventory.VM) error {
		if record := vm.OpenMigration(); record != nil && !vm.Stranded {
			now, err := dr.mover.CloseRecord(ctx, vm, *record, nil)
			if err != nil {
				return err
			}

			vm = now
		}

		m := vm.Metadata
		if m.Eviction == nil || m.Eviction.Host != host {
			return nil
		}

		m.Eviction = nil
		_, err := records.WriteMetadata(ctx, vm, m)

		return err
	})
}

// turnOff ends the VM's run in the given way, which has that result, and
// keeps its host from starting it by itself. One that is elsewhere was moved.
func (d *drain) turnOff(
	ctx context.Context, i int, result string, off func(context.Context, *inventory.VM) error,
) (string, error) {
	s := d.steps[i]

	err := d.drainer.mover.OnMachine(ctx, s.UUID, d.last(), "evicting", func(ctx context.Context, vm *inventory.VM) error {
		if vm.Host != d.Host {
			result = hostrecord.ResultMoved

			return nil
		}

		admission.MarkStarted(ctx)

		if vm.Autostart && vm.Persistent {
			d.mu.Lock()
			d.steps[i].Autostart = true
			d.mu.Unlock()

			// Recorded first: whoever ends the maintenance has to know, whatever becomes of this run.
			if err := d.record(ctx, false); err != nil {
				return err
			}

			if err := vm.On.Conn.SetAutostart(ctx, vm.UUID, false); err != nil {
				return err
			}
		}

		if !vm.Active {
			return nil
		}

		return off(ctx, vm)
	})

	return result, err
}

func (dr *Drainer) shutDownForEviction(ctx context.Context, vm *inventory.VM) error {
	_, err := dr.lifecycle.Stop(ctx, vm, inventory.GracePeriod(vm.Metadata))

	return err
}

// startFor starts the VM where it is, unless it runs. ranHere says that it
// was seen to run, and was shut down by us, so that it can't run on a host that
// is silent.
func (dr *Drainer) startFor(ctx context.Context, uuid string, last inventory.LastKnown, ranHere bool) error {
	return dr.mover.OnMachine(ctx, uuid, last, "starting", func(ctx context.Context, vm *inventory.VM) error {
		if vm.Active {
			return nil
		}

		if ranHere {
			vm.SilentHosts = nil
		}

		return dr.lifecycle.Start(ctx, vm)
	})
}

// noteRunning records that the VM runs before it is shut down to be moved,
// for whoever goes on if this run can't.
func (d *drain) noteRunning(ctx context.Context, i int) (bool, error) {
	if d.steps[i].Ran {
		return true, nil
	}

	vm, err := d.drainer.hosts.FindNow(ctx, d.steps[i].UUID, d.last())
	if err != nil || !vm.Active {
		return false, err
	}

	d.mu.Lock()
	d.steps[i].Ran = true
	d.mu.Unlock()

	return true, d.record(ctx, false)
}

// moveCold moves a VM while it is off. One that ran runs again afterwards,
// on whichever host it is then. The move that it returns says how it went.
func (d *drain) moveCold(ctx context.Context, s hostrecord.Step, o migration.Options) (migrate.Left, error) {
	vm, err := d.drainer.hosts.FindNow(ctx, s.UUID, d.last())
	if err != nil {
		return migrate.Left{}, err
	}

	ranHere := vm.Active && vm.Host == d.Host
	starts := ranHere || s.Ran

	if ranHere {
		if err := d.drainer.placement.RoomFor(ctx, vm, s.Target); err != nil {
			return migrate.Left{}, err // No guest is shut down for a move that would be refused.
		}

		shutDown := func(ctx context.Context, vm *inventory.VM) error {
			if vm.Metadata.Host == d.Host {
				return migrate.ErrPinned // No guest is shut down for that either.
			}

			admission.MarkStarted(ctx)

			return d.drainer.shutDownForEviction(ctx, vm)
		}

		err := d.drainer.mover.OnMachine(ctx, s.UUID, d.last(), "evicting", shutDown)
		if err != nil {
			return migrate.Left{}, err
		}
	}

	vm, how, err := d.drainer.mover.MoveInTurn(ctx, s.UUID, d.last(), migrate.Request{
		Target: s.Target, Options: o, Priority: admission.PriorityMaintenance, Starts: starts,
	})

	if vm != nil && starts {
		after, cancel := lease.CleanUp(ctx, inventory.FinishTimeout)
		defer cancel()

		err = errors.Join(err, d.drainer.startFor(after, s.UUID, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID},
			ranHere))
	}

	return how, d.arrived(vm, s, err)
}

// awaitGone waits until somebody has moved the VM, shut it down or removed
// it.
func (d *drain) awaitGone(ctx context.Context, s hostrecord.Step) error {
	for {
		vm, err := d.drainer.hosts.FindNow(ctx, s.UUID, d.last())

		switch {
		case inventory.IsNotFound(err):
			return nil
		case err == nil && (vm.Host != d.Host || !vm.Active):
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
