package meta

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
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
	// changes are those of existing pools that leave their volumes, by host, then by name.
	changes map[string]map[string]PoolChange
	// volumes are the ids of volumes and images. replaced are those of existing images in whose place others are made.
	volumes, replaced map[string]bool
	// leaving are the hosts from which a storage pool is removed, by its name and the hosts that it is planned on: several
	// resources may have one name. arriving are the hosts that get a pool, by its name.
	leaving  map[string]map[string][]string
	arriving map[string][]string
	// replacedPools are the names of pools in whose place others are made, under other names.
	replacedPools map[string]bool
	// somewhere are the names of the pools whose hosts aren't known yet.
	somewhere map[string]bool
	// rewritten are the ids of the secrets whose values are written to the hosts again.
	rewritten map[string]bool
}

// PlannedNetwork is what is planned of a network.
type PlannedNetwork struct {
	Active bool
	// HostsChange says that the network is created on a host or removed from one, or that this isn't known yet.
	HostsChange bool
	// Addresses are the host's addresses on the network; nil if they aren't known yet.
	Addresses []netip.Prefix
	// Declared is what the configuration declares, as far as reservations depend on that.
	Declared network.Spec
	// Bridge is the bridge of the configuration that libvirt is to create for it; "" if there is none or it isn't known.
	Bridge string
	// HostBridge is the bridge of the host that it is connected to; "" if there is none or it isn't known.
	HostBridge string
	// PortGroups are the port groups that it declares, see status.PortGroupOf; nil if it declares none.
	PortGroups []string
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

// PlanPoolHosts records how a storage pool's hosts change: to the planned ones, some of which get it, from others that
// it leaves. A pool that is replaced leaves none: the apply, which plans it as a new one, doesn't know them.
func (p *Planned) PlanPoolHosts(name string, planned, arriving, leaving []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving == nil {
		p.leaving, p.arriving = map[string]map[string][]string{}, map[string][]string{}
	}
	if p.leaving[name] == nil {
		p.leaving[name] = map[string][]string{}
	}
	p.leaving[name][strings.Join(planned, " ")] = leaving
	p.arriving[name] = append(p.arriving[name], arriving...)
}

// WithPool returns those of the hosts, which have a storage pool now, from which it isn't removed, and those that get
// it.
func (p *Planned) WithPool(name string, hosts []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leaving := range p.leaving[name] {
		hosts = slices.DeleteFunc(hosts, func(host string) bool { return slices.Contains(leaving, host) })
	}
	return append(hosts, p.arriving[name]...)
}

// PlanPoolReplaced records that another pool, of another name, is made in the place of one.
func (p *Planned) PlanPoolReplaced(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replacedPools == nil {
		p.replacedPools = map[string]bool{}
	}
	p.replacedPools[name] = true
}

// PoolLeaves reports whether a resource that was planned removes its pool of that name from the host.
func (p *Planned) PoolLeaves(host, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leaving := range p.leaving[name] {
		if slices.Contains(leaving, host) {
			return true
		}
	}
	return p.replacedPools[name]
}

// PoolChange is a change of a host's storage pool that leaves the pool's volumes behind.
type PoolChange struct {
	// From is the pool's present directory, To the planned one; both are "" if the directory stays.
	From, To string
	// OtherStorage is what makes the pool one of other storage, see Pool.OtherStorage; "" if nothing does.
	OtherStorage string
}

// OtherStorageRemedy returns what to do instead of making a pool one of other storage.
func OtherStorageRemedy(pool string) string {
	return fmt.Sprintf("Keep the value, or create another pool. If the new value is another name of the same storage, "+
		"shut down the VMs that use the pool, then set it on each host with \"virsh pool-edit %[1]s\", \"virsh pool-destroy "+
		"%[1]s\" and \"virsh pool-start %[1]s\". Then plan again.", pool)
}

// PlanPoolChange records that a host's pool will leave its volumes. A pool that is replaced is planned again, as a new
// one.
func (p *Planned) PlanPoolChange(host, name string, c PoolChange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = planOn(p.changes, name, c, []string{host})
}

// PoolChange returns how a host's pool leaves its volumes. The value is empty if it doesn't.
func (p *Planned) PoolChange(host, name string) PoolChange {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes[host][name]
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

// PlanSecretValue records the id of a secret that the hosts have, and whose value is written again.
func (p *Planned) PlanSecretValue(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rewritten == nil {
		p.rewritten = map[string]bool{}
	}
	p.rewritten[id] = true
}

// SecretValue reports whether the value of the secret is planned to be written again.
func (p *Planned) SecretValue(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rewritten[id]
}

// PlanVolume records the id of a volume or an image.
func (p *Planned) PlanVolume(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.volumes == nil {
		p.volumes = map[string]bool{}
	}
	p.volumes[id] = true
}

// PlanImageReplaced records the id of an existing image in whose place another one is made, under another id.
func (p *Planned) PlanImageReplaced(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replaced == nil {
		p.replaced = map[string]bool{}
	}
	p.replaced[id] = true
}

// ImageReplaced reports whether another image is made in the place of that one.
func (p *Planned) ImageReplaced(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replaced[id]
}

// MayHaveVolume reports whether a resource of the configuration is the volume or image of that id, or moves its pool to
// where it may be.
func (p *Planned) MayHaveVolume(ref storage.Ref) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, changes := range p.changes {
		if _, changed := changes[ref.Pool]; changed {
			return true
		}
	}
	return p.volumes[ref.String()]
}

// Pool returns the storage pool that a host will have, and whether that was planned.
func (p *Planned) Pool(host, name string) (pool storage.Pool, planned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool, planned = p.pools[host][name]
	return pool, planned
}

// Pools returns the storage pools that a host will have, as far as they were planned, by name.
func (p *Planned) Pools(host string) map[string]storage.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.pools[host])
}

// PlanNetwork records a network that hosts will have. VMs can be connected to it if it is active.
func (p *Planned) PlanNetwork(name string, n PlannedNetwork, hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.networks = planOn(p.networks, name, n, hosts)
	for _, group := range n.PortGroups {
		o := status.PortGroupOf(name, group)
		p.planAt(o.Kind, o.Name, "", hosts)
	}
	if n.Active {
		p.planAt(status.Network, name, n.HostBridge, hosts)
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

// planAt records where an object will be, and the value of PlannedHosts. p.mu is locked.
func (p *Planned) planAt(kind, name, is string, hosts []string) {
	if p.hosts == nil {
		p.hosts = fleet.PlannedObjects{}
	}
	o := fleet.HostObject{Kind: kind, Name: name}
	all := maps.Clone(p.hosts[o]) // Several resources may have one name, on different hosts.
	if all == nil {
		all = fleet.PlannedHosts{}
	}
	for _, host := range hosts {
		all[host] = is
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
