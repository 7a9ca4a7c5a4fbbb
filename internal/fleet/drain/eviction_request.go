package drain

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// markAll writes the eviction request into every VM that is to leave, so that every reader sees it from the beginning,
// and completes what an earlier drain has recorded.
func (d *drainRun) markAll(ctx context.Context) {
	var marking errgroup.Group

	marking.SetLimit(inspectionsAtOnce)

	start := func(do func()) {
		marking.Go(func() error {
			do()

			return nil
		})
	}

	for _, s := range d.steps {
		if !s.Done() && evacuation.RequestsEviction(s.Method) {
			start(func() { d.mark(ctx, s.UUID, s.Name) })
		}
	}

	for i, s := range d.steps {
		if s.Done() && s.Autostart {
			start(func() { d.suspendAgain(ctx, i, s.UUID, s.Name) })
		}
	}

	for _, s := range d.steps {
		if !s.Done() && s.Ran { // It may have left as well.
			start(func() { d.noteKeptByKilled(ctx, s.UUID) })
		}
	}

	for _, s := range d.gone {
		start(func() {
			d.noteKeptByKilled(ctx, s.UUID) // Then the record of the move is closed.
			d.tryClearEviction(ctx, s)
		})
	}

	_ = marking.Wait()
}

// mark writes the eviction request into a VM. If that fails, the VM's step tries again first.
func (d *drainRun) mark(ctx context.Context, uuid, name string) {
	if err := d.drainer.requestEviction(ctx, uuid, d.Host); err != nil {
		d.drainer.log.WarnContext(ctx, "eviction request not written", "name", name, "error", err.Error())

		d.mu.Lock()
		d.unmarked[uuid] = true
		d.mu.Unlock()
	}
}

// suspendAgain suspends the autostart of a VM that is off: Release restored it when the earlier drain was given up.
func (d *drainRun) suspendAgain(ctx context.Context, step int, uuid, name string) {
	err := d.drainer.mover.WithVMLocked(ctx, uuid, d.lastKnown(), "evicting",
		func(ctx context.Context, vm *inventory.VM) error {
			if vm.Host != d.Host || !vm.Autostart {
				return nil
			}

			return d.suspendAutostart(ctx, step, vm)
		})
	if err != nil && !inventory.IsNotFound(err) {
		d.drainer.log.WarnContext(ctx, "autostart not suspended", "name", name, "error", err.Error())
	}
}

// requestEviction writes into the VM's metadata that it is to leave the host. It doesn't wait longer for the VM's lock
// than until a killed run has lost it: the other VMs wait meanwhile.
func (dr *Drainer) requestEviction(ctx context.Context, uuid, host string) error {
	ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout+lease.TakeoverTime)
	defer cancel()

	return dr.mover.WithVMLocked(ctx, uuid, inventory.LastKnown{Host: host}, "requesting the eviction of",
		func(ctx context.Context, vm *inventory.VM) error {
			m := vm.Metadata
			m.Eviction = &domain.Eviction{Host: host, HostUUID: vm.HostUUID, Owner: dr.owner, Since: time.Now()}

			if vm.Host != host {
				return nil
			}

			_, err := records.WriteMetadata(ctx, vm, m)

			return err
		})
}

// markAgain writes the eviction request into a VM into which markAll could not write it. The step begins only
// afterwards, because no other tool would move a VM without the request.
func (d *drainRun) markAgain(ctx context.Context, s hostrecord.RecordedStep) error {
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

// tryClearEviction removes the eviction request from the VM of a step, if it still exists. An error is only logged.
func (d *drainRun) tryClearEviction(ctx context.Context, s evacuation.Step) {
	if err := d.drainer.clearEviction(ctx, s.UUID, d.host); err != nil && !inventory.IsNotFound(err) {
		d.drainer.log.WarnContext(ctx, "eviction request not removed", "name", s.Name, "error", err.Error())
	}
}

// clearEviction removes the eviction request, wherever the VM is now, unless the request is to leave another host. It
// also completes the record of a migration whose run was killed, because no other run may do so.
func (dr *Drainer) clearEviction(ctx context.Context, uuid string, h *inventory.Host) error {
	const purpose = "removing the eviction request of"

	last := inventory.LastKnown{}
	hostUUID := ""

	if info, err := h.Conn.Info(ctx); err == nil { // Without it, the host's name decides.
		hostUUID = info.UUID
	}

	return dr.mover.WithVMLocked(ctx, uuid, last, purpose, func(ctx context.Context, vm *inventory.VM) error {
		if record := vm.OpenMigration(); record != nil && !vm.Stranded {
			// If the source of the migration doesn't answer, the record stays open, and the request can be removed all the
			// same.
			now, err := dr.mover.CloseRecord(ctx, vm, *record, nil)
			if err != nil && !errors.Is(err, inventory.ErrUnreachable) {
				return err
			}

			vm = now
		}

		m := vm.Metadata
		if !m.Eviction.Leaves(h.Name, hostUUID) && !staleEviction(vm, h.Name) {
			return nil
		}

		m.Eviction = nil
		_, err := records.WriteMetadata(ctx, vm, m)

		return err
	})
}

// staleEviction reports whether the VM has a request to leave the named host that was written before the host was
// installed again: no host that answers has the UUID that it had.
func staleEviction(vm *inventory.VM, host string) bool {
	e := vm.Metadata.Eviction

	return e != nil && e.Host == host && e.HostUUID != "" && vm.Peers[e.HostUUID] == ""
}
