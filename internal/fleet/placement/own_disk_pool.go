package placement

import (
	"cmp"
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// UnfitPool returns why a pool of the host can't have the own disk of a key, or "" if it can.
func UnfitPool(ctx context.Context, h *inventory.Host, pool *libvirt.StoragePool, key string) string {
	is, err := storage.ReadPool(cmp.Or(pool.LiveXML, pool.XML))

	switch {
	case err != nil:
		return err.Error()
	case is.VolumePath("") == "":
		return fmt.Sprintf("storage pool %q is of type %s, and a VM creates its own disks in pools of type dir, fs, netfs "+
			"or rbd. Set pool to one of these. For a disk in pool %[1]q, create a virtfleet_volume there, with clone = "+
			"\"full\" if it has an image, and set volume of the disk to its id", pool.Name, is.Type)
	case !storage.FilePool(is.Type) && IsFirstBoot(key):
		return fmt.Sprintf("storage pool %q is of type %s, and %s is a file. Set %s to a pool of type dir, fs or netfs",
			pool.Name, is.Type, OwnDiskTitle(key), OwnDiskAttribute(key, "pool"))
	}

	if _, why := rbdImage(&libvirt.Volume{Pool: pool.Name}, is); why != "" {
		return why
	}

	if err := storage.CheckMounted(ctx, h.Files(), pool); err != nil {
		return err.Error()
	}

	return ""
}

// unfitOwnDisk returns why a pool of network storage can't have an own disk as it is declared, and of which attribute
// that is said; "" if it can.
func unfitOwnDisk(pool *libvirt.StoragePool, o domain.OwnDisk, disk domain.Disk) (attribute, why string) {
	is, err := storage.ReadPool(pool.XML)
	if err != nil || storage.FilePool(is.Type) {
		return "", ""
	}

	of := fmt.Sprintf("storage pool %q is of type %s, ", pool.Name, is.Type)

	switch {
	case o.Based():
		return "clone", of + "whose volumes can't be overlays of an image. Set clone = \"full\", which copies the image"
	case disk.Format != "" && disk.Format != "raw":
		return "format", of + "whose volumes are raw. Set format = \"raw\", or remove it"
	case o.Preallocation == storage.PreallocationMetadata:
		return "preallocation", of + "whose volumes are raw and have no tables to write. Set preallocation = \"off\""
	case disk.Values[domain.EncryptionSecret] != "":
		return "encryption", of + "in which libvirt creates no encrypted volumes. Remove encryption, or set pool to one of " +
			"type dir, fs or netfs"
	default:
		return "", ""
	}
}
