package lifecycle

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// maxVolumeName limits the part of a volume's name that consists of the names of its VM and of its disk.
const maxVolumeName = 150

// nameOwnDisk sets the volume's name. It chooses a name that no volume in the storage pool has yet.
func (c *diskCreator) nameOwnDisk(ctx context.Context, vm domain.Spec, key string, o *domain.OwnDisk) error {
	fail := func(err error) error {
		return &inventory.Error{
			VM: vm.Name, Host: c.host.Name, Err: err,
			Detail:    fmt.Sprintf("%s can't be created in storage pool %q", placement.OwnDiskTitle(key), o.Pool),
			Attribute: placement.OwnDiskAttribute(key, "pool"),
		}
	}

	if err := c.records.Storage().EnsureActive(ctx, c.host.Name, o.Pool); err != nil {
		return fail(err)
	}

	pool, err := c.host.Conn.StoragePool(ctx, o.Pool)
	if err != nil {
		return fail(err)
	}

	if err := storage.CheckMounted(ctx, c.host.Files(), pool); err != nil {
		return fail(err)
	}

	if why := placement.UnfitPool(ctx, c.host, pool); why != "" {
		return fail(fmt.Errorf("%w: %s", inventory.ErrUnsupported, why))
	}

	is, err := storage.ReadPool(pool.XML)
	if err != nil {
		return fail(err)
	}

	base := volumeName(vm, key, c.id)

	for n := 1; ; n++ {
		o.Volume = base
		if n > 1 {
			o.Volume += "-" + strconv.Itoa(n)
		}

		// A volume that was kept when its disk was removed from the VM still has its name.
		_, err := c.host.Conn.PoolVolume(ctx, o.Pool, o.Volume)
		if inventory.IsNotFound(err) {
			break
		}

		if err != nil {
			return fail(err)
		}
	}

	o.Path = path.Join(*is.Path, o.Volume)

	return nil
}

// volumeName returns the name of the volume of an own disk, before a possible suffix that makes it unique.
func volumeName(vm domain.Spec, key, id string) string {
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
