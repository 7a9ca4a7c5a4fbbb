package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// maxVolumeName limits the part of a volume's name that consists of the names of its VM and of its disk.
const maxVolumeName = 150

// VolumeName returns the name of the volume of an own disk, before a possible suffix that makes it unique.
func VolumeName(vm domain.Spec, key, id string) string {
	name := fileName(vm.Name) + "-" + fileName(key)
	if vm.Disks[key].Values[domain.EncryptionSecret] != "" && !libvirt.EncryptableName(name) {
		name = "vm-" + name
	}

	return name[:min(len(name), maxVolumeName)] + "-" + id[:8]
}

// imageSuffix is the length of what makes the name of an RBD image unique.
const imageSuffix = 8

// NumberedName returns the n-th name to try, from 1, for a new own disk in a pool of that type. base is a VolumeName.
// The names of files count. A pool in Ceph may not list an image that is there, and what a record names as begun by an
// interrupted run is deleted: no other image ever had the name of a new one.
func NumberedName(poolType, base string, n int) string {
	switch {
	case !storage.FilePool(poolType):
		return base + "-" + uuid.NewString()[:imageSuffix]
	case n > 1:
		return base + "-" + strconv.Itoa(n)
	default:
		return base
	}
}

// keptVolumes returns the volumes of a pool that were created for an own disk. base is its VolumeName.
func keptVolumes(ctx context.Context, h *inventory.Host, pool, base string) (kept []libvirt.Volume) {
	if v, err := h.Conn.PoolVolume(ctx, pool, base); err == nil {
		return []libvirt.Volume{*v}
	}

	names, err := h.Conn.VolumeNames(ctx, pool)
	if err != nil {
		return nil
	}

	for _, name := range names {
		suffix, found := strings.CutPrefix(name, base+"-")
		if !found || len(suffix) != imageSuffix {
			continue
		}

		if v, err := h.Conn.PoolVolume(ctx, pool, name); err == nil && v.PoolType == "rbd" {
			kept = append(kept, *v)
		}
	}

	return kept
}

// fileName replaces characters of a name that need quoting in file names.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		plain := r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !plain {
			return '_'
		}

		return r
	}, name)
}

// warnUnusedVolumes warns about new disks of the VM for which their storage pools have volumes that were kept when
// disks of these keys were removed from the VM: the new disks don't have their data.
func (d Desired) warnUnusedVolumes(ctx context.Context, vm *inventory.VM) []inventory.Problem {
	var problems []inventory.Problem

	made := d.RenamedOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		_, recorded := made[key]
		_, handed := d.Handed[key]

		if recorded || handed || IsFirstBoot(key) {
			continue
		}

		for _, v := range keptVolumes(ctx, vm.On, d.OwnDisks[key].Pool, VolumeName(d.Spec, key, vm.UUID)) {
			if !vm.HasFile(v.Path) {
				problems = append(problems, warnUnusedVolume(vm, key, v))
			}
		}
	}

	return problems
}

func warnUnusedVolume(vm *inventory.VM, key string, v libvirt.Volume) inventory.Problem {
	return inventory.Problem{
		Attribute: OwnDiskAttribute(key, "pool"), Warning: true, Summary: "Kept volume isn't used",
		Detail: fmt.Sprintf("Disk %q of VM %q is new. Storage pool %q on host %q has the volume %q of an earlier disk "+
			"of this key, which was kept when that was removed. The new disk is another volume, without its data.", key,
			vm.Name, v.Pool, vm.Host, v.Name),
		Remedy: fmt.Sprintf("To use the volume that was kept, declare volume = %q in place of pool and what belongs to "+
			"pool. If nothing needs it, delete it: virsh vol-delete --pool %s %s", v.Pool+"/"+v.Name, v.Pool, v.Name),
	}
}
