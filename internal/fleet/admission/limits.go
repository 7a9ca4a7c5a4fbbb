package admission

import (
	"cmp"
	"fmt"
)

// Priorities of moves, as KubeVirt has them: the higher goes first.
const (
	// PriorityUser is a move that a user asked for by name.
	PriorityUser = 50
	// PriorityMaintenance is a move that makes room on a host.
	PriorityMaintenance = 20
)

// Limits says how many VMs may be on their way at a time. What other runs, or people, move live counts as far as it is
// seen on the hosts: of two runs that begin in the same moment neither sees the other.
type Limits struct {
	// PerFleet is how many in all, OutboundPerHost how many away from one host, InboundPerHost how many to one. 0 is the
	// default.
	PerFleet, OutboundPerHost, InboundPerHost int
}

// The first two are KubeVirt's, which has no limit for what arrives.
const (
	DefaultPerFleet        = 5
	DefaultOutboundPerHost = 2
	DefaultInboundPerHost  = 2
)

// String says the limits with the names that a configuration has for them.
func (l Limits) String() string {
	return fmt.Sprintf("per_fleet = %d, outbound_per_host = %d, inbound_per_host = %d", l.PerFleet, l.OutboundPerHost,
		l.InboundPerHost)
}

func (l Limits) withDefaults() Limits {
	return Limits{
		PerFleet:        cmp.Or(l.PerFleet, DefaultPerFleet),
		OutboundPerHost: cmp.Or(l.OutboundPerHost, DefaultOutboundPerHost),
		InboundPerHost:  cmp.Or(l.InboundPerHost, DefaultInboundPerHost),
	}
}

// Route is the way of a VM.
type Route struct{ From, To string }

// traffic is how many VMs are on their way: in all, away from each host, and to each.
type traffic struct {
	total             int
	outbound, inbound map[string]int
}

func newTraffic() traffic {
	return traffic{outbound: make(map[string]int), inbound: make(map[string]int)}
}

func (t *traffic) add(from, to string, n int) {
	t.total += n
	t.outbound[from] += n
	t.inbound[to] += n
}

// allows says that one more may move between the hosts, on top of what others move.
func (l Limits) allows(from, to string, ours, others traffic) bool {
	return ours.total+others.total < l.PerFleet &&
		ours.outbound[from]+others.outbound[from] < l.OutboundPerHost &&
		ours.inbound[to]+others.inbound[to] < l.InboundPerHost
}
