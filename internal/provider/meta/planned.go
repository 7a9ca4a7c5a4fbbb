package meta

import (
	"maps"
	"sync"
)

// Planned are the objects of one kind, such as storage pools, that were planned since the provider was configured:
// where each will be. What is planned after one, because it refers to it, learns of hosts that don't have it yet.
type Planned struct {
	mu    sync.Mutex
	hosts map[string][]string
}

// Plan notes where an object will be.
func (p *Planned) Plan(name string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = map[string][]string{}
	}
	p.hosts[name] = hosts
}

// Hosts are where an object will be, and whether that was planned.
func (p *Planned) Hosts(name string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hosts, ok := p.hosts[name]
	return hosts, ok
}

// All are the hosts of all objects, by their names.
func (p *Planned) All() map[string][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.hosts)
}
