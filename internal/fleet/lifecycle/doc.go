// Package lifecycle creates, changes, starts, stops, waits for and deletes VMs, each under its lock, with the disks
// that the VM owns. It does each step only if something differs, so that the next run completes what an interrupted run
// left.
//
// Start with create.go, update.go, power.go and delete.go, which have an operation each. own_disk.go is about the disks
// that the VM owns. Most tests require the lab, and are in internal/fleet and internal/provider/virtualmachine.
//
// It imports inventory (where the VM is), records (locks, metadata, what a drain evicted), placement (capacity for a
// VM), move (what an interrupted move left), observe (what Wait reads of a VM), domain and firstboot (what is defined),
// and storage. It must not know Terraform, nor drains: a drain calls it.
package lifecycle
