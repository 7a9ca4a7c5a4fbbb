package libvirt

import (
	"context"
	"encoding/xml"
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

// TargetPath returns the path of the pool's directory, as its definition says; "" if it has none.
func (p StoragePool) TargetPath() string {
	var d poolDescription
	if err := xml.Unmarshal([]byte(p.XML), &d); err != nil {
		return ""
	}
	return d.Path
}

// StoragePool reads the pool of that name (virStoragePoolLookupByName, virStoragePoolGetXMLDesc, virStoragePoolGetInfo,
// virStoragePoolIsPersistent, virStoragePoolGetAutostart) in two round trips.
func (h *Host) StoragePool(ctx context.Context, name string) (*StoragePool, error) {
	return onStoragePool(ctx, h, readCall("reading storage pool "+name), name,
		func(c *conn, pool *golibvirt.StoragePool) (*StoragePool, error) {
			calls := c.newPipeline()
			r := calls.readPool(pool)
			var live string
			var liveErr error
			calls.Go(func() error {
				c.countCall("virStoragePoolGetXMLDesc")
				live, liveErr = pool.GetXMLDesc(0)
				return nil
			})
			p, err := c.settlePool(r, calls.Wait())
			if err != nil || !p.Active {
				return p, err
			}
			p.LiveXML = live
			return p, liveErr
		})
}

// IsNoPool reports whether the host has no storage pool of that name, whichever call has found that out: StoragePool
// returns ErrNotFound for it, and calls about volumes return ErrNoPool.
func IsNoPool(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return errors.Is(err, ErrNoPool) || ok && e.Code == int(golibvirt.ERR_NO_STORAGE_POOL)
}

// StoragePools reads all pools, except those that exist for the time of a call, in two round trips. It leaves out pools
// that vanish meanwhile.
func (h *Host) StoragePools(ctx context.Context) ([]StoragePool, error) {
	return callStorage(ctx, h, readCall("listing storage pools"), storage{}, func(
		c *conn,
	) (pools []StoragePool, err error) {
		c.countCall("virConnectListAllStoragePools")
		all, err := c.c.ListAllStoragePools(0)
		if err != nil {
			return nil, err
		}
		calls := c.newPipeline()
		readings := make([]*poolReading, len(all))
		for i := range all {
			readings[i] = calls.readPool(&all[i])
		}
		abandoned := calls.Wait()
		for i := range all {
			if p, readErr := c.settlePool(readings[i], abandoned); readErr == nil {
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

func (c *conn) observePool(pool *golibvirt.StoragePool) (*StoragePool, error) {
	calls := c.newPipeline()
	r := calls.readPool(pool)
	return c.settlePool(r, calls.Wait())
}

// poolReading is what the calls about one pool answered.
type poolReading struct {
	pool                  *golibvirt.StoragePool
	persistent, autostart bool
	xml                   string // the persistent definition
	info                  *golibvirt.StoragePoolInfo

	persistentErr, autostartErr, xmlErr, infoErr error
}

// readPool starts the calls about a pool. It asks for what only a persistent pool has without waiting for whether this
// one is: most are, and the wait would be a round trip.
func (p *pipeline) readPool(pool *golibvirt.StoragePool) *poolReading {
	r := &poolReading{pool: pool}
	start := func(procedure string, f func()) {
		p.Go(func() error {
			p.conn.countCall(procedure)
			f()
			return nil
		})
	}
	start("virStoragePoolIsPersistent", func() { r.persistent, r.persistentErr = pool.IsPersistent() })
	start("virStoragePoolGetXMLDesc", func() { r.xml, r.xmlErr = pool.GetXMLDesc(golibvirt.STORAGE_XML_INACTIVE) })
	start("virStoragePoolGetInfo", func() { r.info, r.infoErr = pool.GetInfo() })
	start("virStoragePoolGetAutostart", func() { r.autostart, r.autostartErr = pool.GetAutostart() })
	return r
}

// settlePool returns the pool that was read. abandoned is the error of the pipeline.
func (c *conn) settlePool(r *poolReading, abandoned error) (p *StoragePool, err error) {
	p = &StoragePool{Persistent: r.persistent, XML: r.xml}
	if p.Name, err = r.pool.GetName(); err != nil {
		return nil, err
	}
	if p.UUID, err = r.pool.GetUUIDString(); err != nil {
		return nil, err
	}
	for _, err := range []error{abandoned, r.persistentErr, r.infoErr} {
		if err != nil {
			return nil, err
		}
	}
	if p.Active = r.info.State != golibvirt.STORAGE_POOL_INACTIVE; p.Active {
		p.CapacityBytes, p.AllocatedBytes, p.AvailableBytes = r.info.Capacity, r.info.Allocation, r.info.Available
	}
	err = r.xmlErr
	if !p.Persistent || codeOf(err) == golibvirt.ERR_INVALID_ARG {
		// A transient pool has only one definition. With some drivers, every pool has.
		c.countCall("virStoragePoolGetXMLDesc")
		p.XML, err = r.pool.GetXMLDesc(0)
	}
	if err != nil {
		return nil, err
	}
	if p.Persistent {
		p.Autostart, err = r.autostart, r.autostartErr
	}
	return p, err
}

// DefineStoragePool defines a persistent pool, or changes the pool with its name and UUID: an active pool changes at
// its next start (virStoragePoolDefineXML).
func (h *Host) DefineStoragePool(ctx context.Context, name, document string) error {
	// libvirt compares the pool with all others.
	_, err := callStorage(ctx, h, defineCall("defining storage pool "+name), storage{}, func(c *conn) (struct{}, error) {
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
	return callPool(ctx, h, s, storage{pool: name}, f)
}

// callPool is onStoragePool, of the pool that the storage names.
func callPool[T any](
	ctx context.Context, h *Host, s callSpec, of storage, f func(*conn, *golibvirt.StoragePool) (T, error),
) (T, error) {
	return callStorage(ctx, h, s, of, func(c *conn) (value T, err error) {
		if s.writes {
			defer c.countVolumeChange()
		}
		c.countCall("virStoragePoolLookupByName")
		pool, err := c.c.LookupStoragePoolByName(of.pool)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, pool.Free()) }()
		return f(c, pool)
	})
}
