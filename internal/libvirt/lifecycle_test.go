package libvirt

import (
	"testing"

	golibvirt "libvirt.org/go/libvirt"
)

// What is to stay is never among what goes, whichever flags the host's libvirt knows.
func TestUndefineFlags_keep(t *testing.T) {
	t.Parallel()
	const variables, tpm = golibvirt.DOMAIN_UNDEFINE_NVRAM, golibvirt.DOMAIN_UNDEFINE_TPM
	const saved, snapshots = golibvirt.DOMAIN_UNDEFINE_MANAGED_SAVE, golibvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
	const checkpoints = golibvirt.DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
	const keepVariables, keepTPM = golibvirt.DOMAIN_UNDEFINE_KEEP_NVRAM, golibvirt.DOMAIN_UNDEFINE_KEEP_TPM
	for name, tt := range map[string]struct {
		keep      []Kept
		has, not  golibvirt.DomainUndefineFlagsValues
		variables golibvirt.DomainUndefineFlagsValues // which all have
	}{
		"nothing":   {nil, variables | tpm | saved | snapshots | checkpoints, keepVariables | keepTPM, 0},
		"variables": {[]Kept{KeepNVRAM}, keepVariables | tpm, variables | keepTPM, keepVariables},
		"both":      {[]Kept{KeepNVRAM, KeepTPM}, keepVariables | keepTPM, variables | tpm, keepVariables},
		"save":      {[]Kept{KeepManagedSave}, variables | tpm | snapshots | checkpoints, saved, variables},
		"snapshots": {[]Kept{KeepSnapshots}, variables | tpm | saved | checkpoints, snapshots, variables},
		"checkpoints": {
			[]Kept{KeepCheckpoints}, variables | tpm | saved | snapshots, checkpoints, variables | saved | snapshots,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := undefineFlags(tt.keep)
			if all[0]&tt.has != tt.has {
				t.Errorf("first %b, want %b", all[0], tt.has)
			}
			for _, flags := range all {
				if flags&tt.not != 0 || flags&tt.variables != tt.variables {
					t.Errorf("flags %b, want %b and nothing of %b", flags, tt.variables, tt.not)
				}
			}
		})
	}
}
