package migration

import "slices"

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

// reasonTrait says what is special about a reason. One without a trait is about the VM, or about what a host can do.
type reasonTrait uint8

const (
	// ofStorage: the reason doesn't count where the disks are copied along.
	ofStorage reasonTrait = 1 << iota
	// passing: the reason says nothing about the VM. It may be gone tomorrow.
	passing
	// ofNeighbours: other VMs of the target are the reason.
	ofNeighbours
)

// knownReasons are all codes in the order in which blockers are listed: KubeVirt's, then what depends on the target.
var knownReasons = []struct {
	code   string
	traits reasonTrait
}{
	{HostNotAvailable, passing},
	{HostCordoned, passing},
	{InterfaceNotLiveMigratable, 0},
	{CPUModeNotLiveMigratable, 0},
	{HostDeviceNotLiveMigratable, 0},
	{SEVNotLiveMigratable, 0},
	{TDXNotLiveMigratable, 0},
	{SecureExecutionNotLiveMigratable, ofStorage},
	{NoTSCFrequencyNotLiveMigratable, 0},
	{HypervPassthroughNotMigratable, 0},
	{VirtIOFSNotLiveMigratable, 0},
	{PersistentReservationNotMigrat, 0},
	{DisksNotLiveMigratable, ofStorage},
	{SnapshotsNotMigratable, 0},
	{BlockJobsNotLiveMigratable, 0},
	{StateNotMigratable, 0},
	{ManagedSaveNotMigratable, 0},
	{NVRAMNotMigratable, 0},
	{TPMNotMigratable, 0},
	{QEMUNotLiveMigratable, 0},
	{HostNotSchedulable, passing},
	{HostLabelsMismatch, passing},
	{HostPinned, 0},
	{HypervisorNotCompatible, 0},
	{CPUNotCompatible, 0},
	{HostResourcesNotAvailable, 0},
	{HostResourcesTaken, passing | ofNeighbours},
	{InsufficientMemory, passing | ofNeighbours},
	{NotAlone, 0},
	{AntiAffinity, ofNeighbours},
	{NetworkNotAvailable, 0},
	{VsockCIDTaken, passing | ofNeighbours},
	{NameTaken, 0},
	{DiskPathTaken, 0},
	{InsufficientStorage, passing},
	{OptionsNotSupported, 0},
}

// position is where a reason stands in the list, len(knownReasons) if it doesn't.
func position(reason string) int {
	for i, r := range knownReasons {
		if r.code == reason {
			return i
		}
	}
	return len(knownReasons)
}

func hasTrait(b Blocker, trait reasonTrait) bool {
	i := position(b.Reason)
	return i < len(knownReasons) && knownReasons[i].traits&trait != 0
}

// IsTemporary says that a blocker may be gone tomorrow: it ends by itself, or says nothing about the VM.
func IsTemporary(b Blocker) bool { return b.Temporary || hasTrait(b, passing) }

// IsOfNeighbours says that a blocker is about the other VMs of the target.
func IsOfNeighbours(b Blocker) bool { return hasTrait(b, ofNeighbours) }

// StorageBlockers returns those that would also block a migration which copies the disks: where the disks are doesn't
// count, and as in KubeVirt neither does Secure Execution.
func StorageBlockers(blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return hasTrait(b, ofStorage) })
}
