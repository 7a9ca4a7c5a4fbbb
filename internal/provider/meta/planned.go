package meta

import (
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Planned are the objects on hosts, such as storage pools, that were planned since the provider was configured, with
// their hosts. A resource that refers to such an object is planned after it, and so learns which hosts don't have the
// object yet.
type Planned struct {
	mu    sync.Mutex
	hosts fleet.PlannedObjects
}

// Plan records where an object will be. kind is one of the fleet's kinds.
func (p *Planned) Plan(kind, name string, hosts []string) { p.PlanAt(kind, name, "", hosts) }

// PlanAt is Plan for a storage pool that will have its volumes in a directory.
func (p *Planned) PlanAt(kind, name, directory string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = fleet.PlannedObjects{}
	}
	o := fleet.HostObject{Kind: kind, Name: name}
	all := maps.Clone(p.hosts[o]) // Several resources may have one name, on different hosts.
	if all == nil {
		all = fleet.PlannedHosts{}
	}
	for _, host := range hosts {
		all[host] = directory
	}
	p.hosts[o] = all
}

// Hosts returns where an object will be, and whether that was planned.
func (p *Planned) Hosts(kind, name string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, ok := p.hosts[fleet.HostObject{Kind: kind, Name: name}]
	return slices.Sorted(maps.Keys(o)), ok
}

// All returns the hosts of all objects.
func (p *Planned) All() fleet.PlannedObjects {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.hosts)
}
