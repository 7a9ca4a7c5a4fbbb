package drain

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// gatherInput collects what the drain depends on. It waits until no other run moves a VM from or to the host, because
// until then it is unknown whether the drain has to evict that VM. It doesn't wait for a VM whose wait may never end.
func (d *drainRun) gatherInput(ctx context.Context) error {
	stuck := map[string]error{}

	for {
		in, onItsWay, err := d.drainer.evacuationInput(ctx, d.host, inputQuery{
			turn: d.turn, moveStopped: d.MoveStopped, askQEMU: true, atRest: true, stuck: stuck, unsafe: d.unsafeNow(),
		})
		if err != nil {
			return err
		}

		if onItsWay == nil {
			d.in = in

			return nil
		}

		if err := d.drainer.waitCanEnd(ctx, onItsWay); err != nil {
			if ctx.Err() != nil {
				return onItsWay
			}

			e, ok := errors.AsType[*onItsWayError](onItsWay)
			if !ok {
				return err
			}

			d.drainer.log.WarnContext(ctx, "not waiting for a VM that is being moved", "host", d.Host, "name", e.vm.Name,
				"reason", err.Error())

			stuck[e.vm.UUID] = err
			d.drainer.hosts.ForgetAll()

			continue
		}

		d.drainer.log.InfoContext(ctx, "waiting for a VM that is being moved", "host", d.Host, "reason", onItsWay.Error())

		if err := admission.Pause(ctx, externalPoll); err != nil {
			return onItsWay
		}

		d.drainer.hosts.ForgetAll()
	}
}

// waitCanEnd returns an error if a wait for the VM that an onItsWayError is about may never end. It concludes the VM's
// migration if its run was killed.
func (dr *Drainer) waitCanEnd(ctx context.Context, onItsWay error) error {
	answers, err := dr.hosts.Snapshot(ctx)
	if err != nil || len(inventory.SilentHosts(answers)) > 0 {
		return onItsWay // The VM may be on a host that is off.
	}

	return dr.concludeAbandoned(ctx, onItsWay)
}

// concludeAbandoned concludes the migration that an onItsWayError is about, if its run was killed.
func (dr *Drainer) concludeAbandoned(ctx context.Context, onItsWay error) error {
	e, ok := errors.AsType[*onItsWayError](onItsWay)
	if !ok || !e.vm.LeftMoving() {
		return nil
	}

	who, err := dr.records.LiveHolder(ctx, e.vm.On, e.vm.UUID)
	if err != nil || who != "" {
		return nil //nolint:nilerr // The next look finds the holder, or the error, again.
	}

	_, err = dr.mover.ConcludeInterrupted(ctx, e.vm, inventory.LastKnown{Host: e.vm.Host, HostUUID: e.vm.HostUUID},
		migration.Options{})
	if inventory.IsNotFound(err) {
		return nil
	}

	return err
}

// onItsWayError says that a VM is arriving at the host or leaving it.
type onItsWayError struct {
	error
	vm *inventory.VM
}

// Unwrap returns the wrapped error.
func (e *onItsWayError) Unwrap() error { return e.error }
