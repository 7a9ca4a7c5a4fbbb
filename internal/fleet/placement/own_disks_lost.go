package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A definition that goes back to what it was, as by "virsh snapshot-revert", loses the disks that were created since,
// and what is recorded of them. Their volumes stay, with the data.

// lostDisks returns the declared disks that the VM has lost. They count as disks that a run began to remove: whether
// the volume is still there is found out before it is attached.
func (d Desired) lostDisks(have map[string]domain.OwnDisk) map[string]domain.OwnDisk {
	found := map[string]domain.OwnDisk{}

	for key := range d.OwnDisks {
		_, handed := d.Handed[key]
		_, recorded := have[key]

		if o, lost := d.Lost[key]; lost && !recorded && !handed && !IsFirstBoot(key) {
			o.Removing = true
			found[key] = o
		}
	}

	return found
}

// LostOr returns the records of own disks with those of the declared disks that the VM has lost.
func (d Desired) LostOr(have map[string]domain.OwnDisk) map[string]domain.OwnDisk {
	lost := d.lostDisks(have)
	maps.Copy(lost, have)

	return lost
}

// WithLost returns the VM with the records of the declared disks that it has lost.
func (d Desired) WithLost(vm *inventory.VM) *inventory.VM {
	if len(d.lostDisks(vm.Metadata.OwnDisks)) == 0 {
		return vm
	}

	with := *vm
	with.Metadata.OwnDisks = d.LostOr(vm.Metadata.OwnDisks)

	return &with
}

// WithoutGone returns what is desired without what the VM has lost and whose volume is gone: such a disk is made like
// any new one. A plan knows what libvirt has read of the pools, an apply has libvirt read them again.
func (p *Scheduler) WithoutGone(ctx context.Context, vm *inventory.VM, d Desired) Desired {
	lost := maps.Clone(d.Lost)

	for key, o := range d.lostDisks(vm.Metadata.OwnDisks) {
		if at := vm.Peers[o.HostUUID]; at != "" && p.isGone(ctx, vm, at, o, d.Planned) {
			delete(lost, key)
		}
	}

	d.Lost = lost

	return d
}

// isGone reports whether a volume is known to be gone from the host where it was made.
func (p *Scheduler) isGone(ctx context.Context, vm *inventory.VM, at string, o domain.OwnDisk, planned bool) bool {
	s, ref := p.records.Storage(), storage.Ref{Pool: o.Pool, Name: o.Volume}
	if planned {
		gone, err := s.LooksGone(ctx, at, ref, o.Path, "")

		return err == nil && gone
	}

	if at == vm.Host && s.EnsureActive(ctx, at, o.Pool) != nil {
		return false // Whoever needs the pool reports it.
	}

	gone, err := s.IsGone(ctx, at, ref, o.Path, "")

	return err == nil && gone
}

// checkLost returns a problem for each disk that the VM has lost, and that is declared otherwise than it was created or
// can't be seen. vm has their records.
func (p *Scheduler) checkLost(ctx context.Context, vm *inventory.VM, d Desired) (problems []inventory.Problem) {
	for _, key := range slices.Sorted(maps.Keys(d.Lost)) {
		is, want := vm.Metadata.OwnDisks[key], d.OwnDisks[key]

		switch {
		case is.Path != d.Lost[key].Path || want.Pool == "":
		case is.Pool != want.Pool || is.Image != want.Image:
			problems = append(problems, inventory.Problem{
				Attribute: OwnDiskAttribute(key, "pool"), Summary: "Disk would be created again",
				Detail: fmt.Sprintf("Disk %q of VM %q was created in storage pool %q from image %q, and is declared in %q from "+
					"%q. The VM's definition has lost it, as after \"virsh snapshot-revert\", and its volume may still be there: "+
					"%s.", key, vm.Name, is.Pool, is.Image, want.Pool, want.Image, is.Path),
				Remedy: "To keep its data, declare the disk as it was. Declare another disk under another key.",
			})
		case is.Removing && vm.OwnsHere(is) && !vm.HasFile(is.Path) && p.isUnseen(ctx, vm, is):
			problems = append(problems, inventory.Problem{
				Attribute: OwnDiskAttribute(key, "pool"), Summary: "Disk is not what is declared",
				Detail: fmt.Sprintf("The definition of VM %q has lost disk %q, as after \"virsh snapshot-revert\". Storage pool "+
					"%q on host %q doesn't list its volume %s. The pool is empty, or its filesystem isn't mounted, so the data "+
					"may still exist.", vm.Name, key, is.Pool, vm.Host, is.Volume),
				Remedy: storage.MountFirst(is.Pool) + ". If the volume was deleted, declare the new disk under another key.",
			})
		}
	}

	return problems
}

// isUnseen reports whether a volume on the VM's host can't be seen, so that it is unknown whether it is gone.
func (p *Scheduler) isUnseen(ctx context.Context, vm *inventory.VM, o domain.OwnDisk) bool {
	ref := storage.Ref{Pool: o.Pool, Name: o.Volume}
	_, err := p.records.Storage().LooksGone(ctx, vm.Host, ref, o.Path, "")

	return errors.Is(err, storage.ErrUnseen)
}

// warnDisks returns warnings about disks that come back, stay or are deleted, as far as the rest of the plan doesn't
// show them, and about jobs on disks that the change ends. vm has the records of lost disks.
func (d Desired) warnDisks(ctx context.Context, vm *inventory.VM) []inventory.Problem {
	return slices.Concat(d.warnDroppedDisks(vm), warnGoneMedia(ctx, vm, d), d.warnLostDisks(vm),
		warnSnapshots(ctx, vm, d), d.warnUnusedVolumes(ctx, vm), warnOfJobs(ctx, vm, d.endsProcess(vm)))
}

// warnLostDisks warns about the disks that the VM has lost and that are attached again. Lost has none that are gone.
func (d Desired) warnLostDisks(vm *inventory.VM) []inventory.Problem {
	var lines, commands []string

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		o, lost := vm.Metadata.OwnDisks[key], d.Lost[key]
		if IsFirstBoot(key) || lost.Path == "" || o.Path != lost.Path || !vm.OwnsHere(o) {
			continue
		}

		lines = append(lines, fmt.Sprintf("\n  - disks.%s: %s", key, o.Path))
		commands = append(commands, fmt.Sprintf("\"virsh vol-delete --pool %s %s\"", o.Pool, o.Volume))
	}

	if len(lines) == 0 {
		return nil
	}

	return []inventory.Problem{{
		Attribute: "disks", Warning: true, Summary: "Disks are used again: " + vm.Name,
		Detail: fmt.Sprintf("The definition of VM %q on host %q has lost these disks, which were created with it, as after "+
			"\"virsh snapshot-revert\". They are attached again, with what is on them:%s", vm.Name, vm.Host,
			strings.Join(lines, "")),
		Remedy: "To have a new disk instead, declare it under another key. Then these commands delete the old volumes: " +
			strings.Join(commands, ", ") + ".",
	}}
}

// warnSnapshots warns if the change deletes files that snapshots of the VM may refer to: libvirt then can't revert to
// these snapshots.
func warnSnapshots(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	lines := ""

	deletes, _ := d.DropsOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		is := vm.Metadata.OwnDisks[key]
		want, declared := d.OwnDisk(key, is), d.OwnDisks[key].Pool != ""
		replaced := IsFirstBoot(key) && declared && !d.Incomplete && (want.Content != is.Content || want.Pool != is.Pool)

		if vm.HasFile(is.Path) && (replaced || slices.Contains(deletes, key)) {
			lines += fmt.Sprintf("\n  - %s: %s", OwnDiskTitle(key), is.Path)
		}
	}

	if lines == "" {
		return nil
	}

	names, err := vm.On.Conn.Snapshots(ctx, vm.UUID)
	if err != nil || len(names) == 0 {
		return nil
	}

	return []inventory.Problem{{
		Attribute: "disks", Warning: true, Summary: "Snapshots refer to what is deleted: " + vm.Name,
		Detail: fmt.Sprintf("VM %q on host %q has snapshots: %s. This change deletes these files, and \"virsh "+
			"snapshot-revert\" to a snapshot that was taken with them fails:%s", vm.Name, vm.Host, inventory.QuoteList(names),
			lines),
		Remedy: "To revert later, first copy these files, and put them back before the revert. Or first delete the " +
			"snapshots, with \"virsh snapshot-delete\", if nothing needs them.",
	}}
}

// withLost returns the VM with the records of the declared disks that it has lost and that may still be there.
func (p *Scheduler) withLost(ctx context.Context, d Desired, vm *inventory.VM) (Desired, *inventory.VM) {
	d = p.WithoutGone(ctx, vm, d)

	return d, d.WithLost(vm)
}
