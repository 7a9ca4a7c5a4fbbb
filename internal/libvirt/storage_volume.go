package libvirt

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	golibvirt "libvirt.org/go/libvirt"
)

// ErrPoolInactive says that a storage pool is there and isn't started, so that libvirt can't tell what is in it.
var ErrPoolInactive = fmt.Errorf("%w: the storage pool is not active", ErrOperationInvalid)

// ErrNoPool says that the host has no storage pool of that name, which says nothing of what was in it.
var ErrNoPool = fmt.Errorf("%w: the host has no such storage pool", ErrOperationInvalid)

// NewVolume is how a volume is made.
type NewVolume struct {
	Name, Pool string
	// Document is libvirt's XML of it.
	Document string
	// From is a volume of the same host whose content it begins with: "" is none.
	FromPool, From string
	// PreallocateMetadata writes the tables of a qcow2 image at once.
	PreallocateMetadata bool
	// Encrypted says that Document has a LUKS passphrase.
	Encrypted bool
}

// PoolVolume reads a volume of a pool. ErrNotFound says that an active pool has no such volume, as it was when it was
// last refreshed; ErrPoolInactive and ErrNoPool say that it can't be told (virStorageVolLookupByName,
// virStorageVolGetXMLDesc).
func (h *Host) PoolVolume(ctx context.Context, pool, name string) (*Volume, error) {
	return onVolume(ctx, h, readCall("reading volume "+pool+"/"+name), pool, name, (*conn).readVolume)
}

// PoolVolumes reads the volumes of a pool (virStoragePoolListAllVolumes, virStorageVolGetXMLDesc). One that vanishes
// meanwhile is left out. Its errors are those of PoolVolume.
func (h *Host) PoolVolumes(ctx context.Context, pool string) ([]Volume, error) {
	return inPool(ctx, h, readCall("listing the volumes of pool "+pool), pool,
		func(c *conn, p *golibvirt.StoragePool) (volumes []Volume, err error) {
			c.countCall("virStoragePoolListAllVolumes")
			all, err := p.ListAllStorageVolumes(0)
			if err != nil {
				return nil, err
			}
			for i := range all {
				c.countCall("virStorageVolGetXMLDesc")
				document, readErr := all[i].GetXMLDesc(0)
				if readErr == nil {
					v, parseErr := parseVolume(document)
					if parseErr == nil {
						v.Pool = pool
						volumes = append(volumes, *v)
					}
					readErr = parseErr
				}
				if codeOf(readErr) != golibvirt.ERR_NO_STORAGE_VOL {
					err = errors.Join(err, readErr)
				}
				err = errors.Join(err, all[i].Free())
			}
			return volumes, err
		})
}

// CreateVolume makes a volume. One that is there already is left alone: the error is ErrExists, or ErrOperationInvalid
// where the pool doesn't know it yet (virStorageVolCreateXML, virStorageVolCreateXMLFrom).
func (h *Host) CreateVolume(ctx context.Context, v NewVolume) error {
	s := changeCall("making volume " + v.Pool + "/" + v.Name)
	_, err := inPool(ctx, h, s, v.Pool, func(c *conn, p *golibvirt.StoragePool) (struct{}, error) {
		// Refused while another volume of the pool is made, which may take long.
		c.countCall("virStoragePoolRefresh")
		_ = p.Refresh(0)
		flags := golibvirt.StorageVolCreateFlags(0)
		if v.PreallocateMetadata {
			flags = golibvirt.STORAGE_VOL_CREATE_PREALLOC_METADATA
		}
		volume, err := tryVolume(v.Encrypted, func() (*golibvirt.StorageVol, error) { return c.createVolume(p, v, flags) })
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, volume.Free()
	})
	return err
}

// encryptableName is what QEMU takes for the id of an object.
var encryptableName = regexp.MustCompile(`^[A-Za-z][-._A-Za-z0-9]*$`)

// NameRuleOfEncrypted is EncryptableName in words.
const NameRuleOfEncrypted = `it has to begin with a letter, and may contain letters, digits, "-", "." and "_"`

// EncryptableName says whether libvirt can make an encrypted volume of that name: it calls the object with the
// passphrase that qemu-img is given after it. Volumes that others made may have other names.
func EncryptableName(name string) bool { return encryptableName.MatchString(name) }

// volumeTries is how often an encrypted volume is tried to be made.
const volumeTries = 4

// tryVolume makes a volume, an encrypted one again if qemu-img failed: it measures how fast the CPU derives keys, and
// gives up by chance where another process has the CPU meanwhile. libvirt's number for that is the one for all errors
// of qemu-img, which removes what it can't complete.
func tryVolume(encrypted bool, create func() (*golibvirt.StorageVol, error)) (*golibvirt.StorageVol, error) {
	volume, err := create()
	for tries := 1; encrypted && codeOf(err) == golibvirt.ERR_INTERNAL_ERROR && tries < volumeTries; tries++ {
		volume, err = create()
	}
	return volume, err
}

func (c *conn) createVolume(
	p *golibvirt.StoragePool, v NewVolume, flags golibvirt.StorageVolCreateFlags,
) (made *golibvirt.StorageVol, err error) {
	if v.From == "" {
		c.countCall("virStorageVolCreateXML")
		return p.StorageVolCreateXML(v.Document, flags)
	}
	c.countCall("virStoragePoolLookupByName")
	pool, err := c.c.LookupStoragePoolByName(v.FromPool)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Free()) }()
	c.countCall("virStorageVolLookupByName")
	source, err := pool.LookupStorageVolByName(v.From)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, source.Free()) }()
	c.countCall("virStorageVolCreateXMLFrom")
	return p.StorageVolCreateXMLFrom(v.Document, source, flags)
}

// ResizeVolume gives a volume that many bytes, more than it has (virStorageVolResize). No VM may be running on it.
func (h *Host) ResizeVolume(ctx context.Context, pool, name string, bytes uint64, allocate bool) error {
	_, err := onVolume(ctx, h, changeCall("growing volume "+pool+"/"+name), pool, name,
		func(c *conn, v *golibvirt.StorageVol) (struct{}, error) {
			c.countCall("virStorageVolResize")
			flags := golibvirt.StorageVolResizeFlags(0)
			if allocate {
				flags = golibvirt.STORAGE_VOL_RESIZE_ALLOCATE
			}
			return struct{}{}, v.Resize(bytes, flags)
		})
	return err
}

// DeleteVolume removes a volume and its content. One that isn't there is no error (virStorageVolDelete).
func (h *Host) DeleteVolume(ctx context.Context, pool, name string) error {
	_, err := onVolume(ctx, h, changeCall("deleting volume "+pool+"/"+name), pool, name,
		func(c *conn, v *golibvirt.StorageVol) (struct{}, error) {
			c.countCall("virStorageVolDelete")
			return struct{}{}, v.Delete(golibvirt.STORAGE_VOL_DELETE_NORMAL)
		})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// VolumeBytes reads that many bytes of a volume's content, beginning at offset, fewer where it has no more
// (virStorageVolDownload).
func (h *Host) VolumeBytes(ctx context.Context, pool, name string, offset, length uint64) ([]byte, error) {
	return onVolume(ctx, h, monitorCall("reading volume "+pool+"/"+name), pool, name,
		func(c *conn, v *golibvirt.StorageVol) ([]byte, error) { return c.bytesAt(v, offset, length) })
}

// BlockResize gives the disk of a running domain that many bytes, and the file behind it. Disk is a target ("vda") or a
// path (virDomainBlockResize).
func (h *Host) BlockResize(ctx context.Context, uuid, disk string, bytes uint64) error {
	return h.runOnDomain(ctx, changeCall("growing disk "+disk+" of domain "+uuid), uuid, "virDomainBlockResize",
		func(d *golibvirt.Domain) error {
			return d.BlockResize(disk, bytes, golibvirt.DOMAIN_BLOCK_RESIZE_BYTES)
		})
}

// onVolume runs f on a volume. Its errors are those of PoolVolume.
func onVolume[T any](
	ctx context.Context, h *Host, s callSpec, pool, name string, f func(*conn, *golibvirt.StorageVol) (T, error),
) (T, error) {
	return inPool(ctx, h, s, pool, func(c *conn, p *golibvirt.StoragePool) (value T, err error) {
		c.countCall("virStorageVolLookupByName")
		volume, err := p.LookupStorageVolByName(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, volume.Free()) }()
		return f(c, volume)
	})
}

// inPool runs f on a pool that has to be active to tell of its volumes.
func inPool[T any](
	ctx context.Context, h *Host, s callSpec, pool string, f func(*conn, *golibvirt.StoragePool) (T, error),
) (T, error) {
	value, err := onStoragePool(ctx, h, s, pool, f)
	return value, h.ofPool(ctx, pool, err)
}

// ofPool finds out whether a refusal is about the pool, and not about the volume.
func (h *Host) ofPool(ctx context.Context, pool string, err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
	case e.Code == int(golibvirt.ERR_NO_STORAGE_POOL):
		e.Kind = ErrNoPool
	case errors.Is(err, ErrOperationInvalid):
		if p, lookErr := h.StoragePool(ctx, pool); lookErr == nil && !p.Active {
			e.Kind = ErrPoolInactive
		}
	}
	return err
}

// bytesAt is head from an offset on.
func (c *conn) bytesAt(volume *golibvirt.StorageVol, offset, length uint64) (data []byte, err error) {
	stream, err := c.c.NewStream(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Free()) }()
	c.countCall("virStorageVolDownload")
	if err := volume.Download(stream, offset, length, 0); err != nil {
		return nil, err
	}
	return receiveBytes(stream, length)
}
