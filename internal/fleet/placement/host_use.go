package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// hostUse returns what a new VM uses of its host when it starts. A VM that stays off uses nothing yet.
func (d Desired) hostUse() domain.HostUse {
	if !status.StartsOnCreate(d.Strategy()) {
		return domain.HostUse{}
	}

	return d.Spec.HostUse().WithMetadata(d.Stamp())
}

// hostUseOn is hostUse without what the plan can't check, because the same apply changes it on the host.
func (d Desired) hostUseOn(host string) domain.HostUse {
	use := d.hostUse()
	use.Floors = d.unplanned(host, use.Floors)

	return use
}

// arrivingUse returns what a VM that comes to another host needs there in addition to memory. What runs may have more
// than its definition: an address that libvirt chose, a network's device, what was plugged in. starts is as for
// ReserveArrival.
func arrivingUse(vm *inventory.VM, starts bool) domain.HostUse {
	if starts {
		return vm.Entry.DefinedUse().WithMetadata(vm.Metadata)
	}

	return vm.Entry.HostUse()
}

// arrivingMemory returns how much memory such a VM needs there. A VM that stays off needs none.
func arrivingMemory(vm *inventory.VM, to *inventory.Host, starts bool) uint64 {
	switch {
	case starts:
		return to.StartedMemory(vm.Entry)
	case vm.Active:
		return to.CommittedMemory(vm.Entry)
	default:
		return 0
	}
}

// arrivalUse is arrivingUse with the devices that the host gives a VM that requests some by class. devices are then all
// its host devices, and refused those that the host can't provide.
func (p *Scheduler) arrivalUse(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, starts bool,
) (use domain.HostUse, devices map[string]domain.Row, refused []migration.Blocker) {
	use = arrivingUse(vm, starts)

	spec := vm.PersistentSpec
	if spec == nil || len(spec.DeviceClasses()) == 0 {
		return use, nil, nil
	}

	there, short := p.assignDevices(ctx, a, deviceRequest{spec: *spec, name: vm.Name, starts: !use.Empty()})
	if !use.Empty() {
		use = vm.Entry.Parse().Persistent.HostUse(there).WithMetadata(vm.Metadata)
	}

	return use, there.HostDevices, shortageBlockers(a.Host.Name, short,
		"Choose another host, or list devices of the class in its hosts.<name>.devices.")
}

// uses returns what the VMs other than the one of that name use of their host, by name.
func uses(residents []evacuation.Neighbour, but string) map[string]domain.HostUse {
	all := make(map[string]domain.HostUse)

	for _, n := range residents {
		if n.Name != but && takes(n.Use) {
			all[n.Name] = n.Use
		}
	}

	return all
}

// takes reports whether a VM takes something of its host, or of what the host's networks lend.
func takes(use domain.HostUse) bool { return !use.Empty() || len(use.Networks) > 0 }

// running removes the VMs that are defined on the host and don't run.
func running(a inventory.Reply, all map[string]domain.HostUse) {
	for _, e := range a.View.Domains {
		if !e.Active() {
			delete(all, e.Name)
		}
	}
}

// freePages returns how many bytes the others leave on the host, by the size of the huge pages. If nodes are given,
// only the pages of those NUMA nodes count, and only the VMs that are bound to them: where the memory of other VMs is
// isn't known.
func freePages(a inventory.Reply, nodes []int, others map[string]domain.HostUse) map[uint64]uint64 {
	left, parts := make(map[uint64]uint64), migration.HostTopology(a.Info)
	for size, pages := range parts.PagesOn(nodes) {
		left[size] = pages * size
	}

	for _, use := range others {
		if len(nodes) > 0 && !within(use.Nodes, nodes) {
			continue
		}

		for asked, bytes := range use.Pages {
			size := parts.PageSize(asked)
			left[size] -= min(left[size], bytes)
		}
	}

	return left
}

// within reports whether all memory of a VM that is bound to nodes is on the host's NUMA nodes all.
func within(nodes, all []int) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n int) bool { return !slices.Contains(all, n) })
}

// unusedPages returns how many bytes no program on the host uses now, by the size of the huge pages, on the NUMA nodes
// of the use. What the VM whose UUID is leaving has counts as unused. It returns nil if the VM needs no huge pages, or
// the host doesn't say.
func unusedPages(ctx context.Context, a inventory.Reply, use domain.HostUse, leaving string) map[uint64]uint64 {
	if len(use.Pages) == 0 {
		return nil
	}

	free, err := a.Host.Conn.NUMAFree(ctx, a.Info.Cells)
	if err != nil {
		return nil // QEMU then reports the lack of pages when the VM starts
	}

	unused := make(map[uint64]uint64)

	for i, cell := range a.Info.Cells {
		if len(use.Nodes) > 0 && !slices.Contains(use.Nodes, cell.ID) {
			continue
		}

		for size, pages := range free[i].Pages {
			unused[size] += pages * size
		}
	}

	if e := a.View.Domains[leaving]; e != nil && e.Active() {
		for asked, bytes := range e.HostUse().Pages {
			unused[migration.HostTopology(a.Info).PageSize(asked)] += bytes
		}
	}

	return unused
}

// leftPages is freePages minus what other programs use. unused are the host's unused huge pages, see unusedPages.
// elsewhere has the sizes of which other programs use some.
func leftPages(
	a inventory.Reply, nodes []int, others map[string]domain.HostUse, unused map[uint64]uint64,
) (left map[uint64]uint64, elsewhere map[uint64]bool) {
	left, elsewhere = freePages(a, nodes, others), make(map[uint64]bool)

	for size, bytes := range left {
		if now, known := unused[size]; known && now < bytes {
			left[size], elsewhere[size] = now, true
		}
	}

	return left, elsewhere
}

// anyHugePages returns a use of huge pages of every size that the host has.
func anyHugePages(a inventory.Reply) domain.HostUse {
	const ordinary = 1 << 20 // smaller pages are those of every program

	sizes := maps.Clone(migration.HostTopology(a.Info).PagesOn(nil))
	maps.DeleteFunc(sizes, func(size, pages uint64) bool { return size < ordinary || pages == 0 })

	return domain.HostUse{Pages: sizes}
}

// disputedCPUs returns to how many of the VM's CPUs other VMs on the host are pinned, too. The caller holds the
// reservations' mutex.
func (p *Scheduler) disputedCPUs(a inventory.Reply, d Desired) int {
	use := d.hostUse()
	if len(use.CPUs) == 0 {
		return 0
	}

	disputed := make(map[int]bool)

	for _, other := range uses(p.residents(a, d.Replaces), d.Spec.Name) {
		for _, cpu := range use.SharedCPUs(other) {
			disputed[cpu] = true
		}
	}

	return len(disputed)
}

// shortages returns what a VM would need of the host that the others have.
func shortages(a inventory.Reply, use domain.HostUse, others map[string]domain.HostUse, has offer) []shortage {
	var found []shortage

	for _, part := range use.Parts() {
		for _, name := range slices.Sorted(maps.Keys(others)) {
			if given := has.givenTo(others[name], part); given != "" {
				reason := migration.HostResourcesTaken
				if part.Kind == domain.VsockAddress {
					reason = migration.VsockCIDTaken
				}

				found = append(found, shortage{Problem: domain.Problem{
					Path: use.Alone[part], Message: fmt.Sprintf("has given %s to VM %q", given, name),
				}, reason: reason})
			}
		}
	}

	found = append(found, has.missingDevices(use, others)...)
	found = append(found, has.missingBandwidth(use, others)...)

	for _, name := range slices.Sorted(maps.Keys(others)) {
		if cpus := use.DisputedCPUs(others[name]); cpus != "" {
			found = append(found, shortage{Problem: domain.Problem{Path: "cpu.pin", Message: fmt.Sprintf(
				"has VM %q pinned to CPU %s, too, and placement.dedicated_cpus of one of the two VMs rules that out", name, cpus,
			)}, reason: migration.HostResourcesTaken})
		}
	}

	return append(found, missingPages(a, use, others, has.pages)...)
}

// missingPages returns the sizes of the huge pages of which too few are left.
func missingPages(
	a inventory.Reply, use domain.HostUse, others map[string]domain.HostUse, unused map[uint64]uint64,
) []shortage {
	var found []shortage

	all := freePages(a, use.Nodes, nil)
	left, elsewhere := leftPages(a, use.Nodes, others, unused)

	for _, asked := range slices.Sorted(maps.Keys(use.Pages)) {
		size := migration.HostTopology(a.Info).PageSize(asked)
		where := domain.FormatSize(size) + domain.OnNodes(use.Nodes)

		if elsewhere[size] {
			where += " (other programs use some)"
		}
		// Another check reports a host that doesn't have that many pages at all.
		if need := use.Pages[asked]; need <= all[size] && left[size] < need {
			message := fmt.Sprintf("has %s left of its %s in pages of %s, and the VM needs %s",
				domain.FormatSize(left[size]), domain.FormatSize(all[size]), where, domain.FormatSize(need))
			found = append(found, shortage{
				Problem: domain.Problem{Path: use.PagesPath(asked), Message: message}, reason: migration.HostResourcesTaken,
			})
		}
	}

	return found
}

// taken returns what the VM of that name needs of the host and other VMs have: those that run there, that the host
// starts at boot, or that are on their way, or huge pages that other programs use. The VM whose UUID is leaving doesn't
// count.
func (cy *Capacity) taken(
	ctx context.Context, a inventory.Reply, name string, use domain.HostUse, leaving string,
) []shortage {
	has := offerTo(ctx, a, use, leaving)
	if has.idle(use) {
		return nil
	}

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	return shortages(a, use, uses(cy.residents(a, leaving), name), has)
}

// fitsHostUse checks that the host has what the VM of that name needs of it in addition to memory, and that no other VM
// uses it. The VM whose UUID is leaving doesn't count.
func (p *Scheduler) fitsHostUse(
	ctx context.Context, a inventory.Reply, name string, use domain.HostUse, leaving string,
) []inventory.Problem {
	if use.Empty() && len(use.Networks)+len(use.Floors) == 0 {
		return nil
	}

	short := missingDevices(ctx, a.Host, use, true)
	short = append(short, p.takenSlots(ctx, a, name, use, leaving)...)

	return shortageProblems(append(short, p.taken(ctx, a, name, use, leaving)...))
}

// fitsChangedUse is fitsHostUse for what a change adds to a VM that runs on the host.
func (p *Scheduler) fitsChangedUse(
	ctx context.Context, on *inventory.Host, vm *inventory.VM, d Desired,
) []inventory.Problem {
	want := d.Spec.WithPagesOf(vm.DeclaredSpec().Values)
	more := want.HostUse().WithMetadata(d.Stamp()).Without(vm.Entry.HostUse())
	if on != vm.On || !vm.Active || !d.runsOn(vm) || more.Empty() && len(more.Networks)+len(more.Floors) == 0 {
		return nil
	}

	a, err := p.hosts.ReplyOf(ctx, on)
	if err != nil {
		return nil // libvirt then reports what is taken
	}

	more.Floors = d.unplanned(on.Name, more.Floors)

	return p.fitsHostUse(ctx, a, vm.Name, more, vm.UUID)
}

// takenBlockers returns the blockers for what other VMs have, for a VM that is moved to the host or started there. VMs
// that are off and that the host starts at boot don't block a VM that is on the host already. The caller holds the
// reservations' mutex.
func (cy *Capacity) takenBlockers(a inventory.Reply, name string, r reservation) []migration.Blocker {
	if r.has.idle(r.use) {
		return nil
	}

	others := uses(cy.residents(a, r.uuid), name)
	if r.uuid != "" {
		running(a, others)

		for other, starts := range cy.reservations.byHost[a.Host.Name] {
			if other != name && takes(starts.use) {
				others[other] = starts.use // It will run.
			}
		}
	}

	return shortageBlockers(a.Host.Name, shortages(a, r.use, others, r.has), "")
}
