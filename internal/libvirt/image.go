package libvirt

import (
	"context"
	"fmt"
	"path"

	golibvirt "libvirt.org/go/libvirt"
)

// NewImage is an image file to create.
type NewImage struct {
	// Path is the file's path, in a directory that exists on the host.
	Path string
	// Format is raw or qcow2.
	Format string
	// CapacityBytes is the size that a guest sees. The image occupies no space for it until it is written to.
	CapacityBytes uint64
	// Backing is the backing file, which must exist, in BackingFormat; "" if there is none.
	Backing, BackingFormat string
	// Secret is the UUID of the host's secret with the passphrase of a LUKS image; "" if the image is not encrypted.
	Secret string
}

// CreateImage creates an empty image, and returns how much space is left in its directory. It leaves an existing file
// alone, in a pool or not, and returns ErrExists. RemoveFile removes an image.
func (h *Host) CreateImage(ctx context.Context, image NewImage) (availableBytes uint64, err error) {
	s := changeCall("creating image " + image.Path)
	return callStorage(ctx, h, s, storage{}, func(c *conn) (available uint64, err error) {
		defer c.countVolumeChange()
		dir := path.Dir(image.Path)
		defer c.useDirectory(ctx, dir)()
		err = c.inDirectory(ctx, dir, func(pool *golibvirt.StoragePool) (err error) {
			if available, err = c.availableSpace(pool); err != nil {
				return err
			}
			volume, err := tryVolume(image.Secret != "", func() (*golibvirt.StorageVol, error) {
				c.countCall("virStorageVolCreateXML")
				return pool.StorageVolCreateXML(image.definitionXML(), 0)
			})
			if err != nil {
				return err
			}
			return volume.Free()
		})
		return available, err
	})
}

// definitionXML is libvirt's description of the image.
func (i *NewImage) definitionXML() string {
	compat := ""
	if i.Format == "qcow2" {
		compat = "<compat>1.1</compat>" // Older versions of libvirt would create an image for QEMU before 1.1.
	}
	backing := ""
	if i.Backing != "" {
		backing = fmt.Sprintf("<backingStore><path>%s</path><format type='%s'/></backingStore>", escapeXML(i.Backing),
			escapeXML(i.BackingFormat))
	}
	encryption := ""
	if i.Secret != "" {
		encryption = fmt.Sprintf("<encryption format='luks'><secret type='passphrase' uuid='%s'/></encryption>",
			escapeXML(i.Secret))
	}
	return fmt.Sprintf("<volume><name>%s</name><capacity>%d</capacity><allocation>0</allocation>"+
		"<target><format type='%s'/>%s%s</target>%s</volume>", escapeXML(path.Base(i.Path)), i.CapacityBytes,
		escapeXML(i.Format), compat, encryption, backing)
}
