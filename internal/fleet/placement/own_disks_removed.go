package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// CheckRemovable returns an error if one of a VM's own disks can't be removed, because a host that shares its storage
// pool doesn't answer and may use it. It changes nothing.
func (p *Scheduler) CheckRemovable(ctx context.Context, vm *inventory.VM, keys []string) error {
	asked := map[string]bool{}

	for _, key := range keys {
		o := vm.Metadata.OwnDisks[key]
		if asked[o.Pool] || !vm.OwnsHere(o) {
			continue
		}

		asked[o.Pool] = true

		silent, err := p.records.Storage().SilentUserHosts(ctx, vm.On.Name, o.Pool)
		if err != nil {
			return err
		}

		for _, host := range slices.Sorted(maps.Keys(silent)) {
			return &inventory.Error{
				VM: vm.Name, Host: host, Err: silent[host],
				Detail: fmt.Sprintf("%s, volume %q of storage pool %q, is to be removed, and host %q, which shares the pool, "+
					"can't be asked whether it uses the volume; nothing was changed", OwnDiskTitle(key), o.Volume, o.Pool, host),
				Remedy: strings.TrimSpace("Bring the host back. Or make sure that it is off, then set its fenced = true. " +
					KeepRemedy(key)),
			}
		}
	}

	return nil
}

// CheckDeclaredAgain returns a problem for each disk that is declared again after a run was to delete it or the VM's
// definition has lost it, and that is on another host, which the VM has left: here it would be a new disk. It also
// returns a problem for each lost disk that is declared otherwise than it was created, or can't be seen.
func (p *Scheduler) CheckDeclaredAgain(
	ctx context.Context, vm *inventory.VM, d Desired,
) (problems []inventory.Problem, err error) {
	problems = p.checkLost(ctx, vm, d)

	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		o := vm.Metadata.OwnDisks[key]
		_, defined := vm.DeclaredSpec().Disks[key]

		if IsFirstBoot(key) || !o.Removing || o.Creating || defined || vm.OwnsHere(o) {
			continue
		}

		at := vm.AsLeft(o).Host
		if d.Planned && d.Metadata.Host != "" && d.Metadata.Host == at {
			continue // The same change moves the VM there first.
		}

		// What is in a pool that hosts share is here, too.
		users, err := p.records.Storage().UserHosts(ctx, vm.Host, o.Pool)
		if err != nil {
			return nil, err
		}

		if len(users) > 1 {
			continue
		}

		before, unless := "A run that was to delete disk %[1]q of VM %[2]q was interrupted", "that run deleted it"
		if d.Lost[key].Path == o.Path {
			before, unless = "The definition of VM %[2]q has lost disk %[1]q", "a user deleted it"
		}

		problems = append(problems, inventory.Problem{
			Attribute: "disks." + key, Summary: "Disk is not what is declared",
			Detail: fmt.Sprintf(before+", and the VM has moved to host %[3]q since. Unless "+unless+", the disk is on host "+
				"%[4]q: volume %[5]s/%[6]s.", key, vm.Name, vm.Host, at, o.Pool, o.Volume),
			Remedy: fmt.Sprintf("To keep its data, move the VM to host %q, in the same change. Otherwise first declare "+
				"the VM without the disk, which deletes it. Then declare it again.", at),
		})
	}

	return problems, nil
}

// KeepRemedy says how a disk is kept that can't be removed, "" for a first-boot medium.
func KeepRemedy(key string) string {
	if IsFirstBoot(key) {
		return ""
	}

	return fmt.Sprintf("To keep the disk instead, first set disks.%s.on_destroy = \"keep\", as a change of its own.", key)
}

// DropsOwnDisks returns the keys of the disks that were created with the VM and are no longer declared. The change
// deletes those whose deletion a plan has announced, and keeps all others: a disk that a user has detached from the VM,
// and one on which a snapshot has put an overlay. Disks with on_destroy = "keep" are in neither.
func (d Desired) DropsOwnDisks(vm *inventory.VM) (deletes, keeps []string) {
	own := OwnDisks(vm)
	attached := maps.Clone(own)
	maps.DeleteFunc(attached, func(key string, _ domain.OwnDisk) bool { return !hasDisk(vm, key) })
	stillCalled := d.OwnDisksUnder(attached, vm.DeclaredSpec().Disks)

	for _, key := range slices.Sorted(maps.Keys(own)) {
		o := own[key]
		_, stays := d.OwnDisks[key]

		if _, is := attached[key]; is && !stays {
			_, same := stillCalled[key]
			stays = !same // under another key
		}

		handed := slices.ContainsFunc(slices.Collect(maps.Values(d.Spec.Disks)), func(disk domain.Disk) bool {
			return disk.Source.VolumePath() == o.Path
		})

		switch {
		case !d.Declares(key) && !vm.Abandoned(key) || stays || handed || o.Kept():
		case IsFirstBoot(key), o.Creating, o.Removing, slices.Contains(d.Removes, key) && usesOwnDisk(vm, key, o):
			deletes = append(deletes, key)
		default:
			keeps = append(keeps, key)
		}
	}

	return deletes, keeps
}

// hasDisk reports whether the VM has a disk with the key, now or at its next start.
func hasDisk(vm *inventory.VM, key string) bool {
	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec != nil {
			if _, there := spec.Disks[key]; there {
				return true
			}
		}
	}

	return false
}

// usesOwnDisk reports whether the VM uses an own disk directly, now and at its next start. After an external snapshot,
// it has an overlay instead, whose base the disk may be.
func usesOwnDisk(vm *inventory.VM, key string, o domain.OwnDisk) bool {
	for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
		if spec == nil {
			continue
		}

		if disk, there := spec.Disks[key]; there && disk.Source.VolumePath() != o.Path {
			return false
		}
	}

	return vm.HasFile(o.Path)
}

// KeptOwnDisk says of a disk that is no longer declared, and that isn't deleted, where it is and how to delete it.
func KeptOwnDisk(vm *inventory.VM, key string) string {
	o := vm.Metadata.OwnDisks[key]
	why := "the VM doesn't use it any more"

	if now := vm.DeclaredSpec().Disks[key].Source; now.String() != "" && now.VolumePath() != o.Path {
		why = fmt.Sprintf("the VM has used %s instead, which may be based on it and isn't deleted either", now)
	}

	at := o.Path
	if !vm.OwnsHere(o) { // The VM moved after a user had detached the disk.
		at += " on the host where it was made"
	}

	return fmt.Sprintf("%s (%s): %s. If nothing needs it, delete it: virsh vol-delete --pool %s %s",
		OwnDiskTitle(key), at, why, o.Pool, o.Volume)
}

// disksKept is the summary of a problem about disks that aren't deleted with what they belonged to.
const disksKept = "Disks of the virtual machine are kept"

// warnDroppedDisks returns warnings about disks that are no longer declared, as far as the rest of the plan doesn't
// show them: those that stay on the host, and those that an earlier apply was to delete.
func (d Desired) warnDroppedDisks(vm *inventory.VM) []inventory.Problem {
	if d.Incomplete {
		return nil
	}

	var problems []inventory.Problem

	deletes, keeps := d.DropsOwnDisks(vm)
	deletes = slices.DeleteFunc(deletes, func(key string) bool {
		o := vm.Metadata.OwnDisks[key]

		return IsFirstBoot(key) || o.Creating || slices.Contains(d.Removes, key) ||
			d.UpdatePolicy == PolicyStage && vm.HasFile(o.Path)
	})

	if len(deletes) > 0 {
		lines := ""
		for _, key := range deletes {
			lines += fmt.Sprintf("\n  - %s: %s", OwnDiskTitle(key), vm.Metadata.OwnDisks[key].Path)
		}

		summary := "Disks are deleted with their data: " + vm.Name
		becomes := "This one deletes them, once the VM no longer has them"
		if vm.ManagedSave {
			summary = disksKept
			becomes = "This one keeps them as well, because the VM's memory is saved, and its guest may use them"
		}

		problems = append(problems, inventory.Problem{
			Attribute: "disks", Warning: true, Summary: summary,
			Detail: fmt.Sprintf("An earlier run removed these disks from VM %q on host %q, and couldn't delete them yet. "+
				"%s:%s", vm.Name, vm.Host, becomes, lines),
			Remedy: "To keep a disk, first declare it again with file = \"<its path>\", or, in Ceph, volume = " +
				"\"<pool>/<name>\".",
		})
	}

	if len(keeps) > 0 {
		lines := ""
		for _, key := range keeps {
			lines += "\n  - " + KeptOwnDisk(vm, key)
		}

		problems = append(problems, inventory.Problem{
			Attribute: "disks", Warning: true, Summary: disksKept,
			Detail: fmt.Sprintf("These disks were created with VM %q on host %q, and are no longer declared. After this "+
				"change, they stay, even when the VM is destroyed:%s", vm.Name, vm.Host, lines),
			Remedy: "To attach such a disk again, declare it with file = \"<its path>\", or, in Ceph, volume = " +
				"\"<pool>/<name>\".",
		})
	}

	return problems
}
