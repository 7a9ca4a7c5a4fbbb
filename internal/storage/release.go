package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrOtherPath says that a pool has a volume of the name, and it isn't the one that was asked for.
var ErrOtherPath = fmt.Errorf("%w: the volume is another one", libvirt.ErrBusy)

// Release is a volume that belongs to a VM and is to be removed.
type Release struct {
	Host string
	Ref  Ref
	// Path is where the pool has it. A volume of that name elsewhere is another one.
	Path string
	// VM is the UUID of the VM that it belongs to.
	VM string
	// Detached says that the VM is to have it no more. Else the VM is off, and that its definition has the volume is no
	// use of it.
	Detached bool
	// Moved says that the VM runs elsewhere from a copy under the same path, which is another file: what the VM has on
	// other hosts is no use of it.
	Moved bool
	// Hosts are asked who uses it; one of them that can't tell keeps it from being removed. Others are asked as well,
	// as far as they answer.
	Hosts, Others hostset.Set
}

// Release removes a volume unless something uses it: then the error is ErrInUse, or ErrOtherPath. One that an active
// pool doesn't have is no error. A pool that is not there is libvirt.ErrNoPool, one that isn't active
// libvirt.ErrPoolInactive.
func (s *Storage) Release(ctx context.Context, r Release) error {
	h, err := s.host(r.Host)
	if err != nil {
		return err
	}
	return s.locked(ctx, r.Host, r.Ref.Pool, r.Ref.Name, "removing a volume", func(ctx context.Context) error {
		if err := h.RefreshStoragePool(ctx, r.Ref.Pool); err != nil && !errors.Is(err, libvirt.ErrNotFound) &&
			!errors.Is(err, libvirt.ErrOperationInvalid) {
			return err
		}
		v, err := h.PoolVolume(ctx, r.Ref.Pool, r.Ref.Name)
		if errors.Is(err, libvirt.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if v.Path != r.Path {
			return fmt.Errorf("%w: it is at %s, not at %s", ErrOtherPath, v.Path, r.Path)
		}
		users, err := s.usersBeside(ctx, r, h, *v)
		if err != nil {
			return fmt.Errorf("whether it is in use can't be told: %w", err)
		}
		if len(users) > 0 {
			return fmt.Errorf("%w: %s", ErrInUse, users[0])
		}
		return h.DeleteVolume(ctx, r.Ref.Pool, r.Ref.Name)
	})
}

// usersBeside are the users of a volume that its VM's going doesn't end.
func (s *Storage) usersBeside(ctx context.Context, r Release, h *libvirt.Host, v libvirt.Volume) ([]User, error) {
	users, err := s.Users(ctx, r.Hosts, v)
	if err != nil {
		return nil, err
	}
	more, _ := s.Users(ctx, r.Others, v) // Hosts that don't answer don't share the pool.
	users = slices.DeleteFunc(append(users, more...), func(u User) bool {
		return u.UUID == r.VM && u.Volume == "" && (r.Moved || u.Host == h.Name() || !u.Active)
	})
	d, err := h.Domain(ctx, r.VM)
	if errors.Is(err, libvirt.ErrNotFound) {
		return users, nil
	}
	if err != nil {
		return nil, err
	}
	// Its metadata names the volume as long as it is recorded there, which is no use.
	uses := usedByDevices(d.LiveXML, v)
	if r.Detached {
		uses = uses || usedByDevices(d.PersistentXML, v)
	}
	if uses {
		users = append(users, User{Host: h.Name(), VM: d.Name, UUID: d.UUID, Active: d.Active()})
	}
	return users, nil
}

// usedByDevices says whether a definition names the volume outside its metadata.
func usedByDevices(document string, v libvirt.Volume) bool {
	doc := etree.NewDocument()
	if document == "" {
		return false
	}
	if doc.ReadFromString(document) != nil || doc.Root() == nil {
		return true // It can't be told.
	}
	for _, metadata := range doc.Root().SelectElements("metadata") {
		doc.Root().RemoveChild(metadata)
	}
	rest, err := doc.WriteToString()
	if err != nil {
		return true
	}
	_, used := usedBy(rest, v)
	return used
}

// FilePool says that volumes of such a pool are files below its path.
func FilePool(poolType string) bool { return slices.Contains([]string{"dir", "fs", "netfs"}, poolType) }
