package domain

import "path"

// TPMStateDir is where libvirt's system daemon keeps the state of emulated TPMs, each in a directory named by the VM's
// UUID.
const TPMStateDir = "/var/lib/libvirt/swtpm"

// TPMState returns the directory with the state of a VM's emulated TPM.
func TPMState(uuid string) string { return path.Join(TPMStateDir, uuid) }
