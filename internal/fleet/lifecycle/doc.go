// Package lifecycle creates, changes, starts, stops, awaits and deletes VMs, each under its lock, with the disks that
// the VM owns. It does each step only where something differs, so that the next run completes what an interrupted one
// left.
//
// It imports inventory (where the VM is), records (locks, metadata, what a drain took away), placement (capacity for a
// VM), move (what an interrupted move left), observe (what is awaited of a VM), domain and firstboot (what is defined),
// and storage. It must not know Terraform, nor drains: a drain calls it.
package lifecycle
