// Package inventory is the hosts of a fleet and what they say: which VMs there are, where each of them is, and how it
// stands. It only reads.
//
// There are two ways of reading. A plan reads the snapshot: every host asked once, in bulk, and shared by all who
// read at
// that time. Whatever changes a VM asks all hosts again first, for that VM alone (FindNow).
//
// It imports domain (what a definition says), libvirt (one host), hostrecord (what is kept on a host), and location and
// status, which decide from what was read. It must not know who changes what it read, nor the locks that this requires;
// what was written is put into the snapshot by its writer (Host.Remember).
package inventory
