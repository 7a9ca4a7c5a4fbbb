package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// StoragePool is a storage pool of a host.
type StoragePool struct {
	Name string
	// XML is its definition: the persistent one, where there is one.
	XML string
	// Active says that it is started. What is in one that isn't can't be told.
	Active bool
	// Persistent says that it outlives being stopped, Autostart that the daemon starts it.
	Persistent, Autostart bool
	// CapacityBytes, AllocatedBytes and AvailableBytes are 0 of one that isn't active.
	CapacityBytes, AllocatedBytes, AvailableBytes uint64
}

// StoragePool reads the pool of that name (virStoragePoolLookupByName, virStoragePoolGetXMLDesc, virStoragePoolGetInfo,
// virStoragePoolIsPersistent, virStoragePoolGetAutostart).
func (h *Host) StoragePool(ctx context.Context, name string) (*StoragePool, error) {
	return onStoragePool(ctx, h, readCall("reading storage pool "+name), name, (*conn).observePool)
}

// StoragePools reads all pools but those that are made for the time of a call. One that vanishes meanwhile is left out.
func (h *Host) StoragePools(ctx context.Context) ([]StoragePool, error) {
	return call(ctx, h, readCall("listing storage pools"), func(c *conn) (pools []StoragePool, err error) {
		c.countCall("virConnectListAllStoragePools")
		all, err := c.c.ListAllStoragePools(0)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if p, readErr := c.observePool(&all[i]); readErr == nil {
				if !isForACall(p.Name) {
					pools = append(pools, *p)
				}
			} else if codeOf(readErr) != golibvirt.ERR_NO_STORAGE_POOL {
				err = errors.Join(err, readErr)
			}
			err = errors.Join(err, all[i].Free())
		}
		return pools, err
	})
}

func (c *conn) observePool(pool *golibvirt.StoragePool) (p *StoragePool, err error) {
	p = &StoragePool{}
	if p.Name, err = pool.GetName(); err != nil {
		return nil, err
	}
	c.countCall("virStoragePoolIsPersistent")
	if p.Persistent, err = pool.IsPersistent(); err != nil {
		return nil, err
	}
	flags := golibvirt.StorageXMLFlags(0)
	if p.Persistent {
		flags = golibvirt.STORAGE_XML_INACTIVE
	}
	c.countCall("virStoragePoolGetXMLDesc")
	p.XML, err = pool.GetXMLDesc(flags)
	if codeOf(err) == golibvirt.ERR_INVALID_ARG {
		// A driver that has one definition of a pool only.
		p.XML, err = pool.GetXMLDesc(0)
	}
	if err != nil {
		return nil, err
	}
	c.countCall("virStoragePoolGetInfo")
	info, err := pool.GetInfo()
	if err != nil {
		return nil, err
	}
	if p.Active = info.State != golibvirt.STORAGE_POOL_INACTIVE; p.Active {
		p.CapacityBytes, p.AllocatedBytes, p.AvailableBytes = info.Capacity, info.Allocation, info.Available
	}
	if p.Persistent {
		c.countCall("virStoragePoolGetAutostart")
		p.Autostart, err = pool.GetAutostart()
	}
	return p, err
}

// DefineStoragePool makes a persistent pool, or changes the one with its name and UUID: an active one from its next
// start on (virStoragePoolDefineXML).
func (h *Host) DefineStoragePool(ctx context.Context, name, document string) error {
	_, err := call(ctx, h, defineCall("defining storage pool "+name), func(c *conn) (struct{}, error) {
		c.countCall("virStoragePoolDefineXML")
		pool, err := c.c.StoragePoolDefineXML(document, 0)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, pool.Free()
	})
	return err
}

// BuildStoragePool makes what the pool stands on: a directory, a mount point, a filesystem, a volume group. It refuses
// to overwrite something; what is there as it should be is no error, where libvirt can tell (virStoragePoolBuild).
func (h *Host) BuildStoragePool(ctx context.Context, name string, noOverwrite bool) error {
	return h.changePool(ctx, "building storage pool ", name, "virStoragePoolBuild", func(p *golibvirt.StoragePool) error {
		if noOverwrite {
			return p.Build(golibvirt.STORAGE_POOL_BUILD_NO_OVERWRITE)
		}
		return p.Build(golibvirt.STORAGE_POOL_BUILD_NEW)
	})
}

// StartStoragePool starts a pool. One that is active is no error (virStoragePoolCreate).
func (h *Host) StartStoragePool(ctx context.Context, name string) error {
	err := h.changePool(ctx, "starting storage pool ", name, "virStoragePoolCreate", func(p *golibvirt.StoragePool) error {
		return p.Create(golibvirt.STORAGE_POOL_CREATE_NORMAL)
	})
	return h.unlessPool(ctx, name, true, err)
}

// StopStoragePool stops a pool; what is in it stays. One that isn't active is no error (virStoragePoolDestroy).
func (h *Host) StopStoragePool(ctx context.Context, name string) error {
	_, err := onStoragePool(ctx, h, changeCall("stopping storage pool "+name), name,
		func(c *conn, p *golibvirt.StoragePool) (struct{}, error) {
			return struct{}{}, retryBusyPool(ctx, func() error {
				c.countCall("virStoragePoolDestroy")
				return p.Destroy()
			})
		})
	return h.unlessPool(ctx, name, false, err)
}

// unlessPool forgives a refusal where the pool is already as it should be.
func (h *Host) unlessPool(ctx context.Context, name string, active bool, refusal error) error {
	if !errors.Is(refusal, ErrOperationInvalid) {
		return refusal
	}
	if pool, err := h.StoragePool(ctx, name); err == nil && pool.Active == active {
		return nil
	}
	return refusal
}

// RefreshStoragePool reads anew what is in a pool (virStoragePoolRefresh). A pool that can't be read is stopped by
// libvirt.
func (h *Host) RefreshStoragePool(ctx context.Context, name string) error {
	_, err := onStoragePool(ctx, h, changeCall("refreshing storage pool "+name), name,
		func(c *conn, p *golibvirt.StoragePool) (struct{}, error) { return struct{}{}, c.refreshPool(ctx, p) })
	return err
}

func (c *conn) refreshPool(ctx context.Context, p *golibvirt.StoragePool) error {
	return retryBusyPool(ctx, func() error {
		c.countCall("virStoragePoolRefresh")
		return p.Refresh(0)
	})
}

// SetStoragePoolAutostart says whether the daemon starts the pool (virStoragePoolSetAutostart).
func (h *Host) SetStoragePoolAutostart(ctx context.Context, name string, on bool) error {
	return h.changePool(ctx, "setting autostart of storage pool ", name, "virStoragePoolSetAutostart",
		func(p *golibvirt.StoragePool) error { return p.SetAutostart(on) })
}

// DeleteStoragePool removes what a stopped pool stands on, as BuildStoragePool made it. A directory that isn't empty is
// refused (virStoragePoolDelete).
func (h *Host) DeleteStoragePool(ctx context.Context, name string) error {
	return h.changePool(ctx, "deleting the storage of pool ", name, "virStoragePoolDelete",
		func(p *golibvirt.StoragePool) error { return p.Delete(golibvirt.STORAGE_POOL_DELETE_NORMAL) })
}

// UndefineStoragePool removes the definition of a stopped pool. What was in it stays (virStoragePoolUndefine).
func (h *Host) UndefineStoragePool(ctx context.Context, name string) error {
	return h.changePool(ctx, "undefining storage pool ", name, "virStoragePoolUndefine", (*golibvirt.StoragePool).Undefine)
}

func (h *Host) changePool(
	ctx context.Context, operation, name, procedure string, f func(*golibvirt.StoragePool) error,
) error {
	_, err := onStoragePool(ctx, h, changeCall(operation+name), name,
		func(c *conn, p *golibvirt.StoragePool) (struct{}, error) {
			c.countCall(procedure)
			return struct{}{}, f(p)
		})
	return err
}

// onStoragePool runs f on a pool. Its error is ErrNotFound when the host has no such pool.
func onStoragePool[T any](
	ctx context.Context, h *Host, s callSpec, name string, f func(*conn, *golibvirt.StoragePool) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (value T, err error) {
		c.countCall("virStoragePoolLookupByName")
		pool, err := c.c.LookupStoragePoolByName(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, pool.Free()) }()
		return f(c, pool)
	})
}
