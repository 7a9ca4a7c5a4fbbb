package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrNoSpace says that a pool has less space left than a new volume occupies at once.
var ErrNoSpace = errors.New("no space left")

// Preallocations of a volume.
const (
	// PreallocationOff occupies space only when it is written to: thin.
	PreallocationOff = "off"
	// PreallocationMetadata writes the tables of a qcow2 image at once.
	PreallocationMetadata = "metadata"
	// PreallocationFull occupies all space at once: thick.
	PreallocationFull = "full"
)

// Preallocations returns all of them.
func Preallocations() []string {
	return []string{PreallocationOff, PreallocationMetadata, PreallocationFull}
}

// Thick reports whether a volume with this preallocation occupies all its space at once.
func Thick(preallocation string) bool { return preallocation == PreallocationFull }

// GrowsThick reports whether a volume with this preallocation also occupies the space that it grows by while no VM runs
// on it. libvirt does that for raw files only, and refuses it in Ceph, where it makes every volume thin.
func GrowsThick(preallocation string, v libvirt.Volume) bool {
	return Thick(preallocation) && v.Format == "raw" && kindOf(v.PoolType).protocol == ""
}

// Disk is a volume to create.
type Disk struct {
	Pool, Name string
	// Format is "raw", "qcow2" or another format that libvirt can create; "" means qcow2 for an overlay and in pools of
	// files, and raw in others.
	Format string
	// Bytes is the size that a guest sees. 0 means the size of the source.
	Bytes uint64
	// Overlay is the volume that the new volume is based on, Clone the volume that it is a copy of: at most one of them.
	Overlay, Clone *Ref
	// CloneWritten says that a guest may have written to Clone: what libvirt finds in it doesn't decide about its format.
	CloneWritten bool
	// VM is the UUID of the VM for which the volume is created, whose lock the caller holds; "" for none.
	VM string
	// Preallocation is one of Preallocations; "" is off.
	Preallocation string
	// Mode, Owner and Group are those of the file; if "", libvirt chooses.
	Mode, Owner, Group string
	// Content is the initial content of a raw volume; nil if there is none.
	Content []byte
	// Secret is the UUID of the host's secret with the passphrase of a LUKS volume; "" if the volume is not encrypted.
	Secret string
	// Lasting says that the volume isn't recorded with a VM: while it is created, that is recorded on the host.
	Lasting bool
	// misread is how many bytes of Clone this process copies, because libvirt takes it for something else than it is; 0:
	// libvirt copies it.
	misread uint64
	// filledFrom is the source if QEMU copies it, because libvirt can't copy into the pool; otherwise nil.
	filledFrom *libvirt.Volume
}

// CreateVolume creates a volume on a host whose pool is active, and returns it. It leaves an existing volume alone, and
// returns libvirt.ErrExists, except for a Lasting one that an earlier call has left because it was killed or the host
// didn't answer: that is created again. If CreateVolume fails, it removes what it has created if the host answers.
func (s *Storage) CreateVolume(ctx context.Context, host string, d Disk) (made *libvirt.Volume, err error) {
	h, err := s.host(host)
	if err != nil {
		return nil, err
	}
	err = s.locked(ctx, host, d.ref(), "creating", func(ctx context.Context) error {
		made, err = s.createVolume(ctx, h, d)
		return err
	})
	return made, d.explainLate(err)
}

func (s *Storage) createVolume(
	ctx context.Context, h *libvirt.Host, d Disk,
) (made *libvirt.Volume, err error) {
	pool, err := h.StoragePool(ctx, d.Pool)
	if err != nil {
		return nil, err
	}
	is, err := ReadPool(pool.XML)
	if err != nil {
		return nil, err
	}
	if err := is.CheckVolume(d); err != nil {
		return nil, err
	}
	ctx, release, err := s.holdWriters(ctx, h, d)
	if err != nil {
		return nil, err
	}
	defer release()
	err = s.withSource(ctx, h, &d, is.Type, func(ctx context.Context, source *libvirt.Volume) error {
		made, err = s.createFrom(ctx, h, d, is.Type, source)
		return err
	})
	return made, err
}

// createFrom creates the volume in a pool of that type from source, nil for none.
func (s *Storage) createFrom(
	ctx context.Context, h *libvirt.Host, d Disk, pool string, source *libvirt.Volume,
) (made *libvirt.Volume, err error) {
	v := libvirt.NewVolume{
		Pool: d.Pool, Name: d.Name, PreallocateMetadata: d.preallocatesMetadata(), Encrypted: d.Secret != "",
	}
	if err = d.chooseCopier(pool, source, &v); err != nil {
		return nil, err
	}
	if v.Document, err = d.document(pool, source); err != nil {
		return nil, err
	}
	if d.Lasting {
		if err := s.beginVolume(ctx, h, d, source); err != nil {
			return nil, err
		}
	}
	made, mayBeLeft, err := s.createInRoom(ctx, h, d, v, source)
	if d.Lasting && mayBeLeft {
		s.endFailedVolume(ctx, h, d.ref())
	} else if d.Lasting {
		s.endVolume(ctx, h, d.ref())
	}
	if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrOvercommitted) {
		if _, there := h.PoolVolume(ctx, d.Pool, d.Name); there == nil {
			return nil, errVolumeExists(d)
		}
	}
	return made, explainFull(ctx, h, d.Pool, d.need(source), err)
}

// complete sets the format and the size, if the caller has left them open, for a volume in a pool of that type, and the
// preallocation if that pool has no other. It returns the volume that the new one is made from, nil for none.
func (s *Storage) complete(
	ctx context.Context, h *libvirt.Host, d *Disk, pool string,
) (source *libvirt.Volume, err error) {
	if d.Format == "" {
		d.Format = "raw"
		if d.Secret == "" && (d.Overlay != nil || kindOf(pool).anyFormat) {
			d.Format = "qcow2"
		}
	}
	if kindOf(pool).thick {
		d.Preallocation = PreallocationFull
	}
	ref := d.source()
	if ref == nil {
		return nil, nil
	}
	switch {
	case d.image() != nil:
		source, err = s.wholeCopy(ctx, h, *ref)
	case d.Clone != nil && d.CloneWritten:
		source, err = s.readWritten(ctx, h, d)
	default:
		source, err = h.PoolVolume(ctx, ref.Pool, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("volume %s, which it is made from: %w", ref, err)
	}
	if d.Bytes == 0 {
		d.Bytes = source.CapacityBytes
	}
	if d.Bytes < source.CapacityBytes {
		return nil, fmt.Errorf("%w: %d bytes are fewer than the %d of volume %s, which it is made from",
			libvirt.ErrInvalid, d.Bytes, source.CapacityBytes, ref)
	}
	return source, nil
}

// createInRoom creates the volume if its pool has room for it. If it fails, mayBeLeft says that a part of the volume
// may be left: only what this call has begun to create may be removed by a later one.
func (s *Storage) createInRoom(
	ctx context.Context, h *libvirt.Host, d Disk, v libvirt.NewVolume, source *libvirt.Volume,
) (made *libvirt.Volume, mayBeLeft bool, err error) {
	err = s.taking(ctx, h.Name(), d.Pool, Demand{Now: d.need(source), Growth: d.Bytes}, func(ctx context.Context) error {
		var created bool
		made, created, err = s.createAndFinish(ctx, h, d, v)
		mayBeLeft = leavesVolume(created, err)
		return err
	})
	return made, mayBeLeft, err
}

// leavesVolume reports whether a creation with that error may have left a part of the volume. created says that libvirt
// created it: then the error is of a later step, for example because the pool was stopped meanwhile.
func leavesVolume(created bool, err error) bool {
	// libvirt says ErrOperationInvalid about a file that the pool doesn't know.
	refused := errors.Is(err, libvirt.ErrExists) || errors.Is(err, libvirt.ErrOperationInvalid)
	return err != nil && (created || !refused)
}

func (s *Storage) createAndFinish(
	ctx context.Context, h *libvirt.Host, d Disk, v libvirt.NewVolume,
) (made *libvirt.Volume, created bool, err error) {
	if err := h.CreateVolume(ctx, v); err != nil {
		return nil, false, err
	}
	made, err = s.finishVolume(ctx, h, d)
	if err != nil {
		cleaning, cancel := hostset.CleanupOn(ctx, h)
		defer cancel()
		return nil, true, errors.Join(err, h.DeleteVolume(cleaning, d.Pool, d.Name))
	}
	s.Handovers.made(h.Name(), d.ref())
	return made, true, nil
}

// finishVolume writes the content that libvirt doesn't write, and resizes a clone to the requested size: libvirt
// creates a clone as large as its source.
func (s *Storage) finishVolume(ctx context.Context, h *libvirt.Host, d Disk) (*libvirt.Volume, error) {
	if err := s.copyForLibvirt(ctx, h, d); err != nil {
		return nil, err
	}
	if d.Content != nil {
		if err := h.UploadVolume(ctx, libvirt.Upload{
			Pool: d.Pool, Name: d.Name, Content: bytes.NewReader(d.Content), Length: uint64(len(d.Content)),
		}); err != nil {
			return nil, err
		}
	}
	made, err := h.PoolVolume(ctx, d.Pool, d.Name)
	if err != nil || made.UsedAs(d.usedFormat()).CapacityBytes >= d.Bytes {
		return made, err
	}
	if err := h.GrowVolume(ctx, *made, d.usedFormat(), d.Bytes, GrowsThick(d.Preallocation, *made)); err != nil {
		return nil, err
	}
	return h.PoolVolume(ctx, d.Pool, d.Name)
}

// usedFormat returns the format of the volume for libvirt.Volume.UsedAs: the copied content may begin like something
// else. An encrypted volume is what libvirt finds.
func (d *Disk) usedFormat() string {
	if d.Secret != "" {
		return ""
	}
	return d.Format
}

func (d *Disk) ref() Ref { return Ref{Pool: d.Pool, Name: d.Name} }

func (d *Disk) source() *Ref {
	if d.Overlay != nil {
		return d.Overlay
	}
	return d.Clone
}

// preallocatesMetadata reports whether libvirt is to write the tables of the image. Without them it leaves all of a
// qcow2 image thin, whatever its allocation.
func (d *Disk) preallocatesMetadata() bool {
	return d.Preallocation == PreallocationMetadata || Thick(d.Preallocation) && d.Format == "qcow2" && d.Overlay == nil
}

// SnapshotNeeds reports whether a volume is an LVM snapshot that loses all its data once more is written to it than it
// has space for, and how many bytes it needs for everything that a guest can write: LVM keeps a table of what has
// changed, of less than a hundredth.
func SnapshotNeeds(v libvirt.Volume) (bytes uint64, loses bool) {
	if !kindOf(v.PoolType).thick || v.AllocationBytes >= v.CapacityBytes {
		return 0, false
	}
	return v.CapacityBytes + v.CapacityBytes/100 + extent, true
}

// need returns the space that the volume occupies when it is created.
func (d *Disk) need(source *libvirt.Volume) uint64 {
	switch {
	case Thick(d.Preallocation) && d.Overlay == nil: // libvirt makes every overlay thin.
		return d.Bytes
	case d.Clone != nil:
		return source.AllocationBytes
	default:
		return 0
	}
}

// document returns libvirt's XML of the volume, which is complete, in a pool of that type.
func (d *Disk) document(pool string, source *libvirt.Volume) (string, error) {
	root := etree.NewElement("volume")
	root.CreateElement("name").SetText(d.Name)
	capacity, allocation := d.Bytes, uint64(0)
	if d.filledFrom != nil { // QEMU copies to a disk of the same size. The new one grows then.
		capacity = d.filledFrom.CapacityBytes
	}
	root.CreateElement("capacity").SetText(strconv.FormatUint(capacity, 10))
	if Thick(d.Preallocation) {
		allocation = capacity
	}
	root.CreateElement("allocation").SetText(strconv.FormatUint(allocation, 10))
	target := root.CreateElement("target")
	// A partition table has names of its own for the formats of partitions.
	if !kindOf(pool).partitions || d.Format != "raw" {
		target.CreateElement("format").CreateAttr("type", d.Format)
	}
	if d.Format == "qcow2" {
		target.CreateElement("compat").SetText("1.1") // Older versions of libvirt would create an image for QEMU before 1.1.
	}
	permissions := etree.NewElement("permissions")
	for _, p := range []struct{ tag, value string }{{"mode", d.Mode}, {"owner", d.Owner}, {"group", d.Group}} {
		if p.value != "" {
			permissions.CreateElement(p.tag).SetText(p.value)
		}
	}
	if len(permissions.ChildElements()) > 0 {
		target.AddChild(permissions)
	}
	if d.Secret != "" {
		encryption := target.CreateElement("encryption")
		encryption.CreateAttr("format", "luks")
		secret := encryption.CreateElement("secret")
		secret.CreateAttr("type", "passphrase")
		secret.CreateAttr("uuid", d.Secret)
	}
	if d.Overlay != nil {
		backing := root.CreateElement("backingStore")
		backing.CreateElement("path").SetText(source.Path)
		backing.CreateElement("format").CreateAttr("type", source.Format)
	}
	doc := etree.NewDocument()
	doc.SetRoot(root)
	return doc.WriteToString()
}

// Volume looks for a volume on hosts. An answer with libvirt.ErrPoolInactive, which ErrUnmounted is too, or
// libvirt.ErrNoPool doesn't mean that the volume is gone.
func (s *Storage) Volume(ctx context.Context, hosts hostset.Set, ref Ref) []hostset.Answer[libvirt.Volume] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*libvirt.Volume, error) {
		return s.poolVolume(ctx, h, ref)
	})
}

// ReadVolume reads a volume of a pool. libvirt may list an RBD image that is gone. Then ReadVolume has it read the pool
// again, and returns libvirt.ErrNotFound.
func (s *Storage) ReadVolume(ctx context.Context, host string, ref Ref) (*libvirt.Volume, error) {
	h, err := s.host(host)
	if err != nil {
		return nil, err
	}
	v, err := h.PoolVolume(ctx, ref.Pool, ref.Name)
	if !relistsImages(ctx, h, ref.Pool, err) {
		return v, err
	}
	return h.PoolVolume(ctx, ref.Pool, ref.Name)
}

// relistsImages has libvirt read a pool in Ceph again if it couldn't read what it lists: an image may be gone. Other
// pools stay as they are: libvirt stops a pool that it can't read.
func relistsImages(ctx context.Context, h *libvirt.Host, pool string, err error) bool {
	if !errors.Is(err, libvirt.ErrInternal) {
		return false
	}
	p, err := h.StoragePool(ctx, pool)
	if err != nil {
		return false
	}
	is, err := ReadPool(p.XML)
	return err == nil && is.kind().filled && refresh(ctx, h, pool) == nil
}

// readTries is how many volumes readsOne tries: while Ceph doesn't answer, each takes half a minute.
const readTries = 4

// readsOne reports whether a volume of the pool can be read, so that one that can't isn't a failure of the pool. What
// is looked for need not be in the pool, and libvirt stops a pool that it can't read again.
func readsOne(ctx context.Context, h *libvirt.Host, pool string) bool {
	names, err := h.VolumeNames(ctx, pool)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names[:min(len(names), readTries)], func(name string) bool {
		_, err := h.PoolVolume(ctx, pool, name)
		return err == nil
	})
}

// RefreshElsewhere makes the hosts that share a pool see a volume that one of them has created or removed.
func (s *Storage) RefreshElsewhere(ctx context.Context, hosts hostset.Set, host, pool string) {
	for name, err := range hostset.Each(ctx, hosts.Without(host), func(ctx context.Context, h hostset.Host) error {
		return h.Conn.RefreshStoragePool(ctx, pool)
	}) {
		s.Log.Debug("a storage pool was not refreshed", "host", name, "storage_pool", pool, "error", err)
	}
}
