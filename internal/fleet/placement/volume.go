package placement

import (
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// UnfitVolume returns why a disk can't use an existing volume by its id or path, or "" if it can.
func UnfitVolume(v *libvirt.Volume, disk domain.Disk) string {
	name := v.Pool + "/" + v.Name

	switch {
	case v.Type == "network" || v.Type == "netdir":
		return fmt.Sprintf("volume %q is in a storage pool of type %s, whose volumes are no files of the host. Declare it "+
			"with network instead of volume: network = { protocol = %q, name = %q, hosts = [...] }, with auth if the pool "+
			"has it", name, v.PoolType, storage.Protocol(v.PoolType), v.Path)
	case disk.Values[domain.EncryptionSecret] != "" && v.Format != "" && !v.Encrypted:
		return fmt.Sprintf("volume %q isn't encrypted, and the disk has encryption: QEMU would not open it. Declare "+
			"encryption of the virtfleet_volume too, or remove it from the disk", name)
	default:
		return ""
	}
}
