package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrOtherPath says that a pool doesn't have the volume at the expected path: it has another one of the name, is in
// another directory now, or its filesystem may not be mounted.
var ErrOtherPath = fmt.Errorf("%w: the volume isn't where it was", libvirt.ErrBusy)

// ErrUnseen is the ErrOtherPath of a pool whose filesystem isn't mounted, or that has no volume at all, as it is
// without its filesystem: the volume may still exist.
var ErrUnseen = fmt.Errorf("%w: it can't be seen", ErrOtherPath)

func errOtherPath(is libvirt.Volume, at string) error {
	return fmt.Errorf("%w: it is at %s, not at %s", ErrOtherPath, is.Path, at)
}

// Release is a volume to remove that belongs to a VM.
type Release struct {
	Host string
	Ref  Ref
	// Path is the expected path. A volume of that name at another path is another volume.
	Path string
	// VM is the UUID of the VM that owns the volume.
	VM string
	// Detached says that the VM no longer has the volume. Otherwise the VM is off, and its definition doesn't count as a
	// use of the volume.
	Detached bool
	// Moved says that the VM runs on another host from a copy with the same path, which is another file: what the VM has
	// on other hosts doesn't count as a use.
	Moved bool
	// SeenIn is what DirectoryWith returned while the volume was there; "" if that is unknown.
	SeenIn string
	// Creating says that the volume may not have been created yet.
	Creating bool
	// Unbased says that no image is based on the volume, as on a first-boot medium.
	Unbased bool
	// Hosts are asked for users of the volume; if one of them can't answer, the volume isn't removed. Others are asked as
	// well, but don't have to answer.
	Hosts, Others hostset.Set
}

// Release removes a volume unless it is in use: then the error is ErrInUse. It is no error if an active pool doesn't
// have the volume, unless the file may exist all the same: then the error is ErrOtherPath, as for a pool that has
// another volume of the name. It returns libvirt.ErrNoPool if the pool doesn't exist, and libvirt.ErrPoolInactive if
// the pool isn't active.
func (s *Storage) Release(ctx context.Context, r Release) error {
	h, err := s.host(r.Host)
	if err != nil {
		return err
	}
	return s.locked(ctx, r.Host, r.Ref, "removing", func(ctx context.Context) error {
		read := readAgain
		if r.Creating { // libvirt may still be copying for a run that was killed, for as long as the copy takes.
			read = s.awaitIdle
			// QEMU is, too, if libvirtd was killed.
			if err := h.EndCopier(ctx, r.Ref.Pool, r.Ref.Name); err != nil {
				return err
			}
		}
		if err := read(ctx, h, r.Ref.Pool); err != nil && !errors.Is(err, libvirt.ErrNotFound) &&
			!errors.Is(err, libvirt.ErrOperationInvalid) {
			return err
		}
		v, err := h.PoolVolume(ctx, r.Ref.Pool, r.Ref.Name)
		if errors.Is(err, libvirt.ErrNotFound) {
			return s.verifyGone(ctx, h, r)
		}
		if err != nil {
			return err
		}
		if v.Path != r.Path {
			return errOtherPath(*v, r.Path)
		}
		users, err := s.otherUsers(ctx, r, h, *v)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return inUse(users[0])
		}
		return s.Handovers.remove(r.removal(), func() error { return h.DeleteVolume(ctx, r.Ref.Pool, r.Ref.Name) })
	})
}

// removal is the release for the VMs that are to have the volume.
func (r Release) removal() Removal {
	is := Removal{
		Hosts: append([]string{r.Host}, r.Hosts.Without(r.Host).Names()...), Path: r.Path, Ref: r.Ref,
		What: fmt.Sprintf("volume %s, which belonged to another VM", r.Ref),
	}
	if r.Detached || r.Moved {
		is.UUID = r.VM
	}
	return is
}

// readAgain has libvirt read a pool again. libvirt refuses that while a volume of the pool is made, and has no error
// number of its own for it: RefreshStoragePool waits for a moment, readAgain as long as a search, since a large disk
// takes minutes to be copied. What comes after the first failure is no cause: libvirt stops a pool that it can't read.
func readAgain(ctx context.Context, h *libvirt.Host, pool string) error {
	deadline := time.Now().Add(searchLimit)
	cause := h.RefreshStoragePool(ctx, pool)
	for err := cause; err != nil; err = h.RefreshStoragePool(ctx, pool) {
		if !errors.Is(err, libvirt.ErrInternal) || time.Now().After(deadline) {
			return cause
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), cause)
		}
	}
	return nil
}

// IsGone reports whether Release would find that a volume of a VM is gone. It removes nothing. It returns false if that
// isn't certain. seenIn is what DirectoryWith returned while the volume was there, or "".
func (s *Storage) IsGone(ctx context.Context, host string, ref Ref, at, seenIn string) (bool, error) {
	h, err := s.host(host)
	if err != nil {
		return false, err
	}
	switch err := readAgain(ctx, h, ref.Pool); {
	case errors.Is(err, libvirt.ErrOperationInvalid): // It has been stopped meanwhile.
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err = h.PoolVolume(ctx, ref.Pool, ref.Name); !errors.Is(err, libvirt.ErrNotFound) {
		return false, err
	}
	if err = s.verifyGone(ctx, h, Release{Host: host, Ref: ref, Path: at, SeenIn: seenIn}); errors.Is(err, ErrOtherPath) {
		return false, nil
	}
	return err == nil, err
}

// LooksGone is IsGone as of libvirt's last reading of the pool, for plans: it changes nothing. The error is ErrUnseen
// if the pool doesn't list the volume, and doesn't show either that it is gone.
func (s *Storage) LooksGone(ctx context.Context, host string, ref Ref, at, seenIn string) (bool, error) {
	h, err := s.host(host)
	if err != nil {
		return false, err
	}
	if _, err = h.PoolVolume(ctx, ref.Pool, ref.Name); !errors.Is(err, libvirt.ErrNotFound) {
		return false, err
	}
	err = s.verifyGone(ctx, h, Release{Host: host, Ref: ref, Path: at, SeenIn: seenIn})
	if err == nil && !path.IsAbs(at) && s.isListedElsewhere(ctx, host, ref) {
		return false, nil
	}
	return err == nil, err
}

// isListedElsewhere reports whether another host that shares the pool reads the volume: the list of a host that hasn't
// read the pool since another one created an RBD image lacks it, and there is no file to look for.
func (s *Storage) isListedElsewhere(ctx context.Context, host string, ref Ref) bool {
	others, err := s.Sharing(ctx, host, ref.Pool)
	return err == nil && len(hostset.Found(s.Volume(ctx, others, ref))) > 0
}

// CheckRelease returns an error if Release can't determine whether one of the volumes is in use. It is called before
// the VM is shut down, and removes nothing.
func (s *Storage) CheckRelease(ctx context.Context, volumes ...Release) error {
	doubts := map[string]bool{}
	for _, r := range volumes {
		if r.Unbased {
			continue
		}
		// What can't be read is the same for all volumes of a pool, and nearly always it is nothing.
		pool := r.Host + "/" + r.Ref.Pool
		if _, asked := doubts[pool]; !asked {
			is, err := s.users(ctx, r.Hosts, thorough)
			if err != nil {
				return fmt.Errorf("volume %s: can't determine whether it is in use: %w", r.Ref, err)
			}
			doubts[pool] = len(is.unclear) > 0
		}
		if !doubts[pool] {
			continue
		}
		if err := s.checkRelease(ctx, r); err != nil {
			return fmt.Errorf("volume %s: %w", r.Ref, err)
		}
	}
	return nil
}

func (s *Storage) checkRelease(ctx context.Context, r Release) error {
	h, err := s.host(r.Host)
	if err != nil {
		return err
	}
	v, err := s.ReadVolume(ctx, r.Host, r.Ref)
	if errors.Is(err, libvirt.ErrNotFound) {
		return nil
	}
	if err != nil || v.Path != r.Path {
		return err
	}
	_, err = s.usersButVM(ctx, r, h, thorough, *v)
	return err
}

// usersButVM returns the users of a volume but for its VM.
func (s *Storage) usersButVM(
	ctx context.Context, r Release, h *libvirt.Host, how search, v libvirt.Volume,
) ([]User, error) {
	is, err := s.users(ctx, r.Hosts, how, v)
	if err != nil {
		return nil, fmt.Errorf("can't determine whether it is in use: %w", err)
	}
	more, _ := s.KnownUsers(ctx, r.Others, v) // Hosts that don't answer don't share the pool.
	is.users = slices.DeleteFunc(append(is.users, more...), func(u User) bool {
		return u.UUID == r.VM && u.Volume == "" && (r.Moved || u.Host == h.Name() || !u.Active)
	})
	if r.Unbased {
		return is.users, nil
	}
	return is.users, is.known()
}

// verifyGone returns ErrOtherPath if the file of a volume that its pool doesn't list may exist all the same: the pool
// is in another directory now, libvirt's list is outdated, its filesystem isn't mounted, or the pool is empty, as it
// then usually is. A volume is gone from an empty pool if that has the very directory in which the volume was seen. A
// first-boot volume, which can be created again, also is if no filesystem that the host knows is missing.
func (s *Storage) verifyGone(ctx context.Context, h *libvirt.Host, r Release) error {
	pool := r.Ref.Pool
	is, err := h.StoragePool(ctx, pool)
	if err != nil {
		return err
	}
	p, err := ReadPool(cmp.Or(is.LiveXML, is.XML))
	if err != nil {
		return err
	}
	at := p.VolumePath(r.Ref.Name)
	switch {
	case p.Directory() == "" && at != "" && at != r.Path:
		return fmt.Errorf("%w: storage pool %q would have it at %s now. Remove %s by hand", ErrOtherPath, pool, at, r.Path)
	case p.Directory() == "":
		return nil
	case path.Clean(p.Directory()) != path.Dir(r.Path):
		return fmt.Errorf("%w: storage pool %q is in %s now, and %s is outside it. Remove that file by hand", ErrOtherPath,
			pool, p.Directory(), r.Path)
	case s.HasFile(ctx, r.Host, r.Path):
		return fmt.Errorf("%w: storage pool %q doesn't list it, but the host has %s. Run \"virsh pool-refresh %[2]s\" on "+
			"the host, then delete it: virsh vol-delete --pool %[2]s %[4]s", ErrOtherPath, pool, r.Path, r.Ref.Name)
	case r.Creating:
		return nil
	}
	if err := s.checkMounted(ctx, h, pool); errors.Is(err, ErrUnmounted) {
		return fmt.Errorf("%w: %w. Then delete the file: virsh vol-delete --pool %s %s", ErrUnseen, err, pool, r.Ref.Name)
	} else if err != nil {
		return err
	}
	volumes, err := h.PoolVolumes(ctx, pool)
	if err != nil || len(volumes) > 0 || s.hasLeft(ctx, r) || r.Unbased && s.isAbsent(ctx, r.Host, r.Path) {
		return err
	}
	return fmt.Errorf("%w: %s of storage pool %q may be on a filesystem that isn't mounted, or is gone. %s, then delete "+
		"the file: virsh vol-delete --pool %[3]s %[5]s", ErrUnseen, r.Path, pool, MountFirst(pool), r.Ref.Name)
}

// otherUsers returns the users of a volume that still use it when its VM is gone.
func (s *Storage) otherUsers(ctx context.Context, r Release, h *libvirt.Host, v libvirt.Volume) ([]User, error) {
	users, err := s.usersButVM(ctx, r, h, final, v)
	if err != nil {
		return nil, err
	}
	d, err := h.SettledDomain(ctx, r.VM)
	if errors.Is(err, libvirt.ErrNotFound) {
		return users, nil
	}
	if err != nil {
		return nil, err
	}
	// The metadata names the volume while it is recorded there, which doesn't count as a use.
	wanted, err := s.sought(ctx, h, v, pathsIn(d.LiveXML, d.PersistentXML), true)
	if err != nil {
		return nil, err
	}
	uses := wanted.usedByDevices(d.LiveXML)
	if r.Detached {
		uses = uses || wanted.usedByDevices(d.PersistentXML)
	}
	if uses {
		users = append(users, User{Host: h.Name(), VM: d.Name, UUID: d.UUID, Active: d.Active()})
	}
	return users, nil
}

// usedByDevices reports whether a definition names the volume outside its metadata.
func (v sought) usedByDevices(document string) bool {
	doc := etree.NewDocument()
	if document == "" {
		return false
	}
	if doc.ReadFromString(document) != nil || doc.Root() == nil {
		return true // This is unknown.
	}
	for _, metadata := range doc.Root().SelectElements("metadata") {
		doc.Root().RemoveChild(metadata)
	}
	rest, err := doc.WriteToString()
	if err != nil {
		return true
	}
	_, used := v.usedBy(rest)
	return used
}
