package domain

import "slices"

// The parts of a VM, in addition to its definition and its disks, that are deleted with it or kept.
const (
	PartNVRAM       = "nvram"
	PartTPMState    = "tpm_state"
	PartManagedSave = "managed_save"
	PartSnapshots   = "snapshots"
	PartCheckpoints = "checkpoints"
)

// Keeps reports whether a part of the VM must not be deleted with it.
func (m Metadata) Keeps(part string) bool { return slices.Contains(m.Kept, part) }
