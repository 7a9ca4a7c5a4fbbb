package meta

import (
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// Planned are the objects on hosts, such as storage pools, that were planned since the provider was configured: where
// each will be. What is planned after one, because it refers to it, learns of hosts that don't have it yet.
type Planned struct {
	mu    sync.Mutex
	hosts fleet.PlannedObjects
}

// Plan notes where an object will be. Its kind is one of fleet's.
func (p *Planned) Plan(kind, name string, hosts []string) { p.PlanAt(kind, name, "", hosts) }

// PlanAt is Plan for a storage pool that will have its volumes in a directory.
func (p *Planned) PlanAt(kind, name, directory string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = fleet.PlannedObjects{}
	}
	o := fleet.HostObject{Kind: kind, Name: name}
	all := maps.Clone(p.hosts[o]) // Several resources may have one name, on hosts of their own.
	if all == nil {
		all = fleet.PlannedHosts{}
	}
	for _, host := range hosts {
		all[host] = directory
	}
	p.hosts[o] = all
}

// Hosts are where an object will be, and whether that was planned.
func (p *Planned) Hosts(kind, name string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o, ok := p.hosts[fleet.HostObject{Kind: kind, Name: name}]
	return slices.Sorted(maps.Keys(o)), ok
}

// All are the hosts of all objects.
func (p *Planned) All() fleet.PlannedObjects {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.hosts)
}
