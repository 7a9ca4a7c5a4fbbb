package meta

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Planned are the objects on hosts, such as storage pools, that were planned since the provider was configured, with
// their hosts. A resource that refers to such an object is planned after it, and so learns which hosts don't have the
// object yet.
type Planned struct {
	mu    sync.Mutex
	hosts fleet.PlannedObjects
	// pools and networks are by host, then by name.
	pools    map[string]map[string]storage.Pool
	networks map[string]map[string]PlannedNetwork
	// others are what makes pools ones of other storage, by host, then by name.
	others map[string]map[string]string
	// somewhere are the names of the pools whose hosts aren't known yet.
	somewhere map[string]bool
}

// PlannedNetwork is what is planned of a network.
type PlannedNetwork struct {
	Active bool
	// Addresses are the host's addresses on the network; nil if they aren't known yet.
	Addresses []netip.Prefix
}

// Plan records where an object will be. kind is one of the fleet's kinds.
func (p *Planned) Plan(kind, name string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planAt(kind, name, "", hosts)
}

// PlanPool is Plan for a storage pool.
func (p *Planned) PlanPool(pool storage.Pool, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pools = planOn(p.pools, pool.Name, pool, hosts)
	p.planAt(status.StoragePool, pool.Name, pool.Directory(), hosts)
}

// PlanOtherStorage records that a pool will be one of other storage on its hosts, and by what: see Pool.OtherStorage. A
// pool that is replaced is planned again, as a new one.
func (p *Planned) PlanOtherStorage(name, change string, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others = planOn(p.others, name, change, hosts)
}

// OtherStorage returns what makes a pool of a host one of other storage; "" if nothing does.
func (p *Planned) OtherStorage(host, name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others[host][name]
}

// PlanPoolSomewhere records a storage pool whose hosts aren't known yet.
func (p *Planned) PlanPoolSomewhere(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.somewhere == nil {
		p.somewhere = map[string]bool{}
	}
	p.somewhere[name] = true
}

// HasPool reports whether a storage pool of that name was planned, on whichever hosts.
func (p *Planned) HasPool(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, planned := p.hosts[fleet.HostObject{Kind: status.StoragePool, Name: name}]
	return planned || p.somewhere[name]
}

// Pool returns the storage pool that a host will have, and whether that was planned.
func (p *Planned) Pool(host, name string) (pool storage.Pool, planned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool, planned = p.pools[host][name]
	return pool, planned
}

// PlanNetwork records a network that hosts will have. VMs can be connected to it if it is active.
func (p *Planned) PlanNetwork(name string, n PlannedNetwork, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.networks = planOn(p.networks, name, n, hosts)
	if n.Active {
		p.planAt(status.Network, name, "", hosts)
	}
}

// Networks returns the networks that a host will have, by name.
func (p *Planned) Networks(host string) map[string]PlannedNetwork {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.networks[host])
}

// planOn records a value for a name on hosts, and returns all.
func planOn[T any](all map[string]map[string]T, name string, v T, hosts []string) map[string]map[string]T {
	if all == nil {
		all = map[string]map[string]T{}
	}
	for _, host := range hosts {
		if all[host] == nil {
			all[host] = map[string]T{}
		}
		all[host][name] = v
	}
	return all
}

// planAt records where an object will be, and a storage pool's directory. p.mu is locked.
func (p *Planned) planAt(kind, name, directory string, hosts []string) {
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
