package lifecycle

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// nameOwnDisk sets the volume's name. It chooses a name that no volume in the storage pool has yet.
func (c *diskCreator) nameOwnDisk(ctx context.Context, vm domain.Spec, key string, o *domain.OwnDisk) error {
	fail := func(err error) error { return c.poolFailed(vm, key, *o, err) }

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

	if why := placement.UnfitPool(ctx, c.host, pool, key); why != "" {
		return fail(fmt.Errorf("%w: %s", inventory.ErrUnsupported, why))
	}

	is, err := storage.ReadPool(pool.XML)
	if err != nil {
		return fail(err)
	}

	base := placement.VolumeName(vm, key, c.id)

	for n := 1; ; n++ {
		o.Volume = placement.NumberedName(is.Type, base, n)

		// A volume that was kept when its disk was removed from the VM still has its name.
		_, err := c.host.Conn.PoolVolume(ctx, o.Pool, o.Volume)
		if err != nil && !inventory.IsNotFound(err) {
			return fail(err)
		}

		// libvirt's list of files may be outdated, too: another host may have created one.
		if err != nil && !c.records.Storage().HasFile(ctx, c.host.Name, is.VolumePath(o.Volume)) {
			break
		}
	}

	o.Path = is.VolumePath(o.Volume)

	return nil
}

// poolFailed returns the error of an own disk that can't be created in its storage pool.
func (c *diskCreator) poolFailed(vm domain.Spec, key string, o domain.OwnDisk, cause error) error {
	return &inventory.Error{
		VM: vm.Name, Host: c.host.Name, Err: cause,
		Detail:    fmt.Sprintf("%s can't be created in storage pool %q", placement.OwnDiskTitle(key), o.Pool),
		Attribute: placement.OwnDiskAttribute(key, "pool"),
	}
}
