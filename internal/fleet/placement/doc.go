// Package placement decides where a VM fits: which host a new VM gets, what prevents a host from accepting a VM, which
// room is reserved for VMs that are on their way, and what prevents a plan from working there. It cordons hosts, and
// checks whether a VM may be started or moved.
//
// Start with place.go and candidate.go: the host of a new VM. check.go has what a plan checks, reservations.go what is
// reserved on a host, and claims.go which VMs may not run at the same time. start_permit.go has what a start requires.
//
// It imports inventory (the hosts and what they reported), records (locks and cordons), domain, evacuation and
// migration (whose blockers it returns), libvirt and storage. It changes no VM, and must not know the packages that
// reserve room, nor what they do with it.
package placement
