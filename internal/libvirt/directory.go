package libvirt

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// Directory is what a host reports about one of its directories.
type Directory struct {
	// Available is the free space for new data, in bytes.
	Available uint64
	// Files are the requested files by name, subdirectories included. A file that doesn't exist has no entry.
	Files map[string]Volume
}

// directoryPrefix begins the names of the pools that exist for the time of a call. If a run is killed, or the last user
// of a pool loses its connection, the next call for that directory uses and removes the pool.
const directoryPrefix = "virtfleet-directory-"

// isForACall reports whether a pool exists for the time of a call. Whether a pool of another call exists is chance:
// what it shows of one host must not be compared with what storage pools show of another.
func isForACall(pool string) bool { return strings.HasPrefix(pool, directoryPrefix) }

// errForACall says that only such a pool covers a directory.
var errForACall = golibvirt.Error{
	Code: golibvirt.ERR_NO_STORAGE_POOL, Message: "the only storage pool is one for the time of a call",
}

// FreeSpace returns the bytes that can still be written to a directory, as of the last refresh of the active storage
// pool that covers it (virStoragePoolLookupByTargetPath, virStoragePoolGetInfo). It returns ErrNotFound if no pool
// covers the directory, or only one that exists for the time of a call.
func (h *Host) FreeSpace(ctx context.Context, dir string) (uint64, error) {
	s := readCall("reading the free space in " + dir)
	return callStorage(ctx, h, s, storage{}, func(c *conn) (_ uint64, err error) {
		c.countCall("virStoragePoolLookupByTargetPath")
		pool, err := c.c.LookupStoragePoolByTargetPath(dir)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, pool.Free()) }()
		name, err := pool.GetName()
		if err == nil && isForACall(name) {
			err = errForACall
		}
		if err != nil {
			return 0, err
		}
		return c.availableSpace(pool)
	})
}

// StoragePoolAt reads the active pool whose directory this is. It returns ErrNotFound if there is none
// (virStoragePoolLookupByTargetPath).
func (h *Host) StoragePoolAt(ctx context.Context, dir string) (*StoragePool, error) {
	s := readCall("looking for the storage pool of " + dir)
	return callStorage(ctx, h, s, storage{}, func(c *conn) (p *StoragePool, err error) {
		c.countCall("virStoragePoolLookupByTargetPath")
		pool, err := c.c.LookupStoragePoolByTargetPath(dir)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, pool.Free()) }()
		if p, err = c.observePool(pool); err == nil && isForACall(p.Name) {
			return nil, errForACall
		}
		return p, err
	})
}

// Directory reads a directory and the named files in it, or all files if there are no names. If no active storage pool
// covers the directory, one is created for the time of the call, which touches nothing in the directory.
func (h *Host) Directory(ctx context.Context, dir string, names ...string) (*Directory, error) {
	s := changeCall("reading directory " + dir)
	return callStorage(ctx, h, s, storage{reads: true}, func(c *conn) (*Directory, error) {
		defer c.useDirectory(ctx, dir)()
		d := &Directory{}
		err := c.inDirectory(ctx, dir, func(pool *golibvirt.StoragePool) (err error) {
			if d.Available, err = c.availableSpace(pool); err != nil {
				return err
			}
			d.Files, err = c.listFiles(pool, names)
			return err
		})
		return d, err
	})
}

// Beginning reads the first bytes of a file, or all of a shorter file, after a refresh of its directory.
func (h *Host) Beginning(ctx context.Context, at string, bytes uint64) ([]byte, error) {
	s := changeCall("reading the beginning of " + at)
	return callStorage(ctx, h, s, storage{reads: true}, func(c *conn) (data []byte, err error) {
		dir := path.Dir(at)
		defer c.useDirectory(ctx, dir)()
		err = c.inDirectory(ctx, dir, func(pool *golibvirt.StoragePool) error {
			return c.withFile(pool, path.Base(at), func(volume *golibvirt.StorageVol) (err error) {
				data, err = c.readHead(volume, bytes)
				return err
			})
		})
		return data, err
	})
}

// MakeDirectory creates a directory with the permissions of another one. It returns ErrExists if the directory exists.
func (h *Host) MakeDirectory(ctx context.Context, at string, like Volume) error {
	s := changeCall("creating directory " + at)
	_, err := callStorage(ctx, h, s, storage{}, func(c *conn) (struct{}, error) {
		dir := path.Dir(at)
		defer c.useDirectory(ctx, dir)()
		like.Name, like.Format, like.PhysicalBytes = path.Base(at), "dir", 0
		return struct{}{}, c.inDirectory(ctx, dir, func(pool *golibvirt.StoragePool) error {
			return c.createFile(pool, like)
		})
	})
	return err
}

// RemoveFile removes a file or an empty directory. It is no error if that doesn't exist.
func (h *Host) RemoveFile(ctx context.Context, at string) error {
	s := changeCall("removing " + at)
	_, err := callStorage(ctx, h, s, storage{}, func(c *conn) (struct{}, error) {
		defer c.countVolumeChange()
		dir := path.Dir(at)
		defer c.useDirectory(ctx, dir)()
		return struct{}{}, c.inDirectory(ctx, dir, func(pool *golibvirt.StoragePool) error {
			return c.withFile(pool, path.Base(at), func(volume *golibvirt.StorageVol) error {
				c.countCall("virStorageVolDelete")
				return volume.Delete(golibvirt.STORAGE_VOL_DELETE_NORMAL)
			})
		})
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// poolDescription is the part of a pool's XML that is read here.
type poolDescription struct {
	Type string `xml:"type,attr"`
	Name string `xml:"name"`
	Path string `xml:"target>path"`
}

func (c *conn) describePool(pool *golibvirt.StoragePool) (d poolDescription, err error) {
	c.countCall("virStoragePoolGetXMLDesc")
	document, err := pool.GetXMLDesc(0)
	if err != nil {
		return d, err
	}
	return d, xml.Unmarshal([]byte(document), &d)
}

// isDirectory returns an error for a pool whose volumes aren't files.
func (c *conn) isDirectory(pool *golibvirt.StoragePool, dir string) error {
	d, err := c.describePool(pool)
	if err != nil {
		return err
	}
	switch d.Type {
	case "dir", "fs", "netfs":
		return nil
	default:
		return fmt.Errorf("%w: %s is storage pool %q of type %s, whose volumes are no files", ErrUnsupported, dir, d.Name,
			d.Type)
	}
}

func (c *conn) availableSpace(pool *golibvirt.StoragePool) (uint64, error) {
	c.countCall("virStoragePoolGetInfo")
	info, err := pool.GetInfo()
	if err != nil {
		return 0, err
	}
	return info.Available, nil
}

// listFiles reads the named files of a pool, or all files if there are no names.
func (c *conn) listFiles(pool *golibvirt.StoragePool, names []string) (map[string]Volume, error) {
	if len(names) == 0 {
		c.countCall("virStoragePoolListVolumes")
		var err error
		if names, err = pool.ListStorageVolumes(); err != nil {
			return nil, err
		}
	}
	files := make(map[string]Volume, len(names))
	for _, name := range names {
		var found *Volume
		err := c.withFile(pool, name, func(volume *golibvirt.StorageVol) (err error) {
			found, err = c.readVolume(volume)
			return err
		})
		switch {
		case err == nil:
			files[name] = *found
		case codeOf(err) != golibvirt.ERR_NO_STORAGE_VOL:
			return nil, err
		}
	}
	return files, nil
}

// withFile runs f on a file of a pool.
func (c *conn) withFile(pool *golibvirt.StoragePool, name string, f func(*golibvirt.StorageVol) error) (err error) {
	c.countCall("virStorageVolLookupByName")
	volume, err := pool.LookupStorageVolByName(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, volume.Free()) }()
	return f(volume)
}

// createFile creates an empty file of that size, without reserving space for it, or a directory.
func (c *conn) createFile(pool *golibvirt.StoragePool, like Volume) error {
	var permissions strings.Builder
	for _, p := range []struct{ tag, value string }{{"mode", like.Mode}, {"owner", like.Owner}, {"group", like.Group}} {
		if p.value != "" {
			fmt.Fprintf(&permissions, "<%[1]s>%[2]s</%[1]s>", p.tag, escapeXML(p.value))
		}
	}
	c.countCall("virStorageVolCreateXML")
	volume, err := pool.StorageVolCreateXML(fmt.Sprintf("<volume><name>%s</name><capacity>%d</capacity>"+
		"<allocation>0</allocation><target><format type='%s'/><permissions>%s</permissions></target></volume>",
		escapeXML(like.Name), like.PhysicalBytes, like.Format, permissions.String()), 0)
	if err != nil {
		return err
	}
	return volume.Free()
}

// escapeXML escapes a text for use in an XML document.
func escapeXML(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
