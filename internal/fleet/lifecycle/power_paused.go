package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// savingLimit is how long the provider waits, before it stops a VM, while the VM's memory is written to a file. 64 GiB
// at 100 MB/s take eleven minutes.
const savingLimit = 30 * time.Minute

// jobLimit is how long the hypervisor process is asked which job it runs. It may hang, and is to be stopped anyway.
const jobLimit = 5 * time.Second

// savesMemory reports whether libvirt has paused the VM while it writes the memory to a file, for a save, a dump or a
// snapshot. The pause ends by itself.
func savesMemory(d *libvirt.Domain) bool {
	if d == nil || d.State != libvirt.Paused {
		return false
	}

	switch d.Reason {
	case libvirt.ReasonSave, libvirt.ReasonDump, libvirt.ReasonSnapshot:
		return true
	default:
		return false
	}
}

// memoryWriter returns what writes the VM's memory to a file, "" if nothing is known to. During a dump or a snapshot
// with --live the guest runs on, and is then paused as for a migration: only the job tells. libvirt doesn't ask the
// guest to shut down meanwhile.
func memoryWriter(ctx context.Context, vm *inventory.VM, d *libvirt.Domain) string {
	if savesMemory(d) {
		return d.Reason
	}

	if d == nil || !d.Active() {
		return ""
	}

	ctx, cancel := context.WithTimeout(ctx, jobLimit)
	defer cancel()

	job, err := vm.On.Conn.Job(ctx, vm.UUID)
	if err != nil || job == nil {
		return ""
	}

	switch job.Operation {
	case libvirt.OperationSave, libvirt.OperationDump, libvirt.OperationSnapshot:
		return job.Operation
	default:
		return ""
	}
}

// awaitSaved waits until the VM's memory is no longer being written to a file, and returns the VM in its state then,
// and whether it had to wait. A VM that its host no longer has is returned as off.
func (m *Manager) awaitSaved(ctx context.Context, vm *inventory.VM) (after *inventory.VM, waited bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, savingLimit)
	defer cancel()

	var (
		now    *libvirt.Domain
		writer string
	)

	_, err = inventory.Await(waiting, vm, func(d *libvirt.Domain) bool {
		now = d

		writes := memoryWriter(waiting, vm, d)
		if writes == "" {
			return true
		}

		if !waited {
			m.log.InfoContext(ctx, "waiting for the guest's memory to be written", "name", vm.Name, "host", vm.Host,
				"reason", writes)
		}

		writer, waited = writes, true

		return false
	})

	switch {
	case err != nil && !waited:
		return nil, false, err
	case err != nil:
		return nil, true, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Err: err,
			Detail: fmt.Sprintf("its memory is still being written to a file (%s), and it was not forced off", writer),
			Remedy: "Wait for that to end, or abort it with virsh domjobabort.", Next: inventory.Retry,
		}
	}

	if waited { // The job may have ended after the state was read.
		if now, err = vm.On.Conn.Domain(ctx, vm.UUID); err != nil && !inventory.IsNotFound(err) {
			return nil, true, err
		}
	}

	return withState(vm, now), waited, nil
}

// SavedMeanwhile returns ErrBusy if the VM is off because a user has written its memory to a file. done is what was to
// be done with the VM: "moved", for example.
func SavedMeanwhile(vm *inventory.VM, done string) error {
	if !vm.SavedToFile() {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: fmt.Sprintf("its memory was saved to a file while it was to be %s, as by \"virsh save\"; it was not %[1]s",
			done),
		Remedy: fmt.Sprintf("To continue the saved guest, run \"virsh restore <file>\" on host %q. Otherwise delete the "+
			"file: once the VM is started or deleted, it is worthless.", vm.Host),
		Next: inventory.Replan,
	}
}

// StopToReturn shuts down a guest that is to be started again, as Stop does. It returns ErrBusy if a user has written
// its memory to a file meanwhile: a guest that is booted afresh would make the file dangerous. done is what was to be
// done with the VM: "moved", for example.
func (m *Manager) StopToReturn(
	ctx context.Context, vm *inventory.VM, grace time.Duration, done string,
) (inventory.Outcome, error) {
	outcome, err := m.Stop(ctx, vm, grace)
	if err != nil || !vm.Active || outcome.Forced() {
		return outcome, err
	}

	d, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return outcome, nil // A VM without a definition is gone once it is off.
	case err != nil:
		return outcome, err
	default:
		return outcome, SavedMeanwhile(withState(vm, d), done)
	}
}

// withState returns the VM in the state that its host reports now. If now is nil, the host has no such VM, and the VM
// is off.
func withState(vm *inventory.VM, now *libvirt.Domain) *inventory.VM {
	is := *vm
	if now == nil {
		is.Active = false

		return &is
	}

	is.State, is.Reason, is.Active, is.ManagedSave = now.State, now.Reason, now.Active(), now.ManagedSave

	return &is
}

// pausedByIOError reports whether an I/O error paused the VM. Once the storage works again, the guest can still write
// what it has in memory.
func pausedByIOError(state libvirt.DomainState, reason string) bool {
	return state == libvirt.Paused && reason == libvirt.ReasonIOError
}

// refuseIOError returns an error for a VM that an I/O error paused, because destroying it would lose what the guest has
// not written, unless the grace period is 0 or the options force it.
func refuseIOError(vm *inventory.VM, how stopOptions) error {
	if how.grace == 0 || how.forceIOError || !pausedByIOError(vm.State, vm.Reason) {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrNotReady,
		Detail: "its guest is paused by an I/O error and can't shut down; it was not forced off",
		Remedy: "Repair the storage, and resume the VM with \"virsh resume\". Or end it with \"virsh destroy\", if the " +
			"guest's memory may be lost.",
		Next: inventory.Retry,
	}
}

// refuseLoading returns an error for a VM whose memory is being loaded or handed over, unless the grace period is 0: a
// user has started it from saved memory, or begun to move it, since the provider read it. Its guest can't be asked now,
// and destroying it would lose a guest that can shut down a moment later.
func refuseLoading(vm *inventory.VM, how stopOptions) error {
	if how.grace == 0 || vm.Stranded ||
		status.PrintableStatusOf(vm.State.String(), vm.Reason, false) != status.StatusStarting {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: "a user or another tool has begun to start or to move it meanwhile; it was not forced off",
		Remedy: "Wait for that to end.", Next: inventory.Replan,
	}
}

// wakeForShutdown resumes a paused guest and wakes a suspended one, so that it can shut down. It returns false if the
// guest can't shut down: a guest that an I/O error or a crash paused must not be resumed, and one that QEMU has stopped
// for good can't be.
func (m *Manager) wakeForShutdown(ctx context.Context, vm *inventory.VM) (bool, error) {
	switch vm.State {
	case libvirt.Paused:
		if status.PowerAction(status.Always, vm.Status(), vm.Phase(), vm.StatusReason()) != status.Resume {
			return false, nil
		}

		err := m.Resume(ctx, vm)
		if errors.Is(err, libvirt.ErrResetRequired) {
			return false, nil
		}

		return true, err
	case libvirt.PMSuspended:
		return true, vm.On.Conn.WakeupDomain(ctx, vm.UUID)
	case libvirt.Crashed:
		return false, nil
	default:
		return true, nil
	}
}

// markStarting records that a run starts the VM from saved memory, before it does, and returns the VM with the mark. If
// the run ends before resumeSaved, the next one resumes the guest. An error is only logged: most guests were saved to
// run on, and don't need the mark.
func (m *Manager) markStarting(ctx context.Context, vm *inventory.VM) *inventory.VM {
	metadata := vm.Metadata
	metadata.Starting = &domain.Starting{Owner: m.owner, HostUUID: vm.HostUUID, Since: time.Now().UTC()}

	_, err := records.WriteMetadata(ctx, vm, metadata)
	if err != nil {
		m.log.WarnContext(ctx, "the start from saved memory was not marked", "name", vm.Name, "host", vm.Host,
			"error", err.Error())

		return vm
	}

	marked := *vm
	marked.Metadata = metadata

	return &marked
}

// unmarkStarting removes the mark of a start that the host refused: if a user starts the VM, its guest is to stay as it
// was saved.
func (m *Manager) unmarkStarting(ctx context.Context, vm *inventory.VM) {
	if vm.Metadata.Starting == nil {
		return
	}

	err := m.rewriteMetadata(ctx, vm, func(have domain.Metadata) domain.Metadata {
		have.Starting = nil

		return have
	})
	if err != nil {
		m.log.WarnContext(ctx, "the mark of a start that was refused was not removed", "name", vm.Name, "host", vm.Host,
			"error", err.Error())
	}
}

// resumeSaved resumes a VM that was just started from saved memory, if it was saved to stay paused ("virsh managedsave
// --paused"). No other run migrates it: it is locked, and was off.
func (m *Manager) resumeSaved(ctx context.Context, vm *inventory.VM) error {
	after, cancel := lease.GraceContext(ctx)
	defer cancel()

	d, err := vm.On.Conn.Domain(after, vm.UUID)
	if err != nil { // The mark stays: the next run resumes the guest if it is paused.
		return err
	}

	if d.State == libvirt.Paused && d.Reason == libvirt.ReasonMigration {
		m.log.InfoContext(ctx, "resuming VM whose memory was saved to stay paused", "name", vm.Name, "host", vm.Host)

		return vm.On.Conn.ResumeDomain(after, vm.UUID)
	}

	return nil
}

// explainRefusedResume adds to the error of a refused resume what helps, if QEMU has stopped the guest for good.
func explainRefusedResume(vm *inventory.VM, err error) error {
	if !errors.Is(err, libvirt.ErrResetRequired) {
		return err
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: err,
		Detail: "QEMU has stopped its guest for good, as after an internal error of KVM, and can't resume it",
		Remedy: fmt.Sprintf("The end of /var/log/libvirt/qemu/%s.log on the host may say why. To end the VM, run \"virsh "+
			"destroy %[1]s\" there; what its guest hadn't written is lost.", vm.Name),
		Next: inventory.Retry,
	}
}

// awaitStorage waits for the grace period until a VM that an I/O error paused is resumed, because a user may repair the
// storage. The guest then has another grace period to shut down. It returns the VM in its state then.
func (m *Manager) awaitStorage(ctx context.Context, vm *inventory.VM, how stopOptions) (*inventory.VM, error) {
	if err := refuseIOError(vm, how); err != nil {
		return nil, err
	}

	if how.grace == 0 || !pausedByIOError(vm.State, vm.Reason) {
		return vm, nil
	}

	m.log.WarnContext(ctx, "guest is paused by an I/O error, waiting for its storage", "name", vm.Name, "host", vm.Host,
		"grace_period", how.grace)

	waiting, cancel := context.WithDeadlineCause(ctx, time.Now().Add(how.grace), errTimeIsUp)
	defer cancel()

	var now *libvirt.Domain

	resumed, err := inventory.Await(waiting, vm, func(d *libvirt.Domain) bool {
		now = d

		return !savesMemory(d) && (d == nil || !pausedByIOError(d.State, d.Reason))
	})

	switch {
	case resumed:
		return withState(vm, now), nil
	case errors.Is(err, errTimeIsUp):
		return vm, nil
	case ctx.Err() != nil:
		return nil, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: err,
			Detail: "its guest was still paused by an I/O error when the wait for its storage ended; it was not forced off",
			Remedy: "Repair the storage, and resume the VM with \"virsh resume\".", Next: inventory.Retry,
		}
	default:
		return nil, err
	}
}
