package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// DeleteReport says how a VM was removed.
type DeleteReport struct {
	// Host is the host that the VM was on.
	Host string
	// Outcome says how the VM came to be off.
	Outcome inventory.Outcome
	// SilentHosts did not answer. Stale definitions on them were not removed.
	SilentHosts []string
	// KeptDisks are own disks that should have been removed with the VM, and why they were kept.
	KeptDisks []string
}

// Delete shuts the VM down, and removes its own disks, its definition and stale definitions on other hosts. Other disks
// stay. It returns no error if no host has the VM.
func (m *Manager) Delete(
	ctx context.Context, uuid string, last inventory.LastKnown, grace time.Duration,
) (*DeleteReport, error) {
	ctx, unlock, vm, err := m.mover.LockWhereItIs(inventory.AsOneOperation(ctx), uuid, last, "deleting", nil)
	if inventory.IsNotFound(err) {
		return &DeleteReport{Outcome: inventory.OutcomeNotRunning}, nil
	}

	if err != nil {
		return nil, err
	}
	defer unlock()

	report := &DeleteReport{Host: vm.Host, SilentHosts: vm.SilentHosts}

	if err := m.checkKept(ctx, vm); err != nil {
		return report, err
	}

	// This is checked before the VM is stopped: if it is unknown what would be removed, the VM keeps running.
	if err := m.checkOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	report.Outcome, err = m.stopWith(ctx, vm, stopOptions{grace: grace, forceIOError: true})
	if err == nil {
		err = m.verifyNotSaved(ctx, vm)
	}

	if err != nil {
		vm.On.Forget()

		return report, err
	}

	// The record of incomplete copies is removed with the VM.
	if len(vm.Metadata.Copies) > 0 {
		if _, err := m.mover.DiscardCopies(ctx, vm, nil); err != nil {
			m.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
		}
	}

	// The disks are removed while the VM is defined: if this run is interrupted, the next one reads in the definition
	// which disks are left.
	if report.KeptDisks, err = m.releaseOwnDisks(ctx, vm, false); err != nil {
		return report, err
	}

	if _, err := m.mover.RemoveLeftVolumes(ctx, vm, nil, false); err != nil {
		report.KeptDisks = append(report.KeptDisks, err.Error())
	}

	if err := move.Undefine(ctx, vm.On, uuid, kept(vm)...); err != nil {
		return report, err
	}

	return report, m.mover.RemoveDefinitions(ctx, vm)
}

// kept returns what stays of the VM when its definition is removed.
func kept(vm *inventory.VM) []libvirt.Kept {
	var all []libvirt.Kept

	if vm.Metadata.KeepNVRAM {
		all = append(all, libvirt.KeepNVRAM)
	}

	if vm.Metadata.KeepTPMState {
		all = append(all, libvirt.KeepTPM)
	}

	return all
}

// checkKept returns an error if the VM's present host can't keep what is to stay of the VM.
func (m *Manager) checkKept(ctx context.Context, vm *inventory.VM) error {
	if !vm.Metadata.KeepTPMState {
		return nil
	}

	a, err := m.hosts.ReplyOf(ctx, vm.On)
	if err != nil || placement.KeepsTPMState(a.Info) {
		return err
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: inventory.ErrBusy,
		Detail: "its libvirt, which is older than 8.9.0, can't keep the state of the TPM; nothing was removed",
		Remedy: "Move the VM to another host, or apply on_destroy.tpm_state = \"delete\" first.",
	}
}

// Losses returns the data that is deleted with the VM, in words.
func (m *Manager) Losses(ctx context.Context, vm *inventory.VM) []string {
	var all []string

	spec := domain.Merge(vm.PersistentSpec, vm.LiveSpec, nil, nil)

	for _, key := range disksRemovedWithVM(vm, false) {
		o := vm.Metadata.OwnDisks[key]
		if placement.IsFirstBoot(key) || !vm.OwnsHere(o) {
			continue
		}

		loss := "disks." + key + ": " + o.Path
		if now := spec.Disks[key].Source.File; now != "" && !vm.HasFile(o.Path) {
			loss += fmt.Sprintf(", unless it is the base of another volume; the VM's disk is %s now, which stays", now)
		}

		all = append(all, loss)
	}

	if spec.HasNVRAM() && !vm.Metadata.KeepNVRAM {
		all = append(all, "the UEFI variables (NVRAM)")
	}

	if spec.EmulatesTPM() && !vm.Metadata.KeepTPMState {
		all = append(all, "the state of the TPM: without a recovery key, disks that it seals can't be read any more")
	}

	if vm.ManagedSave {
		all = append(all, "the guest's saved memory (managed save image)")
	}

	for _, list := range []struct {
		what string
		ask  func(context.Context, string) ([]string, error)
	}{{"snapshots", vm.On.Conn.Snapshots}, {"checkpoints", vm.On.Conn.Checkpoints}} {
		switch names, err := list.ask(ctx, vm.UUID); {
		case err != nil:
			all = append(all, fmt.Sprintf("the metadata of its %s, which can't be read: %v", list.what, err))
		case len(names) > 0:
			all = append(all, fmt.Sprintf("the metadata of its %s %s", list.what, inventory.QuoteList(names)))
		}
	}

	return all
}

// CheckDelete finds a VM, and returns an error if Delete would not remove it, as far as this is known without changing
// anything.
func (m *Manager) CheckDelete(
	ctx context.Context, uuid string, last inventory.LastKnown,
) (*inventory.VM, error) {
	vm, err := m.hosts.Find(ctx, uuid, last)
	if err != nil {
		return nil, err
	}

	if err := m.checkKept(ctx, vm); err != nil {
		return nil, err
	}

	return vm, m.placement.CheckRemovable(ctx, vm, disksRemovedWithVM(vm, false))
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
			Remedy: "Start it again, or plan and apply again to delete it with what was saved.",
		}
	default:
		return nil
	}
}
