// Package records keeps data on the hosts of a fleet in addition to their VMs: locks, each host's record (cordon,
// policies, what a drain evicted), and the provider's metadata of a VM. It determines which policies apply to a VM.
//
// Start with lock.go (the lock of a VM or host), host_record.go (how a host's record is changed) and policies.go.
//
// An operation that changes a host or a VM first takes a lock here, and uses the context that comes with the lock. The
// package must not know what is done under a lock.
package records
