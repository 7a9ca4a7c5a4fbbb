// Package inventory holds the hosts of a fleet and what they reported: which VMs exist, where each VM is, and its
// state. It only reads.
//
// Start with snapshot.go (a Reply is what one host said), locate.go (where a VM is) and vm.go (a VM that was found).
//
// There are two ways of reading. A plan reads the snapshot: every host is queried once, in bulk, and all readers at
// that time share the replies. An operation that changes a VM first queries all hosts again, for that VM alone
// (FindNow).
//
// It imports domain (what a definition says), libvirt (one host), hostset, hostrecord, admission, and the types and
// decisions of evacuation, location, migration and status. It must not know the packages that change what it read, nor
// the locks that a change requires: a writer puts the result into the snapshot (Host.Remember).
package inventory
