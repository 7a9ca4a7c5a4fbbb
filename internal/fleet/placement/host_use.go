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

// hostUse is what a new VM takes of its host when it is started. One that stays off takes nothing yet.
func (d Desired) hostUse() domain.HostUse {
	if !status.StartsOnCreate(d.Strategy()) {
		return domain.HostUse{}
	}

	return d.Spec.HostUse().Recorded(d.Stamp())
}

// arrivalUse is what a VM takes of a host that it comes to. One that takes memory there runs there. devices are all its
// host devices if it asks for some by class, and refused those that the host can't give.
func (p *Planner) arrivalUse(
	ctx context.Context, a inventory.Reply, vm *inventory.VM, bytes uint64,
) (use domain.HostUse, devices map[string]domain.Row, refused []migration.Blocker) {
	use = vm.Entry.HostUse()

	spec := vm.PersistentSpec
	if spec == nil {
		return use, nil, nil
	}

	if bytes > 0 && !vm.Active {
		use = spec.HostUse().Recorded(vm.Metadata)
	}

	if len(spec.DeviceClasses()) == 0 {
		return use, nil, nil
	}

	there, short := p.assignDevices(ctx, a, deviceRequest{spec: *spec, name: vm.Name, starts: !use.Empty()})
	if !use.Empty() {
		use = there.HostUse().Recorded(vm.Metadata)
	}

	return use, there.HostDevices, shortageBlockers(a.Host, short)
}

// uses are what the VMs other than the one of that name have of their host, by name.
func uses(residents []evacuation.Neighbour, but string) map[string]domain.HostUse {
	all := make(map[string]domain.HostUse)

	for _, n := range residents {
		if n.Name != but && !n.Use.Empty() {
			all[n.Name] = n.Use
		}
	}

	return all
}

// running leaves only the VMs that run on the host, or are on their way there.
func running(a inventory.Reply, all map[string]domain.HostUse) {
	for _, e := range a.View.Domains {
		if !e.Active() {
			delete(all, e.Name)
		}
	}
}

// freePages are the bytes that are left on the host by the size of the huge pages that they consist of.
func freePages(a inventory.Reply, others map[string]domain.HostUse) map[uint64]uint64 {
	left, parts := make(map[uint64]uint64), migration.HostParts(a.Info)
	for size, pages := range parts.Pages {
		left[size] = pages * size
	}

	for _, use := range others {
		for asked, bytes := range use.Pages {
			size := parts.PageSize(asked)
			left[size] -= min(left[size], bytes)
		}
	}

	return left
}

// disputedCPUs is how many of the CPUs that the VM is pinned to others on the host are pinned to, too. The
// reservations' mutex must be held.
func (p *Planner) disputedCPUs(a inventory.Reply, d Desired) int {
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

// shortage is something of a host that a VM needs and that other VMs have.
type shortage struct {
	domain.Problem

	// reason is that of the blocker of a move.
	reason string
}

// missing lists what a VM would need of the host that the others have.
func missing(a inventory.Reply, use domain.HostUse, others map[string]domain.HostUse) []shortage {
	var found []shortage

	for _, part := range use.Parts() {
		for _, name := range slices.Sorted(maps.Keys(others)) {
			if others[name].Alone[part] != "" {
				reason := migration.HostResourcesTaken
				if part.Kind == domain.VsockAddress {
					reason = migration.VsockCIDTaken
				}

				found = append(found, shortage{domain.Problem{
					Path: use.Alone[part], Message: fmt.Sprintf("has given %s to VM %q", part, name),
				}, reason})
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(others)) {
		if cpus := use.DisputedCPUs(others[name]); cpus != "" {
			found = append(found, shortage{domain.Problem{Path: "cpu.pin", Message: fmt.Sprintf(
				"has VM %q pinned to CPU %s, too, and placement.dedicated_cpus of one of the two VMs rules that out", name, cpus,
			)}, migration.HostResourcesTaken})
		}
	}

	all, left := freePages(a, nil), freePages(a, others)
	for _, asked := range slices.Sorted(maps.Keys(use.Pages)) {
		size := migration.HostParts(a.Info).PageSize(asked)
		// That a host hasn't as many pages at all is said elsewhere.
		if need := use.Pages[asked]; need <= all[size] && left[size] < need {
			message := fmt.Sprintf("has %s left of its %s in pages of %s, and the VM needs %s", domain.FormatSize(left[size]),
				domain.FormatSize(all[size]), domain.FormatSize(size), domain.FormatSize(need))
			found = append(found, shortage{
				domain.Problem{Path: "memory.huge_pages", Message: message}, migration.HostResourcesTaken,
			})
		}
	}

	return found
}

// taken says what the VM of that name needs of the host and other VMs have: those that run there, that are started with
// the host, or that are on their way. The one with the UUID leaves.
func (cy *Capacity) taken(a inventory.Reply, name string, use domain.HostUse, leaving string) []inventory.Problem {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	var found []domain.Problem
	for _, s := range missing(a, use, uses(cy.residents(a, leaving), name)) {
		found = append(found, s.Problem)
	}

	return hostProblems(found)
}

// hostProblems say of a host what keeps it from taking a VM.
func hostProblems(found []domain.Problem) []inventory.Problem {
	problems := make([]inventory.Problem, len(found))
	for i, m := range found {
		problems[i] = inventory.Problem{Attribute: m.Path, Detail: "it " + m.Message}
	}

	return problems
}

// fitsHostUse checks that the host has what the VM of that name needs of it in addition to memory, and that no other VM
// has it. The one with the UUID leaves.
func (p *Planner) fitsHostUse(
	ctx context.Context, a inventory.Reply, name string, use domain.HostUse, leaving string,
) []inventory.Problem {
	if use.Empty() {
		return nil
	}

	found := append(lackedDevices(ctx, a.Host, use), p.takenSlots(ctx, a, name, use, leaving)...)

	return append(hostProblems(found), p.taken(a, name, use, leaving)...)
}

// fitsChangedUse is fitsHostUse for what a change adds to a VM that runs on the host.
func (p *Planner) fitsChangedUse(
	ctx context.Context, on *inventory.Host, vm *inventory.VM, d Desired,
) []inventory.Problem {
	more := d.Spec.HostUse().Recorded(d.Stamp()).Without(vm.Entry.HostUse())
	if on != vm.On || !vm.Active || !d.runsOn(vm) || more.Empty() {
		return nil
	}

	a, err := p.hosts.ReplyOf(ctx, on)
	if err != nil {
		return nil // What is taken is then for libvirt to say.
	}

	return p.fitsHostUse(ctx, a, vm.Name, more, vm.UUID)
}

// takenBlockers are blockers for what taken says, of a VM that comes, or is started. A VM that the host has may run
// while the others that the host starts are off. The reservations' mutex must be held.
func (cy *Capacity) takenBlockers(a inventory.Reply, name string, r reservation) []migration.Blocker {
	if r.use.Empty() {
		return nil
	}

	others := uses(cy.residents(a, r.uuid), name)
	if r.uuid != "" {
		running(a, others)
	}

	var blockers []migration.Blocker

	for _, s := range missing(a, r.use, others) {
		blockers = append(blockers, migration.Blocker{
			Reason: s.reason, Status: status.False, Attribute: s.Path,
			Message: fmt.Sprintf("host %q %s", a.Host.Name, s.Message), Remedy: takenRemedy,
		})
	}

	return blockers
}

const takenRemedy = "Choose another host, or stop or move the other VM before."
