package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

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

// OtherCluster returns why a storage pool of a host doesn't have the RBD image of a VM's own disk, although it would
// call it the same: it is in another cluster. It returns "" if it has the image, if the host doesn't answer, and if it
// isn't known where the image is.
func OtherCluster(ctx context.Context, h *inventory.Host, vm *inventory.VM, o domain.OwnDisk) string {
	if path.IsAbs(o.Path) {
		return ""
	}

	is := domain.ParseRBDPath(ImageOf(vm, o))
	if is == nil {
		return ""
	}

	source, err := OwnDiskSource(ctx, h, o)

	switch {
	case errors.Is(err, inventory.ErrUnreachable), domain.SameDisk(source, domain.DiskSource{Network: is}, true):
		return ""
	case err != nil:
		return fmt.Sprintf("storage pool %q of host %q can't be read: %v", o.Pool, h.Name, err)
	default:
		return fmt.Sprintf("storage pool %q of host %q is on other servers: it would have %s, and the disk is %s", o.Pool,
			h.Name, source.RBDPath(), domain.DiskSource{Network: is}.RBDPath())
	}
}

// ImageOf returns the RBD image of an own disk with its servers, as the VM has it or had it last; "" if that isn't
// known, and for a file. vm may be nil.
func ImageOf(vm *inventory.VM, o domain.OwnDisk) string {
	if path.IsAbs(o.Path) {
		return ""
	}

	if vm != nil {
		for _, spec := range []*domain.Spec{vm.PersistentSpec, vm.LiveSpec} {
			if spec == nil {
				continue
			}

			for _, disk := range spec.Disks {
				if disk.Source.VolumePath() == o.Path && disk.Source.Network != nil {
					return disk.Source.RBDPath()
				}
			}
		}
	}

	return o.SeenIn
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
