package migration

import (
	"context"
	"math/rand/v2"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// IntendedCopies lists the files that Copy will make on the target, each with its length before anything is copied into
// it. The caller writes the list to the VM's metadata before Copy begins, so that a later run knows which files belong
// to the move.
func (l *OfflineCopy) IntendedCopies() []domain.Copy {
	intended := make([]domain.Copy, len(l.items))
	for i, it := range l.items {
		intended[i] = domain.Copy{Path: it.path, Creating: true, Bytes: it.empty}
	}
	return intended
}

// intendedImages lists the files that a live migration will make on the target, in the order of the copies, with the
// size of each before anything is copied into it: for an image the capacity of its disk, for a medium a length chosen
// at random.
func intendedImages(copies []DiskCopy) []domain.Copy {
	intended := make([]domain.Copy, len(copies))
	for i, c := range copies {
		intended[i] = domain.Copy{Path: c.Disk.Path, Creating: true, Bytes: c.Capacity}
		if isMedium(c.Disk) && c.Capacity > 0 {
			intended[i].Bytes = 1 + rand.Uint64N(c.Capacity) //nolint:gosec // It must be unlikely to occur, but not secret.
		}
	}
	return intended
}

// DiscardUnfinishedCopies removes from a host the files that a killed move made and had not copied anything into. home
// is the host of the VM. A file of another length, or with data, belongs to something else and stays.
func DiscardUnfinishedCopies(ctx context.Context, host, home *libvirt.Host, making []domain.Copy) error {
	var own []string
	for _, c := range making {
		file, err := host.FileIfThere(ctx, c.Path)
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

// The sizes of QEMU's LUKS header: with all its keys, which are holes in a raw image until they are set, and with the
// one key that it is made with.
const (
	luksHeader = 2 << 20
	luksOneKey = 256 << 10
)

// madeEmpty says whether a file has the length or capacity that the move recorded for it, and no data. For a directory
// it says only that the move was to make a directory: only the host knows whether the directory is empty.
func madeEmpty(c domain.Copy, file libvirt.Volume) bool {
	switch {
	case file.Type == "dir":
		return c.Bytes == 0
	case file.Format == "qcow2" && file.Encrypted:
		return c.Bytes > 0 && file.CapacityBytes == c.Bytes && file.PhysicalBytes <= emptyQCOW2(c.Bytes)+luksHeader
	case file.Format == "qcow2":
		return c.Bytes > 0 && file.CapacityBytes == c.Bytes && file.PhysicalBytes <= emptyQCOW2(c.Bytes)
	case file.Encrypted:
		return c.Bytes > 0 && file.CapacityBytes == c.Bytes && file.PhysicalBytes <= c.Bytes+luksHeader &&
			file.AllocationBytes <= luksOneKey
	}
	return c.Bytes > 0 && file.PhysicalBytes == c.Bytes && file.AllocationBytes == 0
}

// emptyQCOW2 returns the maximum size of a qcow2 image of that capacity before data is written to it: a header, a table
// of reference counts and its first block, and the table of tables, in clusters of 64 KiB. The first data requires two
// clusters more.
func emptyQCOW2(capacity uint64) uint64 {
	const cluster, perTable = 64 << 10, 512 << 20 // bytes of data that one entry of the last table is for
	tables := 8 * ((capacity + perTable - 1) / perTable)
	return 3*cluster + (tables+cluster-1)/cluster*cluster
}
