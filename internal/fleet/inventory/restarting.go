package inventory

import (
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// restartPatience is how long after an interrupted restart an apply still starts the VM that it has left off, in
// addition to what the guest may take to shut down. libvirt doesn't say when a guest went off, so a guest that didn't
// shut down then, and that a user shuts down later, looks the same. After an hour, a plan only warns.
const restartPatience = time.Hour

// restartReason returns the status reason of a VM that is off since an interrupted restart, and "" for any other VM.
//
// Only what may be the end of that restart counts. A VM whose memory was saved, or that was reverted to a snapshot, was
// turned off by a user, and so was one that was destroyed, unless the update has noted that it did that. libvirt
// forgets that when its daemon is restarted.
func (vm *VM) restartReason() string {
	mark := vm.Metadata.Restarting
	if mark == nil || vm.Active || vm.ManagedSave {
		return ""
	}

	switch vm.Reason {
	case libvirt.ReasonSaved, "FromSnapshot", libvirt.ReasonMigrated:
		return ""
	}

	byUser := (vm.Reason == "Destroyed" || vm.Reason == "Unknown") && !mark.Forced
	if byUser || time.Since(mark.Since) > GracePeriod(vm.Metadata)+restartPatience {
		return status.ReasonRestartLapsed
	}

	return status.ReasonRestartInterrupted
}

// CarriedRestart returns the mark of a restart for the host that a VM that is off moves to. libvirt doesn't know there
// how the VM went off, so a mark that counts here says that the update did it.
func (vm *VM) CarriedRestart() *domain.Restarting {
	if vm.restartReason() != status.ReasonRestartInterrupted {
		return vm.Metadata.Restarting
	}

	carried := *vm.Metadata.Restarting
	carried.Forced = true

	return &carried
}

// SavedToFile reports whether the VM is off because its memory was written to a file of which libvirt knows nothing
// more, as by "virsh save".
func (vm *VM) SavedToFile() bool {
	return !vm.Active && !vm.ManagedSave && vm.Reason == libvirt.ReasonSaved
}
