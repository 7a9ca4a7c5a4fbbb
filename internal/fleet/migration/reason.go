package migration

import (
	"cmp"
	"slices"
)

// Reason codes. The reasons of a VM's own definition are KubeVirt's, in its order, including
// "CPUModeLiveMigratable", which lacks the "Not" there, too. The others are named alike.
const (
	InterfaceNotLiveMigratable             = "InterfaceNotLiveMigratable"
	CPUModeNotLiveMigratable               = "CPUModeLiveMigratable"
	HostDeviceNotLiveMigratable            = "HostDeviceNotLiveMigratable"
	SEVNotLiveMigratable                   = "SEVNotLiveMigratable"
	TDXNotLiveMigratable                   = "TDXNotLiveMigratable"
	SecureExecutionNotLiveMigratable       = "SecureExecutionNotLiveMigratable"
	NoTSCFrequencyNotLiveMigratable        = "NoTSCFrequencyNotLiveMigratable"
	HypervPassthroughNotLiveMigratable     = "HypervPassthroughNotLiveMigratable"
	VirtIOFSNotLiveMigratable              = "VirtIOFSNotLiveMigratable"
	PersistentReservationNotLiveMigratable = "PersistentReservationNotLiveMigratable"
	DisksNotLiveMigratable                 = "DisksNotLiveMigratable"

	// SnapshotsNotMigratable: libvirt refuses to move a VM that has snapshots, even a stopped one.
	SnapshotsNotMigratable = "SnapshotsNotMigratable"
	// BlockJobsNotLiveMigratable: a disk is being copied, committed or backed up.
	BlockJobsNotLiveMigratable = "BlockJobsNotLiveMigratable"
	// StateNotMigratable: the VM is in a state, or runs a job, in which it can't be moved.
	StateNotMigratable = "StateNotMigratable"
	// ManagedSaveNotMigratable: the memory of the stopped VM is kept on its host. Moved and moved back, the VM
	// would resume stale memory over newer disks.
	ManagedSaveNotMigratable = "ManagedSaveNotMigratable"
	// NVRAMNotMigratable, TPMNotMigratable: the state of a stopped VM's firmware or TPM can't be copied.
	NVRAMNotMigratable = "NVRAMNotMigratable"
	TPMNotMigratable   = "TPMNotMigratable"

	// QEMUNotLiveMigratable: QEMU itself refuses, because of a device or feature of the running guest.
	QEMUNotLiveMigratable = "QEMUNotLiveMigratable"

	// HostNotAvailable: the target is not configured, fenced or doesn't answer.
	HostNotAvailable = "HostNotAvailable"
	// StorageNotAvailable: a storage pool of a host doesn't answer, while the host does.
	StorageNotAvailable = "StorageNotAvailable"
	// HostNotSchedulable: VMs are placed on the target only if they name it.
	HostNotSchedulable = "HostNotSchedulable"
	// HostLabelsMismatch: the target lacks labels that the VM's placement requires.
	HostLabelsMismatch = "HostLabelsMismatch"
	// HostPinned: the VM's configuration pins it to another host.
	HostPinned = "HostPinned"
	// HostCordoned: the target accepts no VMs, because it is under maintenance.
	HostCordoned = "HostCordoned"
	// HypervisorNotCompatible: the target can't run this machine type, or its versions lack something.
	HypervisorNotCompatible = "HypervisorNotCompatible"
	// CPUNotCompatible: the target's CPU or hypervisor lacks features that the guest was started with.
	CPUNotCompatible = "CPUNotCompatible"
	// HostResourcesNotAvailable: the target lacks CPUs, NUMA nodes, huge pages or cgroups that the VM is bound to.
	HostResourcesNotAvailable = "HostResourcesNotAvailable"
	// HostResourcesTaken: other VMs of the target use huge pages or host devices that the VM requires.
	HostResourcesTaken = "HostResourcesTaken"
	// InsufficientMemory: the target has not enough uncommitted memory.
	InsufficientMemory = "InsufficientMemory"
	// NotAlone: another VM has the same name, or writes to the same disk.
	NotAlone = "NotAlone"
	// AntiAffinity: the target has a VM that this one must not share a host with.
	AntiAffinity = "AntiAffinity"
	// NetworkNotAvailable: the target lacks a network or bridge.
	NetworkNotAvailable = "NetworkNotAvailable"
	// VsockCIDTaken: a VM that runs on the target, or starts with it, uses the address of this VM's vsock device.
	VsockCIDTaken = "VsockCIDTaken"
	// NameTaken: the target has another VM with the name, or a definition of this one.
	NameTaken = "NameTaken"
	// DiskPathTaken: the target has another file where a disk would be copied to.
	DiskPathTaken = "DiskPathTaken"
	// InsufficientStorage: the target has no room for the disks that would be copied.
	InsufficientStorage = "InsufficientStorage"
	// OptionsNotSupported: the hosts don't support an option, or two options contradict each other.
	OptionsNotSupported = "OptionsNotSupported"
)

// reasonTrait is a special property of a reason. A reason without a trait is about the VM, or about the abilities of a
// host.
type reasonTrait uint8

const (
	// ofStorage: the reason doesn't apply where the disks are copied.
	ofStorage reasonTrait = 1 << iota
	// temporary: it passes, and is not about the VM. This is for a reason that always passes. A check whose reason passes
	// only in some cases calls blockForNow for these.
	temporary
	// ofNeighbours: the reason is about other VMs of the target.
	ofNeighbours
)

// knownReasons lists all codes in the order of SortBlockers: what is wrong with the target as a whole, what KubeVirt
// finds in the VM, in its order, and then what else depends on the target.
var knownReasons = []struct {
	code   string
	traits reasonTrait
}{
	{HostNotAvailable, temporary},
	{StorageNotAvailable, temporary},
	{HostCordoned, temporary},
	{InterfaceNotLiveMigratable, 0},
	{CPUModeNotLiveMigratable, 0},
	{HostDeviceNotLiveMigratable, 0},
	{SEVNotLiveMigratable, 0},
	{TDXNotLiveMigratable, 0},
	{SecureExecutionNotLiveMigratable, ofStorage}, // As in KubeVirt, see StorageBlockers.
	{NoTSCFrequencyNotLiveMigratable, 0},
	{HypervPassthroughNotLiveMigratable, 0},
	{VirtIOFSNotLiveMigratable, 0},
	{PersistentReservationNotLiveMigratable, 0},
	{DisksNotLiveMigratable, ofStorage},
	{SnapshotsNotMigratable, 0},
	{BlockJobsNotLiveMigratable, 0},
	{StateNotMigratable, 0},
	{ManagedSaveNotMigratable, 0},
	{NVRAMNotMigratable, 0},
	{TPMNotMigratable, 0},
	{QEMUNotLiveMigratable, 0},
	{HostNotSchedulable, temporary},
	{HostLabelsMismatch, temporary},
	{HostPinned, 0},
	{HypervisorNotCompatible, 0},
	{CPUNotCompatible, 0},
	{HostResourcesNotAvailable, 0},
	{HostResourcesTaken, temporary | ofNeighbours},
	{InsufficientMemory, temporary | ofNeighbours},
	{NotAlone, 0},
	{AntiAffinity, ofNeighbours},
	{NetworkNotAvailable, 0},
	{VsockCIDTaken, temporary | ofNeighbours},
	{NameTaken, 0},
	{DiskPathTaken, 0},
	{InsufficientStorage, temporary},
	{OptionsNotSupported, 0},
}

// position returns the index of a reason in the list, len(knownReasons) if it isn't listed.
func position(reason string) int {
	for i, r := range knownReasons {
		if r.code == reason {
			return i
		}
	}
	return len(knownReasons)
}

// SortBlockers sorts blockers of one target by their reasons. A condition has the reason of the first that is certain.
func SortBlockers(blockers []Blocker) {
	slices.SortStableFunc(blockers, func(a, b Blocker) int { return cmp.Compare(position(a.Reason), position(b.Reason)) })
}

func hasTrait(b Blocker, trait reasonTrait) bool {
	i := position(b.Reason)
	return i < len(knownReasons) && knownReasons[i].traits&trait != 0
}

// IsTemporary says whether a blocker may be gone later without a change of the VM.
func IsTemporary(b Blocker) bool { return b.Temporary || hasTrait(b, temporary) }

// IsOfNeighbours says whether a blocker is about the other VMs of the target.
func IsOfNeighbours(b Blocker) bool { return hasTrait(b, ofNeighbours) }

// StorageBlockers returns the blockers that also block a migration that copies the disks. Such a migration ignores
// where the disks are and, as in KubeVirt, Secure Execution.
func StorageBlockers(blockers []Blocker) []Blocker {
	return slices.DeleteFunc(slices.Clone(blockers), func(b Blocker) bool { return hasTrait(b, ofStorage) })
}
