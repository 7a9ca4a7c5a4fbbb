package placement

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// reservations are the VMs for which a host was chosen and which the host does not have yet, so that VMs that are
// placed meanwhile count them.
type reservations struct {
	mu     sync.Mutex
	byHost map[string]map[string]reservation // host, then VM name
	// expected are the VMs for which a host was chosen and which have nothing reserved there yet; by host, then by VM
	// name. They count only in the choice of the best host: no VM is refused because of them.
	expected map[string]map[string]reservation
	// planned are the VMs that checked plans start, by name. They count only in warnings of other plans.
	planned map[string]plannedStart
	// plannedOn are those of them that don't run, by the host that they will have or are likely to have.
	plannedOn map[string]map[string]plannedStart
	// roomWarnings counts the new VMs for which no host may be left.
	roomWarnings atomic.Int32
	// placing are the locks that this run has on hosts' room, by host. joining is held, by host, by the operation that
	// takes such a lock.
	placing map[string]*placingLock
	joining admission.Mutexes
	// files are the files that are on their way to a host, and their sizes there; by host, then by VM name.
	files map[string]map[string]migration.TransferSize
	// filing is held, by host, while room for files and new disks is checked, choosing while devices are chosen by class.
	filing, choosing admission.Mutexes
}

type reservation struct {
	// uuid is the VM's UUID if the VM is on that host: what it has there is part of the reservation.
	uuid string
	// bytes are what the VM may use of the host's memory.
	bytes uint64
	// labels are the VM's own, avoids are the labels of VMs that it must not share the host with.
	labels, avoids map[string]string
	// use is what the VM needs in addition to memory, has what the host has of that.
	use domain.HostUse
	has offer
	// defined is what the VM is defined with, and uses only once it is started.
	defined domain.HostUse
	// pools is what the VM's new disks need, by storage pool.
	pools map[string]storage.Demand
	// growth is what the VM's new disks may grow to, by storage pool. It counts only in the choice of the best host.
	growth map[string]uint64
}

// reservationFor returns the reservation for a VM with that metadata.
func reservationFor(m domain.Metadata, bytes uint64, use domain.HostUse) reservation {
	return reservation{bytes: bytes, labels: m.Labels, avoids: m.Avoids, use: use}
}

// addReservation reserves what a VM needs. If the host can't accept the VM now, it reserves nothing and returns the
// blockers.
func (cy *Capacity) addReservation(
	ctx context.Context, h *inventory.Host, name string, r reservation,
) (refused []migration.Blocker, err error) {
	for {
		a, err := cy.hosts.ReplyOf(ctx, h)
		if err != nil {
			return nil, err
		}

		r.has = offerTo(ctx, a, r.use, r.uuid)
		if refused, current := cy.addIfCurrent(a, name, r); current {
			return refused, nil
		}

		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// addIfCurrent reserves based on the host's reply. If the reply is out of date, it reserves nothing: a reservation may
// have become a VM since, and then neither the reservation nor the VM would count.
func (cy *Capacity) addIfCurrent(
	a inventory.Reply, name string, r reservation,
) (refused []migration.Blocker, current bool) {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	if !a.Host.IsLatest(a.View) {
		return nil, false
	}

	if refused = cy.reservationBlockers(a, name, r); len(refused) > 0 {
		return refused, true
	}

	if cy.reservations.byHost == nil {
		cy.reservations.byHost = make(map[string]map[string]reservation)
	}

	if cy.reservations.byHost[a.Host.Name] == nil {
		cy.reservations.byHost[a.Host.Name] = make(map[string]reservation)
	}

	cy.reservations.byHost[a.Host.Name][name] = r

	return nil, true
}

// noteChoice records that a host was chosen for a VM, until endChoice is called. The caller holds the reservations'
// mutex.
func (cy *Capacity) noteChoice(h *inventory.Host, name string, r reservation) {
	if cy.reservations.expected == nil {
		cy.reservations.expected = make(map[string]map[string]reservation)
	}

	if cy.reservations.expected[h.Name] == nil {
		cy.reservations.expected[h.Name] = make(map[string]reservation)
	}

	cy.reservations.expected[h.Name][name] = r

	if s, ok := cy.reservations.planned[name]; ok && s.host == "" {
		s.likely = h.Name
		cy.reservations.plan(name, s)
	}
}

// endChoice removes what noteChoice recorded: the VM has its reservation on the host, or doesn't come.
func (cy *Capacity) endChoice(h *inventory.Host, name string) {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	delete(cy.reservations.expected[h.Name], name)
}

// expectedMemory returns how much memory the VMs for which the host was chosen will need, without the VM of that name.
// The caller holds the reservations' mutex.
func (cy *Capacity) expectedMemory(h *inventory.Host, name string) (sum uint64) {
	for other, r := range cy.reservations.expected[h.Name] {
		if _, reserved := cy.reservations.byHost[h.Name][other]; other != name && !reserved {
			sum += r.bytes
		}
	}

	return sum
}

// expectsConflict reports whether the host was chosen for a VM that me must not share a host with. The caller holds the
// reservations' mutex.
func (cy *Capacity) expectsConflict(h *inventory.Host, me evacuation.Neighbour) bool {
	for name, r := range cy.reservations.expected[h.Name] {
		if me.Excludes(evacuation.Neighbour{Name: name, Labels: r.labels, Avoids: r.avoids}) {
			return true
		}
	}

	return false
}

// releaseReservation removes what addReservation reserved.
func (cy *Capacity) releaseReservation(h *inventory.Host, name string) {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	delete(cy.reservations.byHost[h.Name], name)
}

// reservationBlockers returns what prevents the host from running the VM of that name in addition to the VMs that it
// has and those that are on their way there. The caller holds the reservations' mutex.
func (cy *Capacity) reservationBlockers(a inventory.Reply, name string, r reservation) []migration.Blocker {
	var blockers []migration.Blocker

	if free := cy.free(a, r.uuid); free < r.bytes {
		blockers = append(blockers, migration.Blocker{
			Reason: migration.InsufficientMemory, Status: status.False, Attribute: "memory.size",
			Message: fmt.Sprintf("the VM needs %s of memory there, including QEMU's own, and of the %s that host %q "+
				"may commit %s are free", domain.FormatSize(r.bytes), domain.FormatSize(a.MemoryLimit()), a.Host.Name,
				domain.FormatSize(free)),
			Remedy: "Stop or move other VMs, or raise the host's memory_limit.",
		})
	}

	blockers = append(blockers, cy.takenBlockers(a, name, r)...)

	me := evacuation.Neighbour{Name: name, Labels: r.labels, Avoids: r.avoids}
	if other := cy.conflict(a, me, r.uuid); other != "" {
		blockers = append(blockers, migration.Blocker{
			Reason: migration.AntiAffinity, Status: status.False, Attribute: "placement.anti_affinity",
			Message: fmt.Sprintf("host %q has VM %q, which must not share a host with it", a.Host.Name, other),
			Remedy: "Choose another host, or move that VM away before. Or first remove the required anti-affinity, as a " +
				"change of its own.",
		})
	}

	return blockers
}

// free returns how many bytes may still be committed on the host once the VM whose UUID is leaving is gone. The caller
// holds the reservations' mutex.
func (cy *Capacity) free(a inventory.Reply, leaving string) uint64 {
	limit := a.MemoryLimit()

	return limit - min(limit, a.Committed(leaving)+cy.reserved(a))
}

// reserved returns how many bytes of the host's memory are reserved in addition to what its VMs use. A VM that has just
// come may have both: what it uses is subtracted from its reservation. The caller holds the reservations' mutex.
func (cy *Capacity) reserved(a inventory.Reply) uint64 {
	byName := cy.reservations.byHost[a.Host.Name]
	if len(byName) == 0 {
		return 0
	}

	var sum uint64
	for _, r := range byName {
		sum += r.bytes
	}

	for _, e := range a.View.Domains {
		if r, ok := byName[e.Name]; ok {
			sum -= min(r.bytes, a.Host.CommittedMemory(e))
		}
	}

	return sum
}

// residents returns the VMs on the host, and those on their way there, without the VM whose UUID is leaving. The caller
// holds the reservations' mutex.
func (cy *Capacity) residents(a inventory.Reply, leaving string) []evacuation.Neighbour {
	var all []evacuation.Neighbour

	for _, e := range a.View.Domains {
		parsed := e.Parse()
		if parsed.Err != nil || parsed.Definition() == nil || e.UUID == leaving || cy.leftBehind(a.Host, e) {
			continue
		}

		m := e.OwnMetadata()
		all = append(all, evacuation.Neighbour{Name: e.Name, Labels: m.Labels, Avoids: m.Avoids, Use: e.HostUse()})
	}

	for name, r := range cy.reservations.byHost[a.Host.Name] {
		all = append(all, evacuation.Neighbour{Name: name, Labels: r.labels, Avoids: r.avoids, Use: r.use})
	}

	return all
}

// leftBehind reports whether a domain is a stale definition that its VM left on the host, as far as is known without a
// query.
func (cy *Capacity) leftBehind(on *inventory.Host, e *inventory.Entry) bool {
	if e.Active() {
		return false
	}

	if (inventory.Reply{Host: on, Domain: e}).MigratedAway() {
		return true
	}

	return slices.ContainsFunc(cy.hosts.Configured, func(h *inventory.Host) bool { return h != on && h.HasActive(e.UUID) })
}

// conflict returns a VM on the host, or on its way there, that must not share the host with me, whichever of the two
// excludes the other; "" for none. The VM whose UUID is leaving doesn't count. The caller holds the reservations'
// mutex.
func (cy *Capacity) conflict(a inventory.Reply, me evacuation.Neighbour, leaving string) string {
	found := ""
	if len(me.Labels) == 0 && len(me.Avoids) == 0 {
		return found // no VM excludes it
	}

	for _, other := range cy.residents(a, leaving) {
		if me.Excludes(other) && (found == "" || other.Name < found) {
			found = other.Name
		}
	}

	return found
}

// CapacityOf returns what a host has room for.
func (cy *Capacity) CapacityOf(ctx context.Context, a inventory.Reply) evacuation.Host {
	unused := unusedPages(ctx, a, anyHugePages(a), "")

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	residents := cy.residents(a, "")
	pages, _ := leftPages(a, nil, uses(residents, ""), unused)

	return evacuation.Host{
		Name: a.Host.Name, Free: cy.free(a, ""), Pages: pages, VMs: residents,
		DefaultPage: migration.HostTopology(a.Info).PageSize(domain.DefaultPages),
		Devices:     freeDevices(a.Host, uses(residents, "")),
	}
}

// FreeMemory returns how many bytes may still be committed on the host once the VM whose UUID is leaving is gone.
func (cy *Capacity) FreeMemory(a inventory.Reply, leaving string) uint64 {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	return cy.free(a, leaving)
}

// CapacityBlockers returns what prevents the host from running the VM in addition to the VMs that it has and those that
// are on their way there. DeviceBlockers checks the devices that the VM requests by class. starts is as for
// ReserveArrival.
func (cy *Capacity) CapacityBlockers(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, starts bool,
) []migration.Blocker {
	r := reservationFor(vm.Metadata, arrivingMemory(vm, a.Host, starts), arrivingUse(vm, starts).OnOtherHost())
	r.has = offerTo(ctx, a, r.use, "")

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	return cy.reservationBlockers(a, vm.Name, r)
}
