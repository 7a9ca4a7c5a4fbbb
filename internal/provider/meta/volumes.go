package meta

import (
	"fmt"
	"maps"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// Volumes is what one run of Terraform has sent about the volumes in its state.
//
// For a tainted volume, Terraform plans only a new one, as for a tainted VM: see Managed.
type Volumes struct {
	mu sync.Mutex
	// kept says of each saved volume whether Terraform planned to keep or change it.
	kept map[SavedVolume]bool
	// made are the times of the last change of the volumes that this run has created, by path: hosts may have one each
	// there.
	made map[string][]string
	// owned are the volumes that become disks of VMs' own, with the VM's name.
	owned map[SavedVolume]string
	// removed are the volumes that are removed. left are those that leave a VM which stays, with the VM's name.
	removed map[SavedVolume]bool
	left    map[SavedVolume]string
}

// SavedVolume is a volume in Terraform's saved state.
type SavedVolume struct {
	// Pool and Name are those of the volume, Host is the host that had it last.
	Pool, Name, Host string
}

// Saved records that Terraform has the volume in its state.
func (v *Volumes) Saved(saved SavedVolume) { v.note(saved, false) }

// Plans records that Terraform plans to keep or change the volume, so it isn't tainted.
func (v *Volumes) Plans(saved SavedVolume) { v.note(saved, true) }

func (v *Volumes) note(saved SavedVolume, kept bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kept == nil {
		v.kept = make(map[SavedVolume]bool)
	}
	v.kept[saved] = v.kept[saved] || kept
}

// Owns records that the file of a volume becomes a disk of a VM's own. It returns the hosts whose volume of that name
// Terraform plans to keep or change, as far as that is planned.
func (v *Volumes) Owns(owned SavedVolume, vm string) (kept []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.owned == nil {
		v.owned = map[SavedVolume]string{}
	}
	v.owned[owned] = vm
	for saved, stays := range v.kept {
		if stays && saved.Pool == owned.Pool && saved.Name == owned.Name {
			kept = append(kept, saved.Host)
		}
	}
	return kept
}

// Owners returns the VMs whose own disk the file of a volume becomes, by the host of the VM, as far as planned.
func (v *Volumes) Owners(pool, name string) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	owners := map[string]string{}
	for owned, vm := range v.owned {
		if owned.Pool == pool && owned.Name == name {
			owners[owned.Host] = vm
		}
	}
	return owners
}

// Removes records that a volume is removed. It returns the VM that it leaves by the same plan, "" if none is planned.
func (v *Volumes) Removes(removed SavedVolume) (vm string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.removed == nil {
		v.removed = map[SavedVolume]bool{}
	}
	v.removed[removed] = true
	return v.left[removed]
}

// Leaves records that a volume leaves a VM that stays. It reports whether the same plan removes the volume, as far as
// that is planned.
func (v *Volumes) Leaves(left SavedVolume, vm string) (removed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.left == nil {
		v.left = map[SavedVolume]string{}
	}
	v.left[left] = vm
	return v.removed[left]
}

// RemovedWithDisk returns the warning that a plan removes a volume and the disk of a VM that uses it. volume is its id.
func RemovedWithDisk(volume, vm string) diag.Diagnostic {
	return diag.NewWarningDiagnostic("Volume is removed before its disk", fmt.Sprintf("Terraform removes volume %q "+
		"before it takes the disk from VM %q. The apply then fails, and removes neither. Remove the disk first, and apply. "+
		"Then remove the virtfleet_volume.\n\nOne apply is enough if the virtfleet_volume had lifecycle { "+
		"create_before_destroy = true } at the last apply, and is removed, or replaced by one with another name.",
		volume, vm))
}

// OwnedTwice returns the error that a volume stays in Terraform's state while it becomes a disk of a VM's own. volume
// is its id.
func OwnedTwice(at path.Path, volume, vm string) diag.Diagnostic {
	return diag.NewAttributeErrorDiagnostic(at, "Disk would have two owners", fmt.Sprintf("Volume %q becomes VM %q's own "+
		"disk, which is moved and deleted with the VM, and it stays a virtfleet_volume. In the same apply, replace the "+
		"virtfleet_volume with this block:\n\nremoved {\n  from = virtfleet_volume.<name>\n  "+
		"lifecycle { destroy = false }\n}", volume, vm))
}

// Made records that this run has created a volume at the path. changed is the time of its last change, as libvirt
// reports it.
func (v *Volumes) Made(path, changed string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made == nil {
		v.made = map[string][]string{}
	}
	v.made[path] = append(v.made[path], changed)
}

// AllMade returns the times of the last change of the volumes that this run has created, by path.
func (v *Volumes) AllMade() map[string][]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.made)
}

// Tainted returns the volume in the saved state that has that name in that pool, and no plan so far, and so may be
// tainted: on that host, or on any host if host is "".
func (v *Volumes) Tainted(pool, name, host string) (tainted SavedVolume, found bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for saved, kept := range v.kept {
		if !kept && saved.Pool == pool && saved.Name == name && (host == "" || saved.Host == host) &&
			(!found || saved.Host < tainted.Host) {
			tainted, found = saved, true
		}
	}
	return tainted, found
}

// Hosts returns the hosts on which Terraform has a volume of that name in that pool in its state, as far as it has sent
// that.
func (v *Volumes) Hosts(pool, name string) (hosts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for saved := range v.kept {
		if saved.Pool == pool && saved.Name == name {
			hosts = append(hosts, saved.Host)
		}
	}
	return hosts
}
