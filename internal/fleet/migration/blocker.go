package migration

import (
	"errors"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Reason codes. Those of a VM's own definition are KubeVirt's, in its order, the misspelt one included; the others
// are named alike.
const (
	InterfaceNotLiveMigratable       = "InterfaceNotLiveMigratable"
	CPUModeNotLiveMigratable         = "CPUModeLiveMigratable"
	HostDeviceNotLiveMigratable      = "HostDeviceNotLiveMigratable"
	SEVNotLiveMigratable             = "SEVNotLiveMigratable"
	TDXNotLiveMigratable             = "TDXNotLiveMigratable"
	SecureExecutionNotLiveMigratable = "SecureExecutionNotLiveMigratable"
	NoTSCFrequencyNotLiveMigratable  = "NoTSCFrequencyNotLiveMigratable"
	HypervPassthroughNotMigratable   = "HypervPassthroughNotLiveMigratable"
	VirtIOFSNotLiveMigratable        = "VirtIOFSNotLiveMigratable"
	PersistentReservationNotMigrat   = "PersistentReservationNotLiveMigratable"
	DisksNotLiveMigratable           = "DisksNotLiveMigratable"

	// SnapshotsNotMigratable: libvirt refuses to move a VM that has snapshots, even one that is off.
	SnapshotsNotMigratable = "SnapshotsNotMigratable"
	// BlockJobsNotLiveMigratable: a disk is being copied, committed or backed up.
	BlockJobsNotLiveMigratable = "BlockJobsNotLiveMigratable"
	// StateNotMigratable: what the VM is doing now can't be moved.
	StateNotMigratable = "StateNotMigratable"
	// ManagedSaveNotMigratable: the memory of the stopped VM is kept on its host. Moved and moved back, the VM
	// would resume stale memory over newer disks.
	ManagedSaveNotMigratable = "ManagedSaveNotMigratable"
	// NVRAMNotMigratable, TPMNotMigratable: what the firmware or the TPM of a stopped VM keeps can't be copied.
	NVRAMNotMigratable = "NVRAMNotMigratable"
	TPMNotMigratable   = "TPMNotMigratable"

	// QEMUNotLiveMigratable: QEMU itself refuses, for a device or feature of the running guest.
	QEMUNotLiveMigratable = "QEMUNotLiveMigratable"

	// HostNotAvailable: the target is not configured, given up or doesn't answer.
	HostNotAvailable = "HostNotAvailable"
	// HostNotSchedulable: nothing is placed on the target unless it is named.
	HostNotSchedulable = "HostNotSchedulable"
	// HostLabelsMismatch: the target lacks labels that the VM's placement requires.
	HostLabelsMismatch = "HostLabelsMismatch"
	// HostPinned: the VM's configuration wants it on another host.
	HostPinned = "HostPinned"
	// HostCordoned: the target takes no VMs, because it is under maintenance.
	HostCordoned = "HostCordoned"
	// HypervisorNotCompatible: the target can't run this machine type, or its versions lack something.
	HypervisorNotCompatible = "HypervisorNotCompatible"
	// CPUNotCompatible: the target's CPU or hypervisor lacks what the guest was started with.
	CPUNotCompatible = "CPUNotCompatible"
	// HostResourcesNotAvailable: the target lacks CPUs, NUMA nodes or huge pages that the VM is bound to.
	HostResourcesNotAvailable = "HostResourcesNotAvailable"
	// HostResourcesTaken: other VMs of the target have huge pages or devices of the host that the VM needs.
	HostResourcesTaken = "HostResourcesTaken"
	// InsufficientMemory: the target has not enough uncommitted memory.
	InsufficientMemory = "InsufficientMemory"
	// NotAlone: another VM has the same name, or writes to the same disk.
	NotAlone = "NotAlone"
	// AntiAffinity: the target has a VM that this one must not share a host with.
	AntiAffinity = "AntiAffinity"
	// NetworkNotAvailable: the target lacks a network or bridge.
	NetworkNotAvailable = "NetworkNotAvailable"
	// VsockCIDTaken: a VM that runs on the target, or is started with it, has the address of this one's vsock device.
	VsockCIDTaken = "VsockCIDTaken"
	// NameTaken: the target has another VM with the name, or a definition of this one.
	NameTaken = "NameTaken"
	// DiskPathTaken: the target has another file where a disk would be copied to.
	DiskPathTaken = "DiskPathTaken"
	// InsufficientStorage: the target has no room for the disks that would be copied.
	InsufficientStorage = "InsufficientStorage"
	// OptionsNotSupported: the hosts can't do what the options ask for, or two of them don't go together.
	OptionsNotSupported = "OptionsNotSupported"
)

// Blocker is something that blocks, or may block, a migration. Its reason is one of the codes.
type Blocker = status.Blocker

// Blocking returns the blockers that are certain.
func Blocking(blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return b.Status != status.False })
}

// StorageBlockers returns those that would also block a migration which copies the disks: where the disks are doesn't
// count, and as in KubeVirt neither does Secure Execution.
func StorageBlockers(blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool {
		return b.Reason == DisksNotLiveMigratable || b.Reason == SecureExecutionNotLiveMigratable
	})
}

// ErrBlocked means that a migration was not tried, because something is in its way.
var ErrBlocked = errors.New("the VM can't be moved")

// BlockedError lists everything that blocks the migration.
type BlockedError struct{ Blockers []Blocker }

// Error lists the blockers, one per line.
func (e *BlockedError) Error() string {
	lines := make([]string, len(e.Blockers))
	for i, b := range e.Blockers {
		lines[i] = "\n  - " + b.String()
	}
	return ErrBlocked.Error() + ":" + strings.Join(lines, "")
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }
