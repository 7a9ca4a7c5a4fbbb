package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// abandonedPoll is the pause between two looks at a migration whose run is gone.
	abandonedPoll = time.Second
	// abandonedSettle is how long the hosts may take to clean up after such a migration.
	abandonedSettle = 15 * time.Second
)

// ConcludeInterrupted concludes a migration whose run was killed: it finds out how the migration ended, and completes
// its record, so that no later run repeats it. If the run is still alive, it waits for that run. If the migration
// continues without its run, it waits for the end, and aborts the migration when ctx ends. If the migration broke in
// post-copy, it resumes the migration with own, the options that were given for this VM, if any.
func (rec *Recovery) ConcludeInterrupted(
	ctx context.Context, vm *inventory.VM, last inventory.LastKnown, own migration.Options,
) (*inventory.VM, error) {
	// The VM may move to another host while this run waits for its lock.
	for range len(rec.hosts.Configured) + 1 {
		if vm.OpenMigration() == nil {
			return vm, nil
		}

		now, done, err := rec.concludeOn(ctx, vm.On, vm.UUID, last, own)
		if err != nil || done {
			return now, err
		}

		vm = now
	}

	return vm, &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Detail: "it was moved repeatedly meanwhile",
		Remedy: "Find out who moves it.", Next: inventory.Retry,
	}
}

// concludeFor concludes an interrupted migration before the VM is moved by the order. While another run moves the VM to
// a different host, it refuses the order, because the order was planned for a VM that stays. If that run moves the VM
// to the order's target, or carries out the same order, it waits.
func (rec *Recovery) concludeFor(
	ctx context.Context, vm *inventory.VM, last inventory.LastKnown, order Order,
) (*inventory.VM, error) {
	record := vm.OpenMigration()
	if record == nil || record.TargetHost == order.Target || order.ID != "" && record.ID == order.ID {
		return rec.ConcludeInterrupted(ctx, vm, last, order.Options)
	}

	who, err := rec.records.LiveHolder(ctx, vm.On, vm.UUID)
	if err != nil {
		return vm, err
	}

	if who != "" {
		return vm, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: fmt.Sprintf("it is on its way from host %q to host %q: %s", record.SourceHost, record.TargetHost, who),
			Remedy: "Wait for that migration to end.", Next: inventory.Replan,
		}
	}

	now, err := rec.hosts.FindNow(ctx, vm.UUID, last)
	if err != nil {
		return vm, err
	}

	if now.OpenMigration() == nil && now.On != vm.On {
		return now, &inventory.Error{
			VM: now.Name, Host: now.Host, Kind: inventory.ErrBusy,
			Detail: fmt.Sprintf("%s has moved it from host %q meanwhile", record.Owner, vm.Host),
			Next:   inventory.Replan,
		}
	}

	return rec.ConcludeInterrupted(ctx, now, last, order.Options)
}

// concludeOn concludes the open migration of a VM on its host. It returns false if the VM is on another host by now.
func (rec *Recovery) concludeOn(
	ctx context.Context, on *inventory.Host, uuid string, last inventory.LastKnown, own migration.Options,
) (*inventory.VM, bool, error) {
	held, unlock, err := rec.records.Lock(ctx, on, uuid, "concluding a migration of")
	if err != nil {
		return nil, false, err
	}
	defer unlock()

	vm, err := rec.hosts.FindNow(held, uuid, last)
	if err != nil {
		return nil, false, err
	}

	record := vm.OpenMigration()
	if record == nil {
		return vm, true, nil
	}

	rec.log.InfoContext(ctx, "a migration was interrupted", "name", vm.Name, "id", record.ID, "owner", record.Owner,
		"source", record.SourceHost, "target", record.TargetHost)

	aborted := rec.awaitAbandoned(held, uuid, *record)

	after, cancel := lease.CleanupContext(held, inventory.FinishTimeout)
	defer cancel()

	rec.afterAbandoned(after, vm, *record)

	vm, err = rec.hosts.FindNow(after, uuid, last)
	if err != nil || vm.On != on {
		return vm, false, errors.Join(aborted, err)
	}

	if record = vm.OpenMigration(); record != nil && vm.BrokeInPostCopy() {
		vm, err = rec.resumeBroken(held, vm, *record, last, own)

		return vm, true, errors.Join(aborted, err)
	}

	if err := vm.RequireIdle(); err != nil {
		return vm, false, errors.Join(aborted, err)
	}

	if record == nil {
		return vm, true, aborted
	}

	vm, err = rec.CloseRecord(after, vm, *record, aborted)

	return vm, true, errors.Join(aborted, err)
}

// afterAbandoned lets a guest continue that is paused for a migration that is over. What both hosts answered before is
// out of date.
func (rec *Recovery) afterAbandoned(ctx context.Context, vm *inventory.VM, record domain.Migration) {
	for _, h := range rec.hosts.Configured {
		if h.Name == record.SourceHost || h.Name == record.TargetHost {
			h.Forget()
		}
	}

	if err := rec.FinishSwitchoverOf(ctx, vm, record); err != nil && !inventory.IsNotFound(err) {
		rec.log.WarnContext(ctx, "not known whether the guest is paused for a migration that is over",
			"uuid", vm.UUID, "id", record.ID, "error", err.Error())
	}
}

// awaitAbandoned waits for the end of a migration whose run is gone. When ctx ends it aborts the migration, and returns
// the cause once that is done. It doesn't wait for a migration that broke in post-copy: only a resume continues it.
func (rec *Recovery) awaitAbandoned(ctx context.Context, uuid string, record domain.Migration) (aborted error) {
	var quiet time.Time // since when no job is seen while the hosts still wait for each other

	for {
		asking, asked := lease.CleanupContext(ctx, inventory.AskTimeout)
		running, waiting, broken := rec.abandoned(asking, uuid, record)

		asked()

		switch {
		case broken:
			return aborted
		case running:
			quiet = time.Time{}
		case !waiting:
			return aborted
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > abandonedSettle:
			return aborted
		}

		if err := admission.Pause(ctx, abandonedPoll); err == nil {
			continue
		}

		if aborted != nil {
			return aborted // It could not be aborted.
		}

		aborted = context.Cause(ctx)
		if running || waiting { // If the host didn't answer, the job may still run.
			rec.abortJob(ctx, uuid, record)
		}

		var cancel context.CancelFunc

		ctx, cancel = lease.CleanupContext(ctx, abandonedSettle)
		defer cancel()
	}
}

// abandoned tells whether a migration out of the source runs, whether one of the hosts waits for the other, and whether
// the migration broke in post-copy. The source also reports a broken post-copy while QEMU continues without its client.
// So the migration counts as broken only if the target reports it too, or the target's domain is gone. Once the guest
// has all of its memory on the target, the migration is over, whatever the source reports.
func (rec *Recovery) abandoned(
	ctx context.Context, uuid string, record domain.Migration,
) (running, waiting, broken bool) {
	for _, name := range []string{record.SourceHost, record.TargetHost} {
		h := rec.hosts.Host(name)
		if h == nil || h.Config.Fenced {
			continue
		}

		d, err := h.Conn.Domain(ctx, uuid)
		fails := err == nil && d.Active() && d.Reason == status.ReasonPostcopyFailed

		if name == record.TargetHost && broken && err == nil && d.State == libvirt.Running &&
			d.Reason == libvirt.ReasonMigrated {
			return false, false, false
		}

		if name == record.TargetHost {
			gone := inventory.IsNotFound(err) || err == nil && !d.Active()
			broken = fails || broken && gone
		} else {
			broken = fails
		}

		if err != nil || !d.Active() {
			continue // If this matters, the search for the VM reports it.
		}

		waiting = waiting || d.InMigration()
		job, err := h.Conn.Job(ctx, uuid)
		running = running || err == nil && job != nil && job.Type.Active() &&
			job.Operation == libvirt.OperationMigrationOut
	}

	return running, waiting, broken
}

// FinishSwitchoverOf completes what a finished migration left undone on its source, unless another run did. It returns
// an error if another host may have the target's name by now: that host has no copy of the VM, which must not be taken
// for the target's answer.
func (rec *Recovery) FinishSwitchoverOf(ctx context.Context, vm *inventory.VM, record domain.Migration) error {
	from, to := rec.hosts.Host(record.SourceHost), rec.hosts.Host(record.TargetHost)
	if from == nil || to == nil || from.Config.Fenced || to.Config.Fenced {
		return nil // What these hosts have is unknown.
	}

	if vm.On != from && vm.On != to {
		return nil
	}

	if err := requireTarget(ctx, vm, to, record); err != nil {
		return err
	}

	revived, err := migration.FinishSwitchover(ctx, from.Conn, to.Conn, vm.UUID)
	if revived && err == nil {
		rec.log.WarnContext(ctx, "the source still waited for the end of a migration that is over", "uuid", vm.UUID,
			"id", record.ID, "host", from.Name)
		rec.SetClock(ctx, from, vm) // If the guest is on the target, this has no effect.
	}

	return err
}

// requireTarget returns an error unless the host is the target of the record. Earlier versions recorded the target by
// its name alone: then it may be any host that doesn't answer.
func requireTarget(ctx context.Context, vm *inventory.VM, h *inventory.Host, record domain.Migration) error {
	info, err := h.Conn.Info(ctx)
	if err != nil {
		return err
	}

	e := &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: fmt.Sprintf("whether it runs on the target of its migration is unknown: host %q may be another host than "+
			"the target", h.Name),
		Next: inventory.Retry,
	}

	switch {
	case record.TargetUUID == info.UUID:
		return nil
	case record.TargetUUID != "":
		e.Remedy = fmt.Sprintf("Have the host with the UUID %s in hosts.", record.TargetUUID)
	case len(vm.SilentHosts) > 0:
		e.Remedy = fmt.Sprintf("Bring these hosts back: %s.", strings.Join(vm.SilentHosts, ", "))
	default:
		return nil
	}

	return e
}

// abortJob aborts the migration that the record's source runs, if possible. It does so even if ctx has ended.
func (rec *Recovery) abortJob(ctx context.Context, uuid string, record domain.Migration) {
	h := rec.hosts.Host(record.SourceHost)
	if h == nil || h.Config.Fenced {
		return
	}

	ctx, cancel := lease.CleanupContext(ctx, inventory.AskTimeout)
	defer cancel()

	// Since the migration has ended, a user may have started another job, such as a backup.
	if job, err := h.Conn.Job(ctx, uuid); err != nil || job != nil && job.Operation != libvirt.OperationMigrationOut {
		rec.log.WarnContext(ctx, "migration not aborted: no job of this kind is known", "uuid", uuid, "host", h.Name,
			"error", err)
		return
	}

	rec.log.WarnContext(ctx, "aborting migration", "uuid", uuid, "id", record.ID, "host", h.Name)

	if err := h.Conn.AbortJob(ctx, uuid); err != nil && !errors.Is(err, libvirt.ErrOperationInvalid) {
		rec.log.WarnContext(ctx, "migration not aborted", "uuid", uuid, "host", h.Name, "error", err.Error())
	}
}
