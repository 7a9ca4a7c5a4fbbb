package lifecycle

import (
	"context"
	"fmt"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// resolveVolumes finds out whether a disk's volume is a file or a block device, and the format of a new disk that
// declares none. have is the configuration that the VM has already.
func resolveVolumes(
	ctx context.Context, h *inventory.Host, spec *domain.Spec, volumes map[string]string, have domain.Spec,
) error {
	spec.Disks = maps.Clone(spec.Disks)

	for key, id := range volumes {
		v, err := placement.ExistingVolume(ctx, h, id)
		if err != nil {
			return fmt.Errorf("disk %q: %w", key, err)
		}

		disk := spec.Disks[key]
		if why := placement.UnfitVolume(v, disk); why != "" {
			return fmt.Errorf("%w: disk %q: %s", inventory.ErrInvalid, key, why)
		}

		disk.Source = domain.DiskSource{File: v.Path}

		if v.Type == "block" {
			disk.Source = domain.DiskSource{Block: v.Path}
		}

		if disk.Format == "" {
			disk.Format = v.Format
		}

		spec.Disks[key] = disk
	}

	for key, disk := range spec.Disks {
		// libvirt has probed the format of a file that is in a storage pool.
		if disk.Format == "" && disk.Source.File != "" && have.Disks[key].Source.File != disk.Source.File {
			v, err := h.Conn.VolumeByPath(ctx, disk.Source.File)
			if err != nil {
				continue
			}

			if why := placement.DoubtfulFormat(v, disk); why != "" {
				return fmt.Errorf("%w: disk %q: %s", inventory.ErrInvalid, key, why)
			}

			disk.Format = v.Format
			spec.Disks[key] = disk
		}
	}

	return nil
}
