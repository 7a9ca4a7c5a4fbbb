package meta

import "sync"

// PlannedPools are the storage pools that were planned since the provider was configured: where each will be. What is
// planned after a pool, because it refers to it, learns of hosts that don't have it yet.
type PlannedPools struct {
	mu    sync.Mutex
	hosts map[string][]string
}

// Plan notes where a pool will be.
func (p *PlannedPools) Plan(name string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = map[string][]string{}
	}
	p.hosts[name] = hosts
}

// Hosts are where a pool will be, and whether that was planned.
func (p *PlannedPools) Hosts(name string) ([]string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hosts, ok := p.hosts[name]
	return hosts, ok
}
