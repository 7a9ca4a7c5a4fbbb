package libvirt

import (
	"context"
	"errors"

	golibvirt "libvirt.org/go/libvirt"
)

// StoragePool is a storage pool of a host.
type StoragePool struct {
	Name, UUID string
	// XML is the persistent definition, if there is one, or the active one.
	XML string
	// LiveXML is the active definition. It is "" if the pool is inactive. StoragePools doesn't read it.
	LiveXML string
	// Active says that the pool is started. The content of an inactive pool is unknown.
	Active bool
	// Persistent says that the pool stays when it is stopped, Autostart that the daemon starts it.
	Persistent, Autostart bool
	// CapacityBytes, AllocatedBytes and AvailableBytes are 0 for an inactive pool.
	CapacityBytes, AllocatedBytes, AvailableBytes uint64
}

// StoragePool reads the pool of that name (virStoragePoolLookupByName, virStoragePoolGetXMLDesc, virStoragePoolGetInfo,
// virStoragePoolIsPersistent, virStoragePoolGetAutostart).
func (h *Host) StoragePool(ctx context.Context, name string) (*StoragePool, error) {
	return onStoragePool(ctx, h, readCall("reading storage pool "+name), name,
		func(c *conn, pool *golibvirt.StoragePool) (*StoragePool, error) {
			p, err := c.observePool(pool)
			if err != nil || !p.Active {
				return p, err
			}
			c.countCall("virStoragePoolGetXMLDesc")
			p.LiveXML, err = pool.GetXMLDesc(0)
			return p, err
		})
}

// StoragePools reads all pools, except those that exist for the time of a call. It leaves out pools that vanish
// meanwhile.
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
	if p.UUID, err = pool.GetUUIDString(); err != nil {
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
		// Some drivers have only one definition of a pool.
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

// DefineStoragePool defines a persistent pool, or changes the pool with its name and UUID: an active pool changes at
// its next start (virStoragePoolDefineXML).
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

// BuildStoragePool creates what the pool is based on: a directory, a mount point, a filesystem, a volume group
// (virStoragePoolBuild). It refuses to overwrite data. It is no error if all of it already exists, where libvirt can
// tell.
func (h *Host) BuildStoragePool(ctx context.Context, name string, noOverwrite bool) error {
	return h.changePool(ctx, "building storage pool ", name, "virStoragePoolBuild", func(p *golibvirt.StoragePool) error {
		if noOverwrite {
			return p.Build(golibvirt.STORAGE_POOL_BUILD_NO_OVERWRITE)
		}
		return p.Build(golibvirt.STORAGE_POOL_BUILD_NEW)
	})
}

// StartStoragePool starts a pool (virStoragePoolCreate). It is no error if the pool is active.
func (h *Host) StartStoragePool(ctx context.Context, name string) error {
	err := h.changePool(ctx, "starting storage pool ", name, "virStoragePoolCreate", func(p *golibvirt.StoragePool) error {
		return p.Create(golibvirt.STORAGE_POOL_CREATE_NORMAL)
	})
	return h.unlessPool(ctx, name, true, err)
}

// StopStoragePool stops a pool (virStoragePoolDestroy). Its content stays. It is no error if the pool is inactive.
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

// unlessPool ignores a refusal if the pool is already in the requested state.
func (h *Host) unlessPool(ctx context.Context, name string, active bool, refusal error) error {
	if !errors.Is(refusal, ErrOperationInvalid) {
		return refusal
	}
	if pool, err := h.StoragePool(ctx, name); err == nil && pool.Active == active {
		return nil
	}
	return refusal
}

// RefreshStoragePool reads the content of a pool again (virStoragePoolRefresh). libvirt stops a pool that it can't
// read. It returns ErrPoolInactive for a pool that was stopped before, and ErrNoPool for one that is undefined.
func (h *Host) RefreshStoragePool(ctx context.Context, name string) error {
	_, err := readInPool(ctx, h, changeCall("refreshing storage pool "+name), name,
		func(c *conn, p *golibvirt.StoragePool) (struct{}, error) { return struct{}{}, c.refreshPool(ctx, p) })
	return err
}

func (c *conn) refreshPool(ctx context.Context, p *golibvirt.StoragePool) error {
	return retryBusyPool(ctx, func() error {
		c.countCall("virStoragePoolRefresh")
		return p.Refresh(0)
	})
}

// SetStoragePoolAutostart sets whether the daemon starts the pool (virStoragePoolSetAutostart).
func (h *Host) SetStoragePoolAutostart(ctx context.Context, name string, on bool) error {
	return h.changePool(ctx, "setting autostart of storage pool ", name, "virStoragePoolSetAutostart",
		func(p *golibvirt.StoragePool) error { return p.SetAutostart(on) })
}

// DeleteStoragePool removes what BuildStoragePool created for a stopped pool (virStoragePoolDelete). libvirt refuses to
// remove a directory that isn't empty.
func (h *Host) DeleteStoragePool(ctx context.Context, name string) error {
	return h.changePool(ctx, "deleting the storage of pool ", name, "virStoragePoolDelete",
		func(p *golibvirt.StoragePool) error { return p.Delete(golibvirt.STORAGE_POOL_DELETE_NORMAL) })
}

// UndefineStoragePool removes the definition of a stopped pool (virStoragePoolUndefine). Its content stays.
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

// onStoragePool runs f on a pool. It returns ErrNotFound if the host has no such pool.
func onStoragePool[T any](
	ctx context.Context, h *Host, s callSpec, name string, f func(*conn, *golibvirt.StoragePool) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (value T, err error) {
		if s.writes {
			defer c.countVolumeChange()
		}
		c.countCall("virStoragePoolLookupByName")
		pool, err := c.c.LookupStoragePoolByName(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, pool.Free()) }()
		return f(c, pool)
	})
}
