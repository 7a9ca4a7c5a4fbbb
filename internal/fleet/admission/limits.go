package admission

import (
	"cmp"
	"fmt"
)

// Priorities of moves, as in KubeVirt: moves with a higher priority start first.
const (
	// PriorityUser is the priority of a move that a user requested.
	PriorityUser = 50
	// PriorityMaintenance is the priority of a move that drains a host.
	PriorityMaintenance = 20
)

// Limits are limits for the number of VMs that are moved at the same time. Live moves by other runs or users count if
// they are visible on the hosts: if two runs begin at the same moment, neither sees the other.
type Limits struct {
	// PerFleet is the limit in total, OutboundPerHost the limit for moves from one host, and InboundPerHost for moves to
	// one host. 0 is the default.
	PerFleet, OutboundPerHost, InboundPerHost int
}

// The first two defaults are KubeVirt's. KubeVirt has no limit for inbound moves.
const (
	DefaultPerFleet        = 5
	DefaultOutboundPerHost = 2
	DefaultInboundPerHost  = 2
)

// String returns the limits with their names in the configuration.
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

// Route is the source and the target of a VM's move.
type Route struct{ From, To string }

// traffic is how many VMs are being moved: in total, from each host, and to each host.
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

// allows reports whether one more VM may move between the hosts, in addition to this run's and others' moves.
func (l Limits) allows(from, to string, ours, others traffic) bool {
	return ours.total+others.total < l.PerFleet &&
		ours.outbound[from]+others.outbound[from] < l.OutboundPerHost &&
		ours.inbound[to]+others.inbound[to] < l.InboundPerHost
}
