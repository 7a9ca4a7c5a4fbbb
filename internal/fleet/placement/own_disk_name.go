package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
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

		v, err := vm.On.Conn.PoolVolume(ctx, d.OwnDisks[key].Pool, VolumeName(d.Spec, key, vm.UUID))
		if err != nil || vm.HasFile(v.Path) {
			continue
		}

		problems = append(problems, inventory.Problem{
			Attribute: OwnDiskAttribute(key, "pool"), Warning: true, Summary: "Kept volume isn't used",
			Detail: fmt.Sprintf("Disk %q of VM %q is new. Storage pool %q on host %q has the volume %q of an earlier disk "+
				"of this key, which was kept when that was removed. The new disk is another volume, without its data.", key,
				vm.Name, d.OwnDisks[key].Pool, vm.Host, v.Name),
			Remedy: fmt.Sprintf("To use the volume that was kept, declare volume = %q in place of pool and what belongs to "+
				"pool. If nothing needs it, delete it: virsh vol-delete --pool %s %s", d.OwnDisks[key].Pool+"/"+v.Name,
				d.OwnDisks[key].Pool, v.Name),
		})
	}

	return problems
}
