package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// DeleteReport says how a VM was removed.
type DeleteReport struct {
	// Host is the host that the VM was on.
	Host string
	// Outcome says how the VM came to be off.
	Outcome inventory.Outcome
	// SilentHosts did not answer. Stale definitions on them were not removed.
	SilentHosts []string
	// KeptDisks are own disks and what moves have left, which should have been removed with the VM, and why they were
	// kept.
	KeptDisks []string
}

// Delete shuts the VM down, and removes its own disks, its definition and stale definitions on other hosts. Other disks
// stay. It returns no error if no host has the VM.
func (m *Manager) Delete(
	ctx context.Context, uuid string, last inventory.LastKnown, grace time.Duration,
) (*DeleteReport, error) {
	ctx, unlock, vm, err := m.mover.LockWhereItIs(inventory.AsOneOperation(ctx), uuid, last, "deleting", nil)
	if inventory.IsNotFound(err) {
		return &DeleteReport{Outcome: inventory.OutcomeNotRunning}, m.records.VerifyNotMoved(ctx, uuid, "", last)
	}

	if err != nil {
		return nil, err
	}
	defer unlock()

	report := &DeleteReport{Host: vm.Host, SilentHosts: vm.SilentHosts}

	if last.Off && vm.Active {
		return report, &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy, Next: inventory.Review,
			Detail: fmt.Sprintf("it was off when its deletion was planned, and is %s now: this run would shut it down, which "+
				"was not planned. Nothing of it is deleted", vm.Status()),
		}
	}

	if err := m.checkKept(ctx, vm); err != nil {
		return report, err
	}

	if len(losesElsewhere(vm)) > 0 {
		vm = m.recordLost(ctx, vm)
	}

	// This is checked before the VM is stopped: if it is unknown what would be removed, the VM keeps running.
	if err := m.checkOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	if err := m.checkUsersKnown(ctx, vm, disksRemovedWithVM(vm, false)); err != nil {
		return report, err
	}

	vm = m.defineToDelete(ctx, vm)

	if report.Outcome, err = m.stopToDelete(ctx, vm, grace); err != nil {
		vm.On.Forget()

		return report, err
	}

	if vm, report.KeptDisks, err = m.keepTwinDisks(ctx, vm); err != nil {
		return report, err
	}

	// Stale definitions go first: they use disks that moves have left. The VM's own definition goes last: if this run is
	// interrupted, the next one reads in it what is left.
	if err := m.mover.RemoveDefinitions(ctx, vm); err != nil {
		return report, err
	}

	vm.StaleHosts = nil
	vm = m.markDeleting(ctx, vm)

	stay, err := m.deleteDisks(ctx, vm)
	report.KeptDisks = append(report.KeptDisks, stay...)

	if err != nil {
		return report, err
	}

	if vm.HasMoved() { // The run that moved it may have been killed before it removed this.
		m.mover.EndArriving(ctx, vm.On, vm)
	}

	if err := m.deleteDefinition(ctx, vm); err != nil {
		return report, err
	}

	m.records.ForgetMoves(ctx, vm)

	return report, nil
}

// defineToDelete gives a running VM that has lost its definition one, to be removed with the VM. After "virsh
// undefine", libvirt writes the definition's file again when it takes a snapshot or ends a block job. Without a
// definition it leaves that file, and its next start makes it the definition of a VM that is off. An error keeps no VM
// from being deleted.
func (m *Manager) defineToDelete(ctx context.Context, vm *inventory.VM) *inventory.VM {
	now, err := m.mover.EnsureDefined(ctx, vm)
	if err != nil {
		m.log.WarnContext(ctx, "a VM without a definition is deleted as it is", "name", vm.Name, "host", vm.Host,
			"error", err.Error())

		return vm
	}

	return now
}

// stopToDelete shuts the VM down, and returns an error if a user has meanwhile saved something that would be lost with
// the VM.
func (m *Manager) stopToDelete(
	ctx context.Context, vm *inventory.VM, grace time.Duration,
) (inventory.Outcome, error) {
	outcome, err := m.stopWith(ctx, vm, stopOptions{grace: grace, forceIOError: true})
	if err == nil {
		err = m.verifyNotSaved(ctx, vm)
	}

	if err == nil && vm.Active {
		err = m.checkKept(ctx, vm) // A user may have taken a snapshot while the guest shut down.
	}

	return outcome, err
}

// keepTwinDisks takes disks that are kept when the VM is destroyed out of the record of unfinished copies, where the
// copy may have newer data than the VM has. It returns the VM as it is then, and these disks.
func (m *Manager) keepTwinDisks(ctx context.Context, vm *inventory.VM) (now *inventory.VM, stay []string, err error) {
	removed := disksRemovedWithVM(vm, false)
	twins := slices.DeleteFunc(vm.TwinDisks(), func(c domain.Copy) bool {
		return slices.ContainsFunc(removed, func(key string) bool { return vm.Metadata.OwnDisks[key].Path == c.Path })
	})

	if len(twins) == 0 {
		return vm, nil, nil
	}

	for _, c := range twins {
		stay = append(stay, fmt.Sprintf("%s on host %q: an interrupted move had copied it from host %q to the end, and "+
			"either may have the newer data", c.Path, vm.Peers[c.HostUUID], vm.Host))
	}

	metadata := vm.Metadata
	metadata.Copies = slices.DeleteFunc(slices.Clone(metadata.Copies), func(c domain.Copy) bool {
		return slices.Contains(twins, c)
	})

	if _, err := records.WriteMetadata(ctx, vm, metadata); err != nil {
		return vm, stay, err
	}

	for _, c := range twins {
		unfinished := slices.ContainsFunc(metadata.Copies, func(o domain.Copy) bool { return o.HostUUID == c.HostUUID })
		if h := m.hosts.Host(vm.Peers[c.HostUUID]); h != nil && !unfinished {
			m.mover.EndArriving(ctx, h, vm)
		}
	}

	now, err = m.hosts.Refresh(ctx, vm)
	if err != nil {
		return vm, stay, err
	}

	return now, stay, nil
}

// deleteDisks removes the files that exist only for the VM: incomplete copies, its own disks, and volumes that are
// left on other hosts. Their records are removed with the VM, so it returns those that stay, and why.
func (m *Manager) deleteDisks(ctx context.Context, vm *inventory.VM) (stay []string, err error) {
	vm, stay = m.deleteCopies(ctx, vm)

	own, err := m.releaseOwnDisks(ctx, vm, false)
	stay = append(stay, own...)

	if err != nil {
		return stay, err
	}

	now, err := m.mover.RemoveLeftVolumes(ctx, vm, nil, false)
	if err != nil {
		stay = append(stay, err.Error())
	}

	stay = append(stay, now.KeptDisks...)

	for _, l := range now.Metadata.LeftVolumes {
		if l.HostUUID != now.HostUUID && now.Peers[l.HostUUID] == "" {
			stay = append(stay, fmt.Sprintf("%s on host %q, %s: %s", l.Path, l.Host, move.LeftBy(l), unasked))
		}
	}

	return stay, nil
}

// unasked is why something on another host was not removed.
const unasked = "the host didn't answer, or isn't among the configured hosts"

// deleteCopies removes incomplete copies of the VM on other hosts. It returns the VM as it is then, and those that
// stay.
func (m *Manager) deleteCopies(ctx context.Context, vm *inventory.VM) (now *inventory.VM, stay []string) {
	if len(vm.Metadata.Copies) == 0 {
		return vm, nil
	}

	now, err := m.mover.DiscardCopies(ctx, vm, nil)
	if err != nil {
		m.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
	}

	for _, c := range now.Metadata.Copies {
		host, why := now.Peers[c.HostUUID], unasked

		switch {
		case c.HostUUID == now.HostUUID || c.FromUUID != now.HostUUID: // The VM uses it, or may use it.
			continue
		case host == "":
			host = c.Host
		case err != nil:
			why = err.Error()
		}

		stay = append(stay, fmt.Sprintf("%s on host %q, which an interrupted move left: %s", c.Path, host, why))
	}

	return now, stay
}

// deleteDefinition removes the VM's definition.
func (m *Manager) deleteDefinition(ctx context.Context, vm *inventory.VM) error {
	if err := verifyOff(ctx, vm); err != nil {
		vm.On.Forget()

		return err
	}

	keep := slices.Concat(keepFlags(vm), m.keptVariables(ctx, vm))

	return move.Undefine(ctx, vm.On, vm.UUID, keep...)
}

// CheckDelete finds a VM, and returns an error if Delete would not remove it, as far as this is known without changing
// anything.
func (m *Manager) CheckDelete(
	ctx context.Context, uuid string, last inventory.LastKnown,
) (*inventory.VM, error) {
	vm, err := m.hosts.Find(ctx, uuid, last)
	if inventory.IsNotFound(err) {
		err = cmp.Or(m.records.VerifyNotMoved(ctx, uuid, "", last), err)
	}

	if err != nil {
		return nil, err
	}

	if err := m.checkKept(ctx, vm); err != nil {
		return nil, err
	}

	removed := disksRemovedWithVM(vm, false)
	if err := m.placement.CheckRemovable(ctx, vm, removed); err != nil {
		return vm, err
	}

	return vm, m.placement.CheckTaken(ctx, vm, removed)
}

// verifyNotSaved returns an error if a user or another tool saved the VM's memory since vm was read, and so wants to
// restore it. Memory that was saved before is removed with the VM.
func (m *Manager) verifyNotSaved(ctx context.Context, vm *inventory.VM) error {
	if !vm.Active || vm.ManagedSave {
		return nil
	}

	d, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.ManagedSave:
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: "its memory was saved while it was to be deleted; it was not deleted",
			Remedy: "Start it again to keep what was saved; otherwise that is deleted with it.", Next: inventory.Replan,
		}
	default:
		return SavedMeanwhile(withState(vm, d), "deleted")
	}
}

// verifyOff returns an error if a user has started the VM again since it was stopped. Without its definition it would
// run on, and nothing would manage it.
func verifyOff(ctx context.Context, vm *inventory.VM) error {
	d, err := vm.On.Conn.Domain(ctx, vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.Active():
		return &inventory.Error{
			VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
			Detail: "it was started while it was being deleted; its definition was not removed",
			Remedy: "Find out who started it.", Next: inventory.Replan,
		}
	default:
		return nil
	}
}

// checkUnprotected returns an error if the VM's metadata protects it. Whoever deletes it may know an older one.
func checkUnprotected(vm *inventory.VM) error {
	if protected := vm.Metadata.DeletionProtection; protected == nil || !*protected {
		return nil
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: "its metadata on the host has deletion_protection, which this run didn't know of; nothing was removed",
		Remedy: "If the VM is to go, first set deletion_protection = false, as a change of its own.",
		Next:   inventory.Review,
	}
}
