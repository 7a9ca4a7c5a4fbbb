package meta

import (
	"maps"
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
func (p *Planned) Plan(kind, name string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = fleet.PlannedObjects{}
	}
	p.hosts[fleet.HostObject{Kind: kind, Name: name}] = hosts
}

// Hosts are where an object will be, and whether that was planned.
func (p *Planned) Hosts(kind, name string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hosts, ok := p.hosts[fleet.HostObject{Kind: kind, Name: name}]
	return hosts, ok
}

// All are the hosts of all objects.
func (p *Planned) All() fleet.PlannedObjects {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.hosts)
}
