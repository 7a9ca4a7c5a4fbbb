package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// CheckRemovable returns an error if what the pool is based on can't be removed with the pool.
func (p Pool) CheckRemovable() error {
	if p.kind().removable {
		return nil
	}
	return fmt.Errorf("%w: on_destroy is \"delete\", and the storage of a pool of type %s can't be deleted with it. "+
		"First set on_destroy to \"keep\", as a change of its own", libvirt.ErrInvalid, p.Type)
}

// checkDelete returns an error if the host's pool isn't the one of origin, if what it is based on can't be removed, or
// if definitions use it on any of the hosts that share the pool. libvirt removes a volume group with all its volumes,
// but no directory with files.
func (s *Storage) checkDelete(
	ctx context.Context, h hostset.Host, is *libvirt.StoragePool, origin PoolOrigin,
) error {
	p, err := ReadPool(is.XML)
	if err == nil {
		err = p.CheckRemovable()
	}
	if err == nil {
		err = origin.Check(h.Name, is.UUID, *p)
	}
	if err != nil || !p.kind().removesData {
		return err
	}
	hosts, err := s.UserHosts(ctx, h.Name, p.Name)
	if err != nil {
		return err
	}
	var users []string
	var errs []error
	for _, a := range hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		users, err := PoolUsers(ctx, h, *p)
		return &users, err
	}) {
		if a.Err != nil {
			errs = append(errs, fmt.Errorf("can't determine whether its volumes are in use: %w", a.Err))
			continue
		}
		for _, user := range *a.Value {
			users = append(users, fmt.Sprintf("%s on host %q", user, a.Host))
		}
	}
	if len(users) == 0 && len(errs) == 0 {
		users, err = s.volumeUsers(ctx, h.Conn, hosts, is)
		errs = append(errs, err)
	}
	errs = append(errs, inUseBy("would lose disks with the data of the pool. Remove them, or first set on_destroy to "+
		"\"keep\", as a change of its own", users))
	return errors.Join(errs...)
}

// volumeUsers returns the VMs and other volumes that use volumes of the host's pool, also under other paths than these
// have in the pool.
func (s *Storage) volumeUsers(
	ctx context.Context, h *libvirt.Host, hosts hostset.Set, pool *libvirt.StoragePool,
) (users []string, _ error) {
	volumes, err := readVolumes(ctx, h, pool)
	if errors.Is(err, libvirt.ErrUnreachable) {
		return nil, err
	}
	if err != nil {
		// The cause is text alone: that the pool isn't there now must not be taken for a pool that was removed.
		return nil, fmt.Errorf("%w: can't read its volumes to determine whether they are in use: %s. Repair the pool on the "+
			"host, or first set on_destroy to \"keep\", as a change of its own", libvirt.ErrOperationInvalid, err.Error())
	}
	if len(volumes) == 0 {
		return nil, nil
	}
	all, err := s.users(ctx, hosts, thorough, volumes...)
	if err != nil {
		return nil, fmt.Errorf("can't determine whether its volumes are in use: %w", err)
	}
	for _, u := range all.users {
		switch {
		case u.VM != "":
			users = append(users, fmt.Sprintf("virtual machine %s on host %q", u.VM, u.Host))
		case u.Copy != "":
			users = append(users, u.String())
		case !strings.HasPrefix(u.Volume, pool.Name+"/"): // It is removed as well.
			users = append(users, fmt.Sprintf("volume %s on host %q", u.Volume, u.Host))
		}
	}
	if len(users) == 0 && len(all.unclear) > 0 {
		return nil, fmt.Errorf("%w: can't determine whether its volumes are in use: %s", libvirt.ErrBusy,
			strings.Join(all.unclear, "; "))
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// readVolumes makes libvirt read which volumes the pool has, and returns them. It doesn't know those that were made
// without it, and none of an inactive pool. A start reads them as well.
func readVolumes(ctx context.Context, h *libvirt.Host, pool *libvirt.StoragePool) ([]libvirt.Volume, error) {
	read := h.StartStoragePool
	if pool.Active {
		read = h.RefreshStoragePool
	}
	if err := read(ctx, pool.Name); err != nil {
		return nil, err
	}
	return h.PoolVolumes(ctx, pool.Name)
}

// hasFiles reports whether what a host's pool is based on is a directory.
func hasFiles(is *libvirt.StoragePool) bool {
	p, err := ReadPool(is.XML)
	return err == nil && p.kind().files
}

func inUseBy(consequence string, users []string) error {
	if len(users) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s %s", libvirt.ErrOperationInvalid, strings.Join(users, ", "), consequence)
}

// CheckRemovePool returns why RemovePool would leave the pool on hosts, as far as that is known before. An inactive
// pool is started to read its volumes, if its data is to be removed.
func (s *Storage) CheckRemovePool(
	ctx context.Context, hosts hostset.Set, name string, withData *PoolOrigin,
) (failed map[string]error) {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		_, err := s.removablePool(ctx, h, name, withData)
		if errors.Is(err, libvirt.ErrNotFound) {
			return nil
		}
		return err
	})
}

// removablePool returns the host's pool, and an error if it can't be removed.
func (s *Storage) removablePool(
	ctx context.Context, h hostset.Host, name string, withData *PoolOrigin,
) (*libvirt.StoragePool, error) {
	is, err := h.Conn.StoragePool(ctx, name)
	if err == nil {
		err = checkStop(ctx, h.Conn, is)
	}
	if err == nil && withData != nil {
		err = s.checkDelete(ctx, h, is, *withData)
	}
	return is, err
}

// RemovePool stops and undefines the pool on hosts. Its content stays, unless withData is set: then what the pool is
// based on is removed as well, if the pool is the one of that origin. libvirt refuses to remove a directory that isn't
// empty. RemovePool removes no pool whose stop makes running VMs lose disks, and no data that a VM's definition uses.
func (s *Storage) RemovePool(
	ctx context.Context, hosts hostset.Set, name string, withData *PoolOrigin,
) (failed map[string]error) {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		is, err := s.removablePool(ctx, h, name, withData)
		if err == nil {
			err = h.Conn.StopStoragePool(ctx, name)
		}
		if err == nil && withData != nil {
			err = h.Conn.DeleteStoragePool(ctx, name)
			if errors.Is(err, libvirt.ErrNoFile) && hasFiles(is) {
				// Its directory is gone: another host that shares it has removed it. Or its filesystem isn't mounted.
				err = CheckMounted(ctx, h, is)
			}
			if err != nil {
				// The pool was not removed, so restore its state.
				after, cancel := hostset.CleanupContext(ctx)
				defer cancel()
				return errors.Join(err, h.Conn.StartStoragePool(after, name))
			}
		}
		if err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			return err
		}
		// The mark goes before the pool: if this run is killed, the pool that is left says that it isn't done.
		if err := setMark(ctx, h.Conn, sharedMark+name, false); err != nil {
			return err
		}
		if err := h.Conn.UndefineStoragePool(ctx, name); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			return err
		}
		return endRecords(ctx, h.Conn, name)
	})
}
