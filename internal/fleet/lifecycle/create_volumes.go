package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// resolveVolumes finds out whether a disk's volume is a file, a block device or an RBD image, and the format of a new
// disk that declares none. have is the configuration that the VM has already: a file that the VM has, under whatever
// key, keeps its format, whatever the guest has written into it. d has the volumes. It refuses one that isn't complete.
func (m *Manager) resolveVolumes(
	ctx context.Context, h *inventory.Host, spec *domain.Spec, d placement.Desired, have domain.Spec,
) error {
	spec.Disks = maps.Clone(spec.Disks)

	volumes := make(map[string]*libvirt.Volume, len(d.Volumes))

	for key, id := range d.Volumes {
		v, err := placement.ExistingVolume(ctx, h, id)
		if err != nil {
			return fmt.Errorf("disk %q: %w", key, err)
		}

		volumes[key] = v
	}

	if err := m.placement.VerifyWhole(ctx, h, spec.Name, volumes); err != nil {
		return err
	}

	for key, v := range volumes {
		disk := spec.Disks[key]

		var (
			why string
			err error
		)

		disk.Source, why, err = placement.SourceOf(ctx, h, v)
		if err != nil {
			return fmt.Errorf("disk %q: %w", key, err)
		}

		disk.Format = cmp.Or(disk.Format, have.FormatOf(disk.Source), d.FreshFormat(v))
		if why = cmp.Or(why, placement.UnfitVolume(v, disk)); why != "" {
			return fmt.Errorf("%w: disk %q: %s", inventory.ErrInvalid, key, why)
		}

		disk.Format = cmp.Or(disk.Format, v.Format)
		spec.Disks[key] = disk
	}

	for key, disk := range spec.Disks {
		disk.Format = cmp.Or(disk.Format, have.FormatOf(disk.Source))

		// libvirt has probed the format of a file that is in a storage pool.
		if disk.Format == "" && disk.Source.File != "" {
			v, err := h.Conn.VolumeByPath(ctx, disk.Source.File)
			if err != nil {
				continue
			}

			disk.Format = d.FreshFormat(v)
			if why := placement.DoubtfulFormat(v, disk); why != "" {
				return fmt.Errorf("%w: disk %q: %s", inventory.ErrInvalid, key, why)
			}

			disk.Format = v.Format
		}

		spec.Disks[key] = disk
	}

	return nil
}
