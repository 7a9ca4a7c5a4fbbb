package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// CheckRemovable returns an error if one of a VM's own disks can't be removed, because a host that shares its storage
// pool doesn't answer and may use it. It changes nothing.
func (p *Planner) CheckRemovable(ctx context.Context, vm *inventory.VM, keys []string) error {
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
				Remedy: silentUserRemedy(key),
			}
		}
	}

	return nil
}

func silentUserRemedy(key string) string {
	remedy := "Bring the host back. Or make sure that it is off, then set its fenced = true."
	if !IsFirstBoot(key) {
		remedy += fmt.Sprintf(" To keep the disk instead, apply disks.%s.on_destroy = \"keep\" first.", key)
	}

	return remedy
}

// DropsOwnDisks returns the keys of the disks that were created with the VM, are no longer declared, and are removed by
// the change.
func (d Desired) DropsOwnDisks(vm *inventory.VM) []string {
	var keys []string

	for _, key := range slices.Sorted(maps.Keys(vm.Metadata.OwnDisks)) {
		o := vm.Metadata.OwnDisks[key]
		_, stays := d.OwnDisks[key]
		handed := slices.ContainsFunc(slices.Collect(maps.Values(d.Spec.Disks)), func(disk domain.Disk) bool {
			return disk.Source.File == o.Path
		})

		if d.Declares(key) && !stays && !handed && !o.Kept() {
			keys = append(keys, key)
		}
	}

	return keys
}
