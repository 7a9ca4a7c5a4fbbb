// Package placement decides where a VM fits: on which host a new one goes, what keeps a host from having one, which
// room is kept for those that are on their way, and what keeps a plan from working there. It cordons hosts, and is
// asked before a VM is started or moved.
//
// It imports inventory (the hosts and what they said), records (locks and cordons), domain, evacuation and migration
// (whose blockers it names), libvirt and storage. It changes no VM, and must not know who asks for room, nor what is
// done with it.
package placement
