package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

const ownedSummary = "Disk belongs to another virtual machine"

// planDisks records the disks that a VM has after a change that doesn't start it, for the checks of VMs that are
// planned later. It returns warnings about new disks that are also disks of other VMs.
func (p *Scheduler) planDisks(
	ctx context.Context, h *inventory.Host, vm *inventory.VM, d Desired,
) []inventory.Problem {
	if d.starts(vm) {
		return nil
	}

	have, runs := vm.Entry.DiskUses(), d.runsOn(vm)
	s := plannedStart{host: h.Name, runs: runs, off: !runs, disks: d.keptUses(have)}
	s.uuid = vm.UUID

	return p.planAdded(ctx, inventory.Reply{Host: h}, h, d, vm.Name, s, d.newUses(have))
}

// planAdded is planStart for a VM that gets the added disks in addition to those of the start. h is the host where it
// starts, runs or is off, or the first one that can have it, nil for none.
func (p *Scheduler) planAdded(
	ctx context.Context, on inventory.Reply, h *inventory.Host, d Desired, name string, s plannedStart,
	added []domain.DiskUse,
) []inventory.Problem {
	var owned []inventory.Problem

	if h != nil {
		added = p.onHost(ctx, h, d, added)
	}

	if h != nil && !s.off {
		owned = p.warnOfOwners(ctx, h, s.uuid, d, added)
	}

	s.disks, s.added = slices.Concat(s.disks, added), added
	together := p.planStart(ctx, on, name, s)

	if len(owned) > 0 { // The VM that has the disk may be one of those that are planned.
		together = slices.DeleteFunc(together, func(p inventory.Problem) bool { return p.Attribute == "disks" })
	}

	return append(owned, together...)
}

// onHost returns the uses with each volume's id replaced by the volume's source on the host, if the host has the
// volume.
func (p *Scheduler) onHost(
	ctx context.Context, h *inventory.Host, d Desired, uses []domain.DiskUse,
) []domain.DiskUse {
	for i, use := range uses {
		if use.NVDIMM || storage.ParseRef(d.Volumes[use.Key]) == nil || use.Source.File != d.Volumes[use.Key] {
			continue // Its source is known.
		}

		v, err := p.volume(ctx, h, d, d.Volumes[use.Key])
		if err != nil {
			continue
		}

		if source, why, err := SourceOf(ctx, h, v); err == nil && why == "" {
			uses[i].Source = source
		}
	}

	return uses
}

// warnOfOwners warns about each volume, declared by its id, that is a disk of another VM which runs, or which its host
// starts at boot. added are the disks that the VM gets on the host. This is no error, because the same change may take
// the volume from that VM. Other disks of such VMs are refused: see rivals.
func (p *Scheduler) warnOfOwners(
	ctx context.Context, h *inventory.Host, uuid string, d Desired, added []domain.DiskUse,
) (problems []inventory.Problem) {
	for _, disk := range added {
		if storage.ParseRef(d.Volumes[disk.Key]) == nil || disk.NVDIMM {
			continue
		}

		answers, err := p.hosts.Snapshot(ctx)
		if err != nil {
			return nil // What depends on it is reported elsewhere.
		}

		for _, a := range answers {
			if a.View == nil || a.Err != nil {
				continue
			}

			for _, e := range a.View.Having(disk) {
				other, shared := disk.SharedWith(e.DiskUses(), h == a.Host)
				if e.UUID == uuid || !claims(e) || !shared {
					continue
				}

				problems = append(problems, inventory.Problem{
					Attribute: "disks." + disk.Key + ".volume", Summary: ownedSummary, Warning: true,
					Detail: fmt.Sprintf("%s of VM %q (volume %s) is %s of VM %q on host %q, which %s: two VMs that write to one "+
						"disk destroy what is on it", disk.Text(), d.Spec.Name, d.Volumes[disk.Key], other.Text(), e.Name,
						a.Host.Name, claimReason(e)),
					Remedy: fmt.Sprintf("Take the disk from VM %q first.", e.Name), Next: inventory.InOrder,
				})
			}
		}
	}

	return problems
}
