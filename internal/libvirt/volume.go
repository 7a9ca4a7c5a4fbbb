package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"slices"

	golibvirt "libvirt.org/go/libvirt"
)

// Volume is a storage volume of an active pool.
type Volume struct {
	Path, Name, Pool string
	// PoolType is the type of the pool: dir, fs, netfs, logical, ...
	PoolType        string
	Type            string // file, block, dir, network, netdir
	Format          string // qcow2, raw, ...; "" if the pool doesn't report it
	CapacityBytes   uint64
	AllocationBytes uint64
	PhysicalBytes   uint64 // from the beginning of a file to its end, holes included
	Backing         string // the path of its backing file; "" if it has none
	Encrypted       bool   // says that its content is encrypted, as far as libvirt knows
	// Secret is the UUID of the secret with its passphrase. libvirt reports it until it reads the pool again, and later
	// only if the usage of the secret is the path of the volume; otherwise it is "".
	Secret string
	// Changed is the time of the last change of the file or its metadata (ctime), as libvirt writes it: with nanoseconds.
	// No program can set it. It is "" if the host doesn't report it.
	Changed string
	// Modified is the time of the last change of the content (mtime), like Changed. Programs that copy a file may set it.
	Modified string
	// Mode is octal ("0600"), Owner and Group are ids of the host; "" if libvirt doesn't report them.
	Mode, Owner, Group string
}

// UsedAs returns the volume as a VM sees it that uses it with the format; "" means the one that libvirt has found.
// A guest can write anything to a raw file, also the header of an image or of LUKS: then libvirt reports the format
// and the size that the header says, and resizes the volume by them, which overwrites the guest's data.
func (v Volume) UsedAs(format string) Volume {
	if v.isMisread(format) {
		v.Format, v.CapacityBytes, v.Encrypted, v.Secret, v.Backing = format, v.PhysicalBytes, false, "", ""
	}
	return v
}

// isMisread reports whether libvirt takes a volume with the format for something else.
func (v Volume) isMisread(format string) bool {
	return format == "raw" && v.Type == "file" && (v.Format != "" && v.Format != format || v.Encrypted)
}

// VolumeByPath looks for the volume with this path in the host's active pools, as of their last refresh. It returns
// ErrNotFound if no pool has it, or only a pool that exists for the time of a call: the file may exist all the same.
//
// It uses virStorageVolLookupByPath, virStorageVolGetXMLDesc, virStoragePoolLookupByVolume and
// virStoragePoolGetXMLDesc.
func (h *Host) VolumeByPath(ctx context.Context, path string) (*Volume, error) {
	s := readCall("looking for volume " + path)
	return callStorage(ctx, h, s, storage{}, func(c *conn) (_ *Volume, err error) {
		c.countCall("virStorageVolLookupByPath")
		volume, err := c.c.LookupStorageVolByPath(path)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, volume.Free()) }()
		v, err := c.readVolume(volume)
		if err == nil && isForACall(v.Pool) {
			return nil, errForACall
		}
		return v, err
	})
}

func (c *conn) readVolume(volume *golibvirt.StorageVol) (*Volume, error) {
	c.countCall("virStorageVolGetXMLDesc")
	document, err := volume.GetXMLDesc(0)
	if err != nil {
		return nil, err
	}
	v, err := parseVolume(document)
	if err != nil {
		return nil, err
	}
	c.countCall("virStoragePoolLookupByVolume")
	pool, err := volume.LookupPoolByVolume()
	if err != nil {
		return nil, err
	}
	described, err := c.describePool(pool)
	if err == nil {
		v.Pool, v.PoolType = described.Name, described.Type
	}
	return v, errors.Join(err, pool.Free())
}

// rawTypes are the formats that libvirt reports for partitions and media whose content is raw: QEMU knows none of them.
var rawTypes = []string{
	"iso", "none", "linux", "fat16", "fat32", "linux-swap", "linux-lvm", "linux-raid", "extended",
}

// HasFormat reports whether libvirt reports a volume like this one if it was created with that format: it reports no
// format of a device, and of a partition this package reports only that the content is raw.
func (v Volume) HasFormat(format string) bool {
	return v.Format == format || v.Format == "" && format == "raw" ||
		v.Format == "raw" && slices.Contains(rawTypes, format)
}

func parseVolume(document string) (*Volume, error) {
	var volume struct {
		Type       string `xml:"type,attr"`
		Name       string `xml:"name"`
		Capacity   uint64 `xml:"capacity"` // libvirt always writes bytes
		Allocation uint64 `xml:"allocation"`
		Physical   uint64 `xml:"physical"`
		Target     struct {
			Path   string `xml:"path"`
			Format struct {
				Type string `xml:"type,attr"`
			} `xml:"format"`
			Permissions struct {
				Mode  string `xml:"mode"`
				Owner string `xml:"owner"`
				Group string `xml:"group"`
			} `xml:"permissions"`
			Changed    string `xml:"timestamps>ctime"`
			Modified   string `xml:"timestamps>mtime"`
			Encryption *struct {
				Secret struct {
					UUID string `xml:"uuid,attr"`
				} `xml:"secret"`
			} `xml:"encryption"`
		} `xml:"target"`
		Backing string `xml:"backingStore>path"`
	}
	if err := xml.Unmarshal([]byte(document), &volume); err != nil {
		return nil, fmt.Errorf("%w: a volume's description can't be read: %w", ErrInternal, err)
	}
	format := volume.Target.Format.Type
	if slices.Contains(rawTypes, format) {
		format = "raw"
	}
	secret := ""
	if volume.Target.Encryption != nil {
		secret = volume.Target.Encryption.Secret.UUID
	}
	return &Volume{
		Path: volume.Target.Path, Name: volume.Name, Type: volume.Type, Format: format,
		CapacityBytes: volume.Capacity, AllocationBytes: volume.Allocation, PhysicalBytes: volume.Physical,
		Backing: volume.Backing, Encrypted: volume.Target.Encryption != nil, Secret: secret, Changed: volume.Target.Changed,
		Modified: volume.Target.Modified, Mode: volume.Target.Permissions.Mode,
		Owner: volume.Target.Permissions.Owner, Group: volume.Target.Permissions.Group,
	}, nil
}
