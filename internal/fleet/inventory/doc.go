// Package inventory is the hosts of a fleet and what they say: which VMs there are, where each of them is, and how it
// stands. It only reads.
//
// There are two ways of reading. A plan reads the snapshot: every host is asked once, in bulk, and all who read at that
// time share the answers. What changes a VM asks all hosts again first, for that VM alone (FindNow).
//
// It imports domain (what a definition says), libvirt (one host), hostset, hostrecord, admission, and evacuation,
// location, migration and status, whose types and decisions it uses. It must not know who changes what it read, nor the
// locks that this requires: who writes puts the result into the snapshot (Host.Remember).
package inventory
