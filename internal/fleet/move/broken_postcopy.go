package move

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// sentReason is why QEMU ended at the source of a migration that was complete, as libvirt says in its log.
const sentReason = "migrated"

// endsFirst returns a problem if an earlier migration has to end before the VM moves to the host, and nil otherwise.
// The earlier migration goes to the same host, broke in post-copy, or is paused with all of the memory on both hosts. A
// paused one ends when a run tells the target to start the guest, or aborts it.
func endsFirst(vm *inventory.VM, to *inventory.Host) *inventory.Problem {
	record := vm.OpenMigration()
	if record == nil {
		return nil
	}

	p := &inventory.Problem{Attribute: "host", Warning: true}

	broke := vm.StateFacts().PostCopy()

	switch {
	case broke == status.PostCopyLost:
		p.Summary = "Broken migration can't be resumed: a part of the memory is lost"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q failed: %s", vm.Name, vm.StateFacts().PostCopyReport())
		p.Remedy, p.Next = vm.PostCopyRemedy()

		return p
	case broke == status.PostCopySent:
		p.Summary = "Broken migration is resumed first"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q has not ended: %s. The move first waits until libvirt "+
			"reports that it has arrived, and then brings the VM to host %q", vm.Name, vm.StateFacts().PostCopyReport(), to.Name)
	case broke == status.PostCopyUndecided:
		p.Summary = "Broken migration is resumed first"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q has not ended: %s. Until it has, the VM isn't moved to "+
			"host %q", vm.Name, vm.StateFacts().PostCopyReport(), to.Name)
		p.Remedy, p.Next = vm.PostCopyRemedy()
	case broke != status.PostCopyIntact:
		p.Summary = "Broken migration is resumed first"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q broke in post-copy (%s). The move resumes it first, "+
			"and then brings the VM to host %q", vm.Name, vm.StateFacts().HostStatesText(), to.Name)
	case vm.Migrating && vm.State == libvirt.Paused && vm.Host == record.SourceHost:
		p.Summary = "Unfinished migration is ended first"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q to host %q has not ended (%s). The move first waits for "+
			"it, or ends it if no run manages it any more, and then brings the VM to host %q", vm.Name, record.TargetHost,
			vm.StateFacts().HostStatesText(), to.Name)
	case vm.Migrating && record.TargetHost == to.Name:
		p.Summary = "Virtual machine is being moved already"
		p.Detail = fmt.Sprintf("A migration of virtual machine %q to host %q is in progress (%s). The move waits for it, "+
			"and does nothing if the VM is there afterwards", vm.Name, to.Name, vm.StateFacts().HostStatesText())

		return p
	default:
		return nil
	}

	p.Detail += ". Which blockers that move has is unknown until then"

	return p
}

// resumeBroken resumes a migration that broke in post-copy, under the VM's lock, as the run that started it would have
// done. If it can't be resumed, resumeBroken returns an error, and keeps or destroys the parts as the options say. It
// completes the record, unless the VM stays as it is.
func (rec *Recovery) resumeBroken(
	ctx context.Context, vm *inventory.VM, record domain.Migration, last inventory.LastKnown, own migration.Options,
) (*inventory.VM, error) {
	from, to := rec.hosts.Host(record.SourceHost), rec.hosts.Host(record.TargetHost)
	if from == nil || from.Config.Fenced || to == nil || to.Config.Fenced {
		return vm, vm.RequireIdle()
	}

	effective, err := rec.records.MigrationOptionsOf(ctx, vm, own)
	if err != nil {
		return vm, err
	}

	// QEMU resumes the migration with what it began with. What applies now may not even go with post-copy.
	if began, err := migration.ParseOptions(record.Options); err == nil {
		o := &effective.Options
		o.PeerToPeer, o.ParallelConnections, o.Compression = began.PeerToPeer, began.ParallelConnections, began.Compression
	}

	state, failure := migration.ResumePostCopy(ctx, migration.Request{
		// The guest ran before it was handed over: a paused guest has nothing left to fetch in post-copy.
		VM:     migration.VM{UUID: vm.UUID, Name: vm.Name, State: libvirt.Running},
		Source: from.Conn, Target: to.Conn, Address: to.Config.MigrationAddress, PeerURI: to.Config.PeerURI,
		SourceTunnel: from.Config.Tunnel, TargetTunnel: to.Config.Tunnel, Options: effective.Options, Logger: rec.log,
	}, record.Transport)

	after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	if failure != nil {
		failure = rec.applyOnIrrecoverable(after, vm.UUID, from, to, effective.Options, failure)
		state.FailureReason = failureReason(state, failure)
		failure = notMoved(after, vm, from, to, failure)
	}

	from.Forget()
	to.Forget()

	now, err := rec.hosts.FindNow(after, vm.UUID, last)
	if err != nil {
		return nil, errors.Join(failure, err)
	}

	if err := now.RequireIdle(); err != nil {
		if failure == nil {
			failure = err
		}

		return now, failure // The failure can't be recorded while libvirt takes the migration as running.
	}

	resumed := state.Record(record.ID, record.Owner).WithHosts(record)
	resumed.Start, resumed.Autostart, resumed.Method = record.Start, record.Autostart, record.Method
	resumed.Policy, resumed.Options = record.Policy, record.Options

	now, err = rec.CloseRecord(after, now, resumed, nil)

	return now, errors.Join(failure, err)
}

// failureReason returns the record's text about a failure, and about what was done then.
func failureReason(state migration.State, err error) string {
	if errors.Is(err, ErrDestroyed) {
		return state.FailureReason + "; " + ErrDestroyed.Error()
	}

	return state.FailureReason
}

// applyOnIrrecoverable handles a VM whose post-copy is irrecoverable as the options say, and returns the failure.
func (rec *Recovery) applyOnIrrecoverable(
	ctx context.Context, uuid string, from, to *inventory.Host, o migration.Options, failure error,
) error {
	if !errors.Is(failure, migration.ErrIrrecoverable) || o.OnIrrecoverable != migration.IrrecoverableDestroy {
		return failure
	}

	err := rec.destroyParts(ctx, uuid, from, to)
	if errors.Is(err, migration.ErrAllSent) {
		return err // What failed has succeeded since.
	}

	if err != nil {
		return fmt.Errorf("%w; what is left of it was to be destroyed, and was not: %w", failure, err)
	}

	return fmt.Errorf("%w; %w", failure, ErrDestroyed)
}

// destroyParts ends the parts that a broken post-copy left of a VM, and leaves one definition: on the target, where the
// guest ran last and wrote to its disks, and where its firmware and its TPM keep their current state. Both hosts must
// answer, and QEMU itself must report that no more memory arrives.
func (rec *Recovery) destroyParts(ctx context.Context, uuid string, from, to *inventory.Host) error {
	source, err := postCopySide(ctx, from, uuid)
	if err != nil {
		return err
	}

	target, err := postCopySide(ctx, to, uuid)
	if err != nil {
		return err
	}

	if holdsAllMemory(source, target) {
		return fmt.Errorf("%w: on host %q it is %s (%s)", migration.ErrAllSent, to.Name, target.State, target.Reason)
	}

	if sourceForgot(source, target) {
		if err := verifyNotSent(ctx, from, target.Name); err != nil {
			return err
		}
	}

	if source != nil && source.Active() && target != nil && target.Active() {
		said, err := from.Conn.MigrationStatus(ctx, uuid)
		if err != nil {
			return err
		}

		if said != libvirt.MigrationPostCopyPaused && said != libvirt.MigrationFailed {
			return fmt.Errorf("%w: QEMU on host %q says that the migration is %q", inventory.ErrBusy, from.Name, said)
		}
	}

	rec.log.WarnContext(ctx, "destroying what a broken migration left", "uuid", uuid, "source", from.Name,
		"target", to.Name)

	if target == nil || !target.Persistent {
		if source == nil || !source.Persistent {
			return fmt.Errorf("%w: neither host has a definition of it that would outlive its process", inventory.ErrNotFound)
		}

		xml, err := from.Conn.CompleteXML(ctx, uuid)
		if err != nil {
			return err
		}

		if _, err := to.Conn.RedefineDomain(ctx, xml, xml); err != nil {
			return err
		}
	}

	for _, p := range []struct {
		on *inventory.Host
		d  *libvirt.Domain
	}{{to, target}, {from, source}} {
		if p.d == nil || !p.d.Active() {
			continue
		}

		err := p.on.Conn.DestroyDomain(ctx, uuid, false)
		if err != nil && !inventory.IsNotFound(err) && !errors.Is(err, libvirt.ErrOperationInvalid) {
			return err
		}
	}

	if source == nil || !source.Persistent {
		return nil
	}

	return rec.undefineStale(ctx, from, source, to)
}

// holdsAllMemory says whether the target's part is the whole guest, whatever libvirt there says. The migration may have
// come to its end since it was given up.
func holdsAllMemory(source, target *libvirt.Domain) bool {
	return source != nil && source.SentAllMemory() && target != nil && target.Active()
}

// sourceForgot says whether the target has its part, and libvirt at the source doesn't know how the process there
// ended: its daemon was restarted since, or it has no definition of the VM.
func sourceForgot(source, target *libvirt.Domain) bool {
	return target != nil && target.Active() && (source == nil || source.ForgotWhyOff())
}

// verifyNotSent returns an error if the source may have sent all of the memory, although libvirt's daemon there doesn't
// know that: QEMU's log says so, or can't be read.
func verifyNotSent(ctx context.Context, from *inventory.Host, name string) error {
	log, err := from.ReadQEMULog(ctx, name)

	switch {
	case err != nil:
		return fmt.Errorf("libvirt on host %q doesn't know whether it had sent all of the memory, and %s can't be read: %w",
			from.Name, inventory.QEMULogPath(name), err)
	case log.StopReason == sentReason:
		return fmt.Errorf("%w: %s on host %q says reason=%s", migration.ErrAllSent, inventory.QEMULogPath(name), from.Name,
			sentReason)
	default:
		return nil
	}
}

// postCopySide returns the host's part of a VM that is in two parts after a broken post-copy, or nil if the host has
// none.
func postCopySide(ctx context.Context, on *inventory.Host, uuid string) (*libvirt.Domain, error) {
	d, err := on.Conn.Domain(ctx, uuid)

	switch {
	case inventory.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case d.Active() && d.Reason != status.ReasonPostcopyFailed:
		return nil, fmt.Errorf("%w: on host %q it is %s (%s)", inventory.ErrBusy, on.Name, d.State, d.Reason)
	default:
		return d, nil
	}
}
