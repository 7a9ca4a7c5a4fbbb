package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

const (
	startSummary  = "Virtual machine can't be started now"
	changeSummary = "Host can't take the change"
	placeSummary  = "No host can take the VM"
)

// plannedStart is a VM that was checked in this run and will be started, or moved while it runs. Of one that stays off,
// only the disks that it gets count.
type plannedStart struct {
	// host is where it starts or goes, with the reservation; "" if that isn't decided yet. likely is a host that can take
	// it together with the others, if that isn't decided.
	host, likely string
	// runs says that the VM runs, and stays where it is: only its disks count.
	runs bool
	// off says that the VM doesn't run afterwards.
	off bool
	reservation
	disks []domain.DiskUse
	// added are those of the disks that the VM gets.
	added []domain.DiskUse
}

// apart reports whether the VM must not share a host with some others, whether it runs or not.
func (s plannedStart) apart() bool { return len(s.labels)+len(s.avoids) > 0 }

// disksOf returns the disks of both that count for each other. A VM that stays off may share a disk that it has with
// one that is started, as a spare. But if both are given the disk at the same time, that may be a mistake.
func (s plannedStart) disksOf(o plannedStart) (mine, theirs []domain.DiskUse) {
	if s.off || o.off {
		return s.added, o.added
	}

	return s.disks, o.disks
}

// planCreate is planStart for a new VM. own is the UUID of the VM that it replaces or completes, or
// "". The host is decided if only one candidate is left.
func (p *Scheduler) planCreate(
	ctx context.Context, d Desired, own string, candidates []candidate,
) []inventory.Problem {
	fit := slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return len(c.problems) > 0 })
	start := plannedStart{off: !status.StartsOnCreate(d.Strategy())}
	start.uuid = own

	var on inventory.Reply
	if len(fit) == 1 {
		on, start.host = fit[0].Reply, fit[0].Host.Name
		start.reservation = fit[0].reservationOf(d, start)
	}

	var somewhere *inventory.Host
	if len(fit) > 0 {
		somewhere = fit[0].Host
	}

	problems := p.planAdded(ctx, on, somewhere, d, d.Spec.Name, start, d.newUses(nil))
	if len(fit) > 1 {
		problems = append(problems, p.planSomewhere(ctx, d, start, fit)...)
	}

	return problems
}

// reservationOf returns what a new VM needs of the host. One that stays off needs no memory once it is created.
func (c *candidate) reservationOf(d Desired, start plannedStart) reservation {
	memory := d.memoryOn(c.Host)
	if start.off {
		memory = 0
	}

	r := reservationFor(d.Stamp(), memory, c.wish.hostUseOn(c.Host.Name))
	r.uuid = start.uuid

	return r
}

// planUpdate is planStart for a VM that is off.
func (p *Scheduler) planUpdate(
	ctx context.Context, on inventory.Reply, vm *inventory.VM, d Desired,
) []inventory.Problem {
	have := vm.Entry.DiskUses()
	start := plannedStart{disks: d.keptUses(have)}
	start.uuid = vm.UUID

	if pinned := d.Metadata.Host; pinned == "" || p.hosts.Host(pinned) == vm.On {
		start.host, start.reservation = vm.Host, startReservation(vm)
	}

	return p.planAdded(ctx, on, on.Host, d, vm.Name, start, d.newUses(have))
}

// keptUses returns the disks that a VM has and that the configuration leaves to it. A disk counts as left to it as long
// as its source, or the one of its key, is unknown; so does an NVDIMM.
func (d Desired) keptUses(have []domain.DiskUse) []domain.DiskUse {
	if d.Spec.Disks == nil || d.Incomplete {
		return have
	}

	stays := func(u domain.DiskUse) bool {
		if u.NVDIMM || d.Handed[u.Key] != "" {
			return true
		}

		for key, disk := range d.Spec.Disks {
			source := d.sourceOf(key)
			unknown := source.Name() == "" || d.Volumes[key] != "" && !strings.HasPrefix(d.Volumes[key], "/")
			_, own := d.OwnDisks[key]
			below := func(b domain.DiskSource) bool { return domain.SameDisk(b, source, true) }

			switch {
			case domain.SameDisk(source, u.Source, true), slices.ContainsFunc(u.Backing, below):
				return true
			case key == u.Key && disk.Device != "cdrom" && (unknown || own):
				return true
			}
		}

		return false
	}

	return slices.DeleteFunc(slices.Clone(have), func(u domain.DiskUse) bool { return !stays(u) })
}

// sourceOf returns the source of a declared disk, as far as it is known before the volume is looked up. If its path
// isn't known, the id of a volume stands for it; a disk that is created with the VM has no source then.
func (d Desired) sourceOf(key string) domain.DiskSource {
	volume, source := d.Volumes[key], d.Spec.Disks[key].Source
	if strings.HasPrefix(volume, "/") || source.File == domain.UnknownFile {
		return domain.DiskSource{File: volume}
	}

	return source
}

// PlanArrival records that a running VM will be moved to the host. It returns warnings about what the VM can't have
// there together with the other VMs that the plan starts there or moves there.
func (cy *Capacity) PlanArrival(ctx context.Context, to inventory.Reply, vm *inventory.VM) []inventory.Problem {
	s := plannedStart{host: to.Host.Name}
	s.reservation = reservationFor(vm.Metadata, arrivingMemory(vm, to.Host, false), arrivingUse(vm, false).OnOtherHost())
	s.uuid = vm.UUID

	problems := cy.planStart(ctx, to, vm.Name, s)
	for i := range problems {
		problems[i].Attribute, problems[i].Summary = "host", "Virtual machine can't be moved now"
	}

	return problems
}

// planStart records that the VM of that name will be started, or which disks it gets. It returns warnings about what it
// can't have together with the other VMs for which that is recorded. Each of them could have it alone.
func (cy *Capacity) planStart(
	ctx context.Context, on inventory.Reply, name string, s plannedStart,
) (problems []inventory.Problem) {
	others := cy.recordStart(name, s)

	for _, other := range slices.Sorted(maps.Keys(others)) {
		o := others[other]

		mine, all := s.disksOf(o)
		for _, disk := range mine {
			oneHost := s.host != "" && s.host == o.host || isID(disk.Source)
			if theirs, shared := disk.SharedWith(all, oneHost); shared {
				problems = append(problems, diskOfBoth(name, disk, s, other, theirs, o))
			}
		}
	}

	maps.DeleteFunc(others, func(_ string, o plannedStart) bool {
		return s.host == "" || o.host != s.host || o.runs
	})

	if len(others) == 0 || s.runs || s.off && !s.apart() {
		return problems
	}

	s.has = offerTo(ctx, on, s.use, s.uuid)
	with := inventory.QuoteList(slices.Sorted(maps.Keys(others)))

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	for _, b := range cy.blockersTogether(on, name, s.reservation, others) {
		summary, comes := startSummary, "which will be started or moved there, too"
		if b.Reason == migration.AntiAffinity { // This holds for VMs that stay off, too.
			summary, comes = placeSummary, "which will be there, too"
		}

		problems = append(problems, inventory.Problem{
			Attribute: b.Attribute, Summary: summary, Warning: true,
			Detail: fmt.Sprintf("together with %s, %s: %s", with, comes, b.Message),
			Remedy: b.Remedy,
		})
	}

	return problems
}

// diskOfBoth returns the warning that a VM and another one, both planned so, will have one disk.
func diskOfBoth(
	vm string, disk domain.DiskUse, s plannedStart, other string, theirs domain.DiskUse, o plannedStart,
) inventory.Problem {
	p := inventory.Problem{
		Attribute: "disks", Summary: startSummary, Warning: true,
		Detail: fmt.Sprintf("%s of VM %q (%s) is also %s of VM %q, or in one backing chain with it, and ", disk.Text(), vm,
			disk.Source.Name(), theirs.Text(), other),
		Remedy: "Find out whose disk it is, and start only one of the VMs.",
	}

	if s.runs || o.runs || s.off || o.off {
		p.Summary, p.Remedy = ownedSummary, "Find out whose disk it is, and give the other VM another one."
	}

	switch {
	case s.off || o.off:
		p.Detail += "that VM gets it at the same time"
		p.Remedy += " If both are to have it, run only one of them at a time, or set shareable."
	case o.runs:
		p.Detail += "that VM is to have it, too"
	default:
		p.Detail += "that VM will be started, too"
	}

	p.Detail += ": two VMs that write to one disk destroy what is on it"

	return p
}

// isID reports whether the id of a volume stands for the source of a disk. One id is one volume, on whichever host.
func isID(s domain.DiskSource) bool { return s.File != "" && !strings.HasPrefix(s.File, "/") }

// recordStart records a start, and returns those of the other VMs. A VM that is renamed or replaced starts only under
// its new name.
func (cy *Capacity) recordStart(name string, s plannedStart) (others map[string]plannedStart) {
	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	for other, o := range cy.reservations.planned {
		if s.uuid != "" && o.uuid == s.uuid {
			cy.reservations.unplan(other)
		}
	}

	cy.reservations.plan(name, s)
	others = maps.Clone(cy.reservations.planned)
	delete(others, name)

	return others
}

// blockersTogether returns what blocks the VM of that name only because the others are planned on the host, too. The
// caller holds the reservations' mutex.
func (cy *Capacity) blockersTogether(
	on inventory.Reply, name string, r reservation, others map[string]plannedStart,
) []migration.Blocker {
	if len(others) == 0 || len(cy.reservationBlockers(on, name, r)) > 0 {
		return nil // It is reported without the others.
	}

	all := make(map[string]reservation, len(others))
	for other, o := range others {
		all[other] = o.reservation
	}

	maps.Copy(all, cy.reservations.byHost[on.Host.Name])

	together := &Capacity{hosts: cy.hosts, records: cy.records}
	together.reservations.byHost = map[string]map[string]reservation{on.Host.Name: all}

	return together.reservationBlockers(on, name, r)
}
