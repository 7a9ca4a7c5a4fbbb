package migration

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// IntendedCopies lists the files that Copy will make on the target, each with the length that it has while nothing is
// copied into it. Written to the VM's metadata before Copy begins, the list tells a later run which files are the
// move's own.
func (l *OfflineCopy) IntendedCopies() []domain.Copy {
	intended := make([]domain.Copy, len(l.items))
	for i, it := range l.items {
		intended[i] = domain.Copy{Path: it.path, Making: true, Bytes: it.empty}
	}
	return intended
}

// DiscardUnfinishedCopies removes from a host the files that a killed move had made and not copied anything into. home
// is the host of the VM. A file of another length, or with data, belongs to something else and stays.
func DiscardUnfinishedCopies(ctx context.Context, host, home *libvirt.Host, making []domain.Copy) error {
	var own []string
	for _, c := range making {
		file, err := fileOn(ctx, host, c.Path)
		if err != nil {
			return err
		}
		if file == nil || !madeEmpty(c, *file) {
			continue
		}
		if file.Type == "dir" {
			d, err := host.Directory(ctx, c.Path)
			if err != nil {
				return err
			}
			if len(d.Files) > 0 {
				continue
			}
		}
		own = append(own, c.Path)
	}
	return DiscardLeftCopies(ctx, host, home, own)
}

// madeEmpty says whether a file has the length that the move recorded for it, and no data. Of a directory it says only
// that the move was to make one: whether that is empty, the host has to be asked.
func madeEmpty(c domain.Copy, file libvirt.Volume) bool {
	if file.Type == "dir" {
		return c.Bytes == 0
	}
	return c.Bytes > 0 && file.PhysicalBytes == c.Bytes && file.AllocationBytes == 0
}
