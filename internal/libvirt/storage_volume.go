package libvirt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// ErrPoolInactive says that a storage pool exists and isn't started, so that libvirt doesn't know what it contains.
var ErrPoolInactive = fmt.Errorf("%w: the storage pool is not active", ErrOperationInvalid)

// ErrNoPool says that the host has no storage pool of that name. Whether the content of such a pool exists is unknown.
var ErrNoPool = fmt.Errorf("%w: the host has no such storage pool", ErrOperationInvalid)

// NewVolume says how a volume is created.
type NewVolume struct {
	Name, Pool string
	// Document is the volume's XML.
	Document string
	// From is a volume of the same host whose content is copied to the new volume; "" if there is none.
	FromPool, From string
	// PreallocateMetadata writes the tables of a qcow2 image at once.
	PreallocateMetadata bool
	// Encrypted says that Document has a LUKS passphrase.
	Encrypted bool
}

// PoolVolume reads a volume of a pool (virStorageVolLookupByName, virStorageVolGetXMLDesc). It returns ErrNotFound if
// an active pool has no such volume, as of its last refresh, and ErrPoolInactive or ErrNoPool if that is unknown.
func (h *Host) PoolVolume(ctx context.Context, pool, name string) (*Volume, error) {
	return readInPool(ctx, h, readCall("reading volume "+pool+"/"+name), pool, withVolume(name, (*conn).readVolume))
}

// VolumeNames returns the names of the volumes of a pool (virStoragePoolListVolumes). Its errors are those of
// PoolVolume.
func (h *Host) VolumeNames(ctx context.Context, pool string) ([]string, error) {
	return readInPool(ctx, h, readCall("listing the volumes of pool "+pool), pool,
		func(c *conn, p *golibvirt.StoragePool) ([]string, error) {
			c.countCall("virStoragePoolListVolumes")
			return p.ListStorageVolumes()
		})
}

// PoolVolumes reads the volumes of a pool (virStoragePoolListAllVolumes, virStorageVolGetXMLDesc). It leaves out
// volumes that vanish meanwhile. Its errors are those of PoolVolume.
func (h *Host) PoolVolumes(ctx context.Context, pool string) ([]Volume, error) {
	return readInPool(ctx, h, readingAll("listing the volumes of pool "+pool), pool,
		func(c *conn, p *golibvirt.StoragePool) (volumes []Volume, err error) {
			c.countCall("virStoragePoolListAllVolumes")
			all, err := p.ListAllStorageVolumes(0)
			if err != nil {
				return nil, err
			}
			read := make([]*Volume, len(all))
			calls := c.newPipeline()
			for i := range all {
				calls.Go(func() (err error) {
					read[i], err = c.readListed(ctx, &all[i])
					return err
				})
				if i == 0 { // If the storage doesn't answer, one call hangs, and not one for each volume.
					_ = calls.Wait()
				}
			}
			err = calls.Wait()
			for i := range all {
				if read[i] != nil {
					read[i].Pool = pool
					volumes = append(volumes, *read[i])
				}
				err = errors.Join(err, all[i].Free())
			}
			return volumes, err
		})
}

// readListed reads a volume of a list, nil if it has vanished.
func (c *conn) readListed(ctx context.Context, volume *golibvirt.StorageVol) (*Volume, error) {
	again := isStale
	// The key of an RBD image is <pool>/<image>, that of others a path, a UUID or a serial number.
	if key, err := volume.GetKey(); err == nil && strings.Index(key, "/") > 0 {
		again = isUnbuilt
	}
	document, err := retryRead(ctx, again, func() (string, error) {
		c.countCall("virStorageVolGetXMLDesc")
		return volume.GetXMLDesc(0)
	})
	if codeOf(err) == golibvirt.ERR_NO_STORAGE_VOL {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseVolume(document)
}

const (
	// staleTries is the number of attempts to read a volume whose file another host has removed or replaced.
	staleTries = 10
	stalePause = 500 * time.Millisecond
)

// retryRead calls read again while again says that its error may pass. A host may still know a file of a network file
// system as it was: another host has removed or replaced the file, and reading it fails. A second or so later, the host
// knows what is there.
func retryRead(
	ctx context.Context, again func(error) bool, read func() (string, error),
) (document string, err error) {
	document, err = read()
	for tries := 1; again(err) && tries < staleTries; tries++ {
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(stalePause):
		}
		document, err = read()
	}
	return document, err
}

// isStale reports whether libvirt's error is ESTALE.
func isStale(err error) bool {
	var lv golibvirt.Error
	return errors.As(err, &lv) && lv.Code == golibvirt.ERR_SYSTEM_ERROR && strings.Contains(lv.Message, staleFile)
}

// isUnbuilt reports whether an error may say that a listed volume of network storage isn't there: libvirt lists an RBD
// image before it creates it, and until it has removed it.
func isUnbuilt(err error) bool { return codeOf(err) == golibvirt.ERR_SYSTEM_ERROR }

// CreateVolume creates a volume (virStorageVolCreateXML, virStorageVolCreateXMLFrom). It leaves an existing volume
// alone, and returns ErrExists, or ErrOperationInvalid if the pool doesn't know the volume yet.
func (h *Host) CreateVolume(ctx context.Context, v NewVolume) error {
	s := changeCall("creating volume " + v.Pool + "/" + v.Name)
	_, err := inPool(ctx, h, s, v.Pool, func(c *conn, p *golibvirt.StoragePool) (struct{}, error) {
		// libvirt refuses this while another volume of the pool is created, which may take long.
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

// encryptableName is the form that QEMU accepts for the id of an object.
var encryptableName = regexp.MustCompile(`^[A-Za-z][-._A-Za-z0-9]*$`)

// NameRuleOfEncrypted is EncryptableName in words.
const NameRuleOfEncrypted = `it has to begin with a letter, and may contain letters, digits, "-", "." and "_"`

// EncryptableName reports whether libvirt can create an encrypted volume of that name: libvirt names the object with
// the passphrase, which it passes to qemu-img, after the volume. Volumes that other programs created may have other
// names.
func EncryptableName(name string) bool { return encryptableName.MatchString(name) }

// volumeTries is the number of attempts to create an encrypted volume.
const volumeTries = 4

// tryVolume creates a volume, and repeats that for an encrypted volume if qemu-img fails. qemu-img measures how fast
// the CPU derives keys, and fails by chance if another process uses the CPU meanwhile. libvirt has one error number for
// all failures of qemu-img, which removes a volume that it can't complete.
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
	if err := c.verifyNoVolume(p, v.Name); err != nil {
		return nil, err
	}
	c.countCall("virStorageVolCreateXMLFrom")
	return p.StorageVolCreateXMLFrom(v.Document, source, flags)
}

// verifyNoVolume returns ErrExists if the pool has the volume, also if libvirt is still creating it. When it copies,
// libvirt has no error number of its own for that.
func (c *conn) verifyNoVolume(p *golibvirt.StoragePool, name string) error {
	c.countCall("virStorageVolLookupByName")
	volume, err := p.LookupStorageVolByName(name)
	if err == nil {
		exists := golibvirt.Error{Code: golibvirt.ERR_STORAGE_VOL_EXIST, Message: "the storage pool has such a volume"}
		return errors.Join(exists, volume.Free())
	}
	if codeOf(err) == golibvirt.ERR_NO_STORAGE_VOL {
		return nil
	}
	return err
}

// GrowVolume grows a volume that VMs use with the format, or with the one that libvirt has found if it is "", to that
// many bytes. No VM that uses the volume may be running. If libvirt takes a raw file for something else, its last byte
// is written instead, without allocating the rest: libvirt would resize what it has found in the file.
func (h *Host) GrowVolume(ctx context.Context, v Volume, format string, bytes uint64, allocate bool) error {
	if !v.isMisread(format) {
		return h.resizeVolume(ctx, v.Pool, v.Name, bytes, allocate)
	}
	if bytes <= v.PhysicalBytes {
		return fmt.Errorf("%w: volume %s/%s has %d bytes, and growing it to %d would write into them", ErrInvalid, v.Pool,
			v.Name, v.PhysicalBytes, bytes)
	}
	// A hole would be written by setting the length of the file, which can also cut it.
	return h.UploadVolume(ctx, Upload{
		Pool: v.Pool, Name: v.Name, Content: zeros{}, Offset: bytes - 1, Length: 1,
		Skip: func(uint64) bool { return false },
	})
}

// resizeVolume is virStorageVolResize.
func (h *Host) resizeVolume(ctx context.Context, pool, name string, bytes uint64, allocate bool) error {
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

// DeleteVolume removes a volume and its content (virStorageVolDelete). It is no error if the volume doesn't exist.
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

// VolumeBytes reads that many bytes of a volume's content from offset on, or up to its end (virStorageVolDownload).
func (h *Host) VolumeBytes(ctx context.Context, pool, name string, offset, length uint64) ([]byte, error) {
	return onVolume(ctx, h, monitorCall("reading volume "+pool+"/"+name), pool, name,
		func(c *conn, v *golibvirt.StorageVol) ([]byte, error) { return c.bytesAt(v, offset, length) })
}

// BlockResize resizes the disk of a running domain, and the file behind it, to that many bytes. disk is a target
// ("vda") or a path (virDomainBlockResize).
func (h *Host) BlockResize(ctx context.Context, uuid, disk string, bytes uint64) error {
	defer h.volumeChanges.Add(1)
	return h.runOnDomain(ctx, changeCall("growing disk "+disk+" of domain "+uuid), uuid, "virDomainBlockResize",
		func(d *golibvirt.Domain) error {
			return d.BlockResize(disk, bytes, golibvirt.DOMAIN_BLOCK_RESIZE_BYTES)
		})
}

// onVolume runs f on a volume. Its errors are those of PoolVolume.
func onVolume[T any](
	ctx context.Context, h *Host, s callSpec, pool, name string, f func(*conn, *golibvirt.StorageVol) (T, error),
) (T, error) {
	return inPool(ctx, h, s, pool, withVolume(name, f))
}

// withVolume returns the function that runs f on a volume of a pool.
func withVolume[T any](
	name string, f func(*conn, *golibvirt.StorageVol) (T, error),
) func(*conn, *golibvirt.StoragePool) (T, error) {
	return func(c *conn, p *golibvirt.StoragePool) (value T, err error) {
		c.countCall("virStorageVolLookupByName")
		volume, err := p.LookupStorageVolByName(name)
		if err != nil {
			return value, err
		}
		defer func() { err = errors.Join(err, volume.Free()) }()
		return f(c, volume)
	}
}

// readTries is the number of attempts to read in a pool that others stop and start meanwhile.
const readTries = 5

// readInPool is inPool for an f that only reads. libvirt refuses that while the pool isn't active. If the pool is
// active again when inPool asks why, readInPool runs f again.
func readInPool[T any](
	ctx context.Context, h *Host, s callSpec, pool string, f func(*conn, *golibvirt.StoragePool) (T, error),
) (value T, err error) {
	for range readTries {
		value, err = inPool(ctx, h, s, pool, f)
		refused := errors.Is(err, ErrOperationInvalid)
		if !refused || errors.Is(err, ErrPoolInactive) || errors.Is(err, ErrNoPool) {
			return value, err
		}
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Kind = ErrPoolInactive // It was inactive at every attempt.
	}
	return value, err
}

// inPool runs f on a pool, which must be active for libvirt to know its volumes.
func inPool[T any](
	ctx context.Context, h *Host, s callSpec, pool string, f func(*conn, *golibvirt.StoragePool) (T, error),
) (T, error) {
	value, err := callPool(ctx, h, s, storage{pool: pool, files: true}, f)
	return value, h.ofPool(ctx, pool, err)
}

// ofPool returns ErrNoPool or ErrPoolInactive if a refusal is about the pool, and err if it is about the volume.
func (h *Host) ofPool(ctx context.Context, pool string, err error) error {
	var e *Error
	switch {
	case !errors.As(err, &e):
	case e.Code == int(golibvirt.ERR_NO_STORAGE_POOL):
		e.Kind = ErrNoPool
	case errors.Is(err, ErrOperationInvalid):
		switch p, lookErr := h.StoragePool(ctx, pool); {
		case errors.Is(lookErr, ErrNotFound): // It was stopped at the time of the refusal, and is undefined since.
			e.Kind = ErrNoPool
		case lookErr == nil && !p.Active:
			e.Kind = ErrPoolInactive
		}
	}
	return err
}

// bytesAt reads bytes of a volume from an offset on.
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
