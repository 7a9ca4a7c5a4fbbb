// Package records is what is kept on the hosts of a fleet in addition to their VMs: locks, each host's record (cordon,
// policies, what a drain took away), and our own metadata of a VM. It says which policies hold for a VM.
//
// It imports inventory (the hosts and what they said), lease (how a lock is held), hostrecord (what a record consists
// of), and evacuation, policy and migration, which say what policies mean. Whoever changes a host or a VM takes a lock
// here first, and uses the context that comes with it. It must not know what is done under a lock.
package records
