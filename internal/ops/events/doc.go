// Package events prints what happens to the VMs of a fleet while it happens, a line for each event, in libvirt's words.
//
// A host that doesn't answer, or is lost, is tried again and told of. Whoever reads slowly misses events, and is told
// how many; hosts never wait.
//
// It may import fleet and libvirt. It must not know how hosts are reached.
package events
