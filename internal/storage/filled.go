package storage

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrCopied says that a run copies the volume, or into it.
var ErrCopied = fmt.Errorf("%w by a copy", ErrInUse)

// inUse returns the error that a volume has that user.
func inUse(u User) error {
	if u.Copy != "" {
		return fmt.Errorf("%w: %s", ErrCopied, u)
	}
	return fmt.Errorf("%w: %s", ErrInUse, u)
}

// chooseCopier has libvirt copy the source into the new volume, in a pool of that type, if libvirt can.
func (d *Disk) chooseCopier(pool string, source *libvirt.Volume, v *libvirt.NewVolume) error {
	switch {
	case d.Clone == nil:
	case kindOf(pool).filled:
		d.filledFrom = source
		return d.checkFilled(*source)
	case d.misread == 0:
		v.FromPool, v.From = d.Clone.Pool, d.Clone.Name
	}
	return nil
}

// copyForLibvirt copies what libvirt didn't copy when it created the volume.
func (s *Storage) copyForLibvirt(ctx context.Context, h *libvirt.Host, d Disk) error {
	switch {
	case d.filledFrom != nil:
		return s.fill(ctx, h, d)
	case d.misread > 0:
		return s.copyContent(ctx, h, *d.Clone, d.ref(), d.misread)
	default:
		return nil
	}
}

// fill copies the source into the new volume through QEMU. The volume is as large as the source.
func (s *Storage) fill(ctx context.Context, h *libvirt.Host, d Disk) error {
	format := cmp.Or(d.filledFrom.Format, "raw")
	if d.misread > 0 {
		format = "raw"
	}
	p := newProgress(s.Log, "copying a volume", "host", h.Name(), d.filledFrom.CapacityBytes)
	c := libvirt.DiskCopy{
		Pool: d.Pool, Name: d.Name, Format: format,
		Progress: func(part float64) { p.reach(uint64(part * float64(d.filledFrom.CapacityBytes))) },
	}
	var err error
	if c.SourceType, c.Source, err = diskSource(ctx, h, *d.filledFrom); err != nil {
		return err
	}
	into, err := h.PoolVolume(ctx, d.Pool, d.Name)
	if err != nil {
		return err
	}
	if c.TargetType, c.Target, err = diskSource(ctx, h, *into); err != nil {
		return err
	}
	if err := h.CopyDisk(ctx, c); err != nil {
		return err
	}
	// Ceph doesn't keep a VM from a volume that is being written.
	writer, err := s.Writer(ctx, h.Name(), *into)
	if err == nil && writer != nil {
		err = fmt.Errorf("%w: %s was started while volume %s was copied, and has a part of its content", ErrInUse, writer,
			d.ref())
	}
	if err != nil {
		return err
	}
	return s.checkUnwritten(ctx, h, d)
}

// checkUnwritten returns an error if a guest may have written to the source while it was copied. Ceph doesn't keep a VM
// from that either, but from the removal of an image that QEMU has open.
func (s *Storage) checkUnwritten(ctx context.Context, h *libvirt.Host, d Disk) error {
	if !d.CloneWritten {
		return nil
	}
	writer, err := s.Writer(ctx, h.Name(), *d.filledFrom)
	if err == nil && writer != nil {
		err = fmt.Errorf("%w: %s was started while volume %s was copied, so the copy may have a part of what it wrote",
			ErrInUse, writer, d.Clone)
	}
	return err
}

// checkFilled returns why QEMU can't copy the source into the new volume as it is, nil if it can.
func (d *Disk) checkFilled(source libvirt.Volume) error {
	var unfit string
	switch {
	case d.Secret != "":
		unfit = "encryption is set for the new volume, and QEMU writes what a guest sees; leave encryption out"
	case source.Encrypted:
		unfit = "it is encrypted, and QEMU would write what a guest sees; copy it with the tools of the storage"
	case source.Type != "file" && source.Type != "block" && source.PoolType != "rbd":
		unfit = fmt.Sprintf("it is in a storage pool of type %s; copy it into a pool of type dir first, or with the tools "+
			"of the storage", source.PoolType)
	default:
		return nil
	}
	return fmt.Errorf("%w: QEMU can't copy volume %s into storage pool %q: %s", libvirt.ErrUnsupported, d.source(), d.Pool,
		unfit)
}

// diskSource returns the type of a disk that is the volume, and its <source>.
func diskSource(ctx context.Context, h *libvirt.Host, v libvirt.Volume) (diskType, document string, err error) {
	source := etree.NewElement("source")
	switch {
	case v.Type == "block":
		source.CreateAttr("dev", v.Path)
	case v.PoolType == "rbd":
		if err := addServers(ctx, h, v, source); err != nil {
			return "", "", err
		}
	default:
		source.CreateAttr("file", v.Path)
	}
	doc := etree.NewDocument()
	doc.SetRoot(source)
	document, err = doc.WriteToString()
	return v.Type, document, err
}

// addServers adds to the source of an RBD image where its pool is, and how QEMU logs in.
func addServers(ctx context.Context, h *libvirt.Host, v libvirt.Volume, source *etree.Element) error {
	pool, err := h.StoragePool(ctx, v.Pool)
	if err != nil {
		return err
	}
	root, err := poolElement(cmp.Or(pool.LiveXML, pool.XML))
	if err != nil {
		return err
	}
	is, err := ReadPool(cmp.Or(pool.LiveXML, pool.XML))
	if err != nil {
		return err
	}
	source.CreateAttr("protocol", is.kind().protocol)
	source.CreateAttr("name", v.Path)
	for _, server := range is.SourceHosts {
		host := source.CreateElement("host")
		host.CreateAttr("name", server.Name)
		if server.Port != nil {
			host.CreateAttr("port", strconv.FormatInt(*server.Port, 10))
		}
	}
	if auth := root.FindElement("source/auth"); auth != nil {
		auth = auth.Copy()
		if secret := auth.SelectElement("secret"); secret != nil { // A pool says the type one element higher.
			secret.CreateAttr("type", auth.SelectAttrValue("type", ""))
		}
		auth.RemoveAttr("type")
		source.AddChild(auth)
	}
	return nil
}
