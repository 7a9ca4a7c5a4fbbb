package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// shutdownResend is how often a guest is asked again to shut down: it may have been booting at the first request.
// KubeVirt repeats the request every 5 s, too.
const shutdownResend = 5 * time.Second

// Start starts a VM that is off, with the context that came with its permit. The caller has found the VM by querying
// all hosts, and holds its lock.
func (m *Manager) Start(ctx context.Context, permit *placement.StartPermit, vm *inventory.VM) error {
	err := cmp.Or(placement.VerifyStartable(vm), vm.RequireOneCopy(), m.placement.VerifyUndeleted(ctx, vm))
	if err != nil {
		return err
	}

	if vm.Active && vm.State == libvirt.Crashed {
		// Its guest has panicked, and its definition keeps the process (on_crash = preserve).
		if err := m.destroyVM(ctx, vm); err != nil {
			return err
		}
	}

	err = m.placement.StartAlone(ctx, permit, vm, func(ctx context.Context) error {
		m.log.InfoContext(ctx, "starting VM", "name", vm.Name, "uuid", vm.UUID, "host", vm.Host)

		if vm.ManagedSave {
			vm = m.markStarting(ctx, vm)
		}

		if vm.Metadata.FreshNVRAM {
			return startFresh(ctx, vm.On, vm)
		}

		return vm.On.Conn.StartDomain(ctx, vm.UUID)
	})

	switch {
	case err == nil && vm.ManagedSave:
		if err := m.resumeSaved(ctx, vm); err != nil {
			return err // It was started: what explains a failed start doesn't hold.
		}
	case err != nil && inventory.Refused(err):
		m.unmarkStarting(ctx, vm)
	}

	if err == nil {
		if err := m.noteStarted(ctx, vm); err != nil { // The guest runs: that isn't a failed start.
			m.log.WarnContext(ctx, "marks that the start has made void were not removed", "name", vm.Name, "host", vm.Host,
				"error", err.Error())
		}

		if vm.ManagedSave {
			m.mover.SetClockOfSaved(ctx, vm)
		}

		return nil
	}

	if remedy := inventory.LimitRemedy(err); remedy != "" {
		return &inventory.Error{VM: vm.Name, Host: vm.Host, Err: err, Detail: "it does not start", Remedy: remedy}
	}

	return m.placement.ExplainStart(ctx, vm, err)
}

// afterStart returns the metadata without the marks that the start of a VM has made void: that it is being started,
// that it is to be started after a restart, that it was to be deleted, and that it needs new firmware variables, which
// only a start from saved memory doesn't give it. A later start would otherwise give it new ones again, and lose what
// its guest has written to them. off is the VM before the start.
func afterStart(metadata domain.Metadata, off *inventory.VM) domain.Metadata {
	metadata.Starting, metadata.Restarting, metadata.Deleting = nil, nil, nil
	metadata.FreshNVRAM = metadata.FreshNVRAM && off.ManagedSave

	return metadata
}

// noteStarted removes the marks that the start of a VM has made void.
func (m *Manager) noteStarted(ctx context.Context, off *inventory.VM) error {
	have := off.Metadata
	if have.Starting == nil && have.Restarting == nil && have.Deleting == nil && !have.FreshNVRAM {
		return nil
	}

	return m.rewriteMetadata(ctx, off, func(have domain.Metadata) domain.Metadata { return afterStart(have, off) })
}

// rewriteMetadata changes the metadata that the VM has now, even after ctx has ended.
func (m *Manager) rewriteMetadata(
	ctx context.Context, vm *inventory.VM, change func(domain.Metadata) domain.Metadata,
) error {
	ctx, cancel := lease.GraceContext(ctx)
	defer cancel()

	now, err := m.hosts.Refresh(ctx, vm)
	if err != nil {
		return err
	}

	_, err = records.WriteMetadata(ctx, now, change(now.Metadata))

	return err
}

// Stop shuts the guest down and returns how the VM came to be off. It asks the guest agent, then presses the power
// button repeatedly until the grace period is over, then destroys the VM. It returns an error if the VM is off here
// only because it was moved to another host meanwhile.
func (m *Manager) Stop(ctx context.Context, vm *inventory.VM, grace time.Duration) (inventory.Outcome, error) {
	return m.stopWith(ctx, vm, stopOptions{grace: grace})
}

// stopOptions are the options for stopping a guest.
type stopOptions struct {
	// grace is how long the guest may take to shut down; 0 forces it off at once.
	grace time.Duration
	// forceIOError also forces off a guest that is paused by an I/O error for the whole grace period, for a VM that is
	// deleted. Any other stop returns an error.
	forceIOError bool
}

func (m *Manager) stopWith(ctx context.Context, vm *inventory.VM, how stopOptions) (inventory.Outcome, error) {
	if !vm.Active {
		return inventory.OutcomeNotRunning, nil
	}

	now, _, err := m.awaitSaved(ctx, vm)
	if err != nil {
		return "", err
	}

	if !now.Active {
		return inventory.OutcomeNotRunning, m.verifyNotMigrated(ctx, vm)
	}

	outcome, err := m.shutDownOrDestroy(ctx, now, how)
	if err == nil {
		err = m.verifyNotMigrated(ctx, vm)
	}

	return outcome, err
}

// shutDownOrDestroy shuts the guest down, and destroys the VM when the grace period is over. It doesn't check whether
// the VM was moved away.
func (m *Manager) shutDownOrDestroy(ctx context.Context, vm *inventory.VM, how stopOptions) (inventory.Outcome, error) {
	grace := how.grace

	vm, err := m.awaitStorage(ctx, vm, how)
	if err != nil {
		return "", err
	}

	if !vm.Active {
		return inventory.OutcomeNotRunning, nil
	}

	if err := refuseLoading(vm, how); err != nil {
		return "", err
	}

	if reachable, err := m.wakeForShutdown(ctx, vm); err != nil {
		return "", err
	} else if !reachable || grace == 0 {
		return inventory.OutcomeUnable, m.destroyVM(ctx, vm)
	}

	m.log.InfoContext(ctx, "shutting down guest", "name", vm.Name, "host", vm.Host, "grace_period", grace)

	deadline, cancel := context.WithTimeout(ctx, grace)
	defer cancel()

	restore := m.stayOff(deadline, vm)

	outcome, err := m.shutDown(deadline, vm)
	if err == nil {
		return outcome, nil
	}

	defer restore()

	if ctx.Err() != nil {
		return "", &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrNotReady, Err: context.Cause(ctx),
			Detail: "its guest was still shutting down when the wait for it ended; it was not forced",
			Next:   inventory.Continue,
		}
	}

	if deadline.Err() == nil {
		return "", err
	}

	// Its state may have changed meanwhile.
	now, waited, err := m.awaitSaved(ctx, vm)
	if err != nil || !now.Active {
		return outcome, err
	}

	if waited { // libvirt didn't ask the guest while its memory was written, so it has another grace period.
		return m.shutDownOrDestroy(ctx, now, how)
	}

	if err := errors.Join(refuseIOError(now, how), refuseLoading(now, how)); err != nil {
		return "", err
	}

	m.log.WarnContext(ctx, "guest did not shut down within its grace period, destroying",
		"name", vm.Name, "host", vm.Host, "grace_period", grace)

	return inventory.OutcomeForced, m.destroyVM(ctx, now)
}

// stayOff sets a running VM that libvirt starts again when its guest has shut down (on_poweroff = restart) to stay off
// this time. Otherwise each request to shut down would reboot the guest, and it would be forced off while it boots. The
// definition for the next start stays. Call restore if the guest was not shut down. An error is only logged: a host
// that can't set this, or a hypervisor process that hangs, must not keep the VM from being forced off.
func (m *Manager) stayOff(ctx context.Context, vm *inventory.VM) (restore func()) {
	if vm.LiveSpec == nil {
		return func() {}
	}

	was := vm.LiveSpec.Values[domain.OnPoweroff]
	if was != "restart" && was != "rename-restart" {
		return func() {}
	}

	set := func(ctx context.Context, action string) {
		err := vm.On.Conn.SetLifecycleAction(ctx, vm.UUID, "on_poweroff", action, libvirt.AffectLive)
		if err == nil || inventory.IsNotFound(err) || errors.Is(err, libvirt.ErrOperationInvalid) {
			return // If it failed, the VM is off by now.
		}

		m.log.WarnContext(ctx, "on_poweroff of the running VM was not set", "name", vm.Name, "host", vm.Host,
			"on_poweroff", action, "error", err.Error())
	}

	set(ctx, "destroy")

	return func() {
		after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
		defer cancel()

		set(after, was)
	}
}

// verifyNotMigrated returns an error if a VM that is off on its host runs on another host, or may run there: users who
// move VMs by hand don't take the provider's locks.
func (m *Manager) verifyNotMigrated(ctx context.Context, vm *inventory.VM) error {
	left, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
	case err != nil || left.Reason != libvirt.ReasonMigrated:
		return err
	}

	now, err := m.hosts.FindNow(ctx, vm.UUID, inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID})

	switch {
	case inventory.IsNotFound(err) || err != nil && !vm.Persistent:
		return nil // a user removed it, or it was transient
	case err != nil:
		return err
	case now.Active:
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: fmt.Sprintf("while its guest was shut down, another run or a user moved it to host %q, where it "+
				"runs", now.Host),
			Next: inventory.Replan,
		}
	default:
		return placement.VerifyStartable(now)
	}
}

// Resume resumes a paused VM. A VM that is paused because its post-copy migration failed is recovered.
func (m *Manager) Resume(ctx context.Context, vm *inventory.VM) error {
	if vm.Stranded {
		return m.mover.FinishSwitchoverOf(ctx, vm, *vm.OpenMigration())
	}

	if err := vm.On.Conn.ResumeDomain(ctx, vm.UUID); err != nil {
		return explainRefusedResume(vm, err)
	}

	m.mover.SetClock(ctx, vm.On, vm)

	return nil
}

// shutDown repeats the request to shut down until the guest is off or ctx ends.
func (m *Manager) shutDown(ctx context.Context, vm *inventory.VM) (inventory.Outcome, error) {
	outcome := inventory.OutcomeACPI

	// Call the agent in the background: while the call waits for an agent that hangs, the power button may shut the guest
	// down.
	agent := make(chan error, 1)

	if vm.AgentConnected {
		outcome = inventory.OutcomeAgent

		m.background.Go(func() { agent <- vm.On.Conn.ShutdownDomain(ctx, vm.UUID, libvirt.ShutdownAgent) })
	} else if err := m.pressPowerButton(ctx, vm); err != nil {
		return "", err
	}

	next := time.Now().Add(shutdownResend)

	for {
		off, err := m.waitOff(ctx, vm, next)
		if off || err != nil {
			return outcome, err
		}

		select {
		case err := <-agent:
			if err != nil {
				outcome = inventory.OutcomeACPI
			}
		default:
		}

		next = time.Now().Add(shutdownResend)

		if err := m.pressPowerButton(ctx, vm); err != nil {
			return "", err
		}
	}
}

// pressPowerButton sends the ACPI event. It returns no error if the VM is off or shutting down.
func (m *Manager) pressPowerButton(ctx context.Context, vm *inventory.VM) error {
	err := vm.On.Conn.ShutdownDomain(ctx, vm.UUID, libvirt.ShutdownACPI)
	if errors.Is(err, libvirt.ErrOperationInvalid) || inventory.IsNotFound(err) {
		return nil
	}

	return err
}

// waitOff waits until the VM is off, but no longer than until.
func (m *Manager) waitOff(ctx context.Context, vm *inventory.VM, until time.Time) (bool, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errTimeIsUp)
	defer cancel()

	off, err := inventory.Await(ctx, vm, func(d *libvirt.Domain) bool { return d == nil || !d.Active() })
	if errors.Is(err, errTimeIsUp) {
		return false, nil
	}

	return off, err
}

var errTimeIsUp = errors.New("time to ask again")

func (m *Manager) destroyVM(ctx context.Context, vm *inventory.VM) error {
	err := vm.On.Conn.DestroyDomain(ctx, vm.UUID, true)
	if err == nil || inventory.IsNotFound(err) || errors.Is(err, libvirt.ErrOperationInvalid) {
		return nil
	}

	if !errors.Is(err, inventory.ErrBusy) && !errors.Is(err, libvirt.ErrInternal) {
		return err
	}

	// QEMU ignored SIGTERM. This sends SIGKILL.
	err = vm.On.Conn.DestroyDomain(ctx, vm.UUID, false)
	if inventory.IsNotFound(err) || errors.Is(err, libvirt.ErrOperationInvalid) {
		return nil
	}

	return err
}
