// Package observe says how VMs and hosts are, for people and for what they plot: the facts of one VM from all layers
// that can tell, statistics of all VMs in one pass over each host, what a host has, addresses. What could not be asked
// comes with the reason. It only reads, and waits for no guest longer than one question takes.
//
// It imports inventory (the hosts and what they said), records (which policies hold), move (what would
// block a move), guest and stats, and status, which makes conditions of the facts. It must not know who asks. It takes
// no lock.
package observe
