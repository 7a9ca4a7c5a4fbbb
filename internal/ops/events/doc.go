// Package events prints events of the VMs of a fleet as they happen, a line for each event, with libvirt's names.
//
// A host that doesn't answer, or whose connection is lost, is reported and retried. A slow reader misses events, and is
// told how many; it never blocks the hosts' events.
//
// It may import fleet and libvirt. It must not know how hosts are reached.
package events
