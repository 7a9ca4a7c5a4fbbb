package storage

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// PartitionError says that libvirt can't remove a volume of a pool of type disk. libvirt passes a partition's number to
// parted, and uses as the number what follows the name of the pool's device in the partition's name. So the removal
// fails for a device whose name ends in a digit, such as nvme0n1, loop0 and mmcblk0, because the kernel puts a "p"
// before the number; and for a device that is named by a link. No version of libvirt is known to be different.
type PartitionError struct {
	// Pool and Device are the pool and its device, Volume is the partition.
	Pool, Device, Volume string
	// Disk is the kernel's name of the device, Number the partition's number.
	Disk, Number string
}

// Error explains why.
func (e *PartitionError) Error() string {
	return fmt.Sprintf("libvirt can't remove partition %q of storage pool %q: its name isn't that of the pool's device, "+
		"%s, with a number after it", e.Volume, e.Pool, e.Device)
}

// OfAnotherName reports whether the pool names its device by a link. libvirt would remove the partition if the pool
// used the kernel's name.
func (e *PartitionError) OfAnotherName() bool {
	return e.Disk+e.Number == e.Volume && path.Base(e.Device) != e.Disk
}

// ErrRemovesNone means that libvirt removes no volumes of pools of this type: that is done by other means.
var ErrRemovesNone = errors.New("whose volumes libvirt can't remove")

// CheckDelete returns an error if libvirt can't remove a volume of a host: ErrRemovesNone, a PartitionError, or
// ErrUnmounted. It changes nothing. It doesn't check whether the volume is in use.
func (s *Storage) CheckDelete(ctx context.Context, host string, ref Ref) error {
	h, err := s.host(host)
	if err != nil {
		return err
	}
	if err := s.checkMounted(ctx, h, ref.Pool); err != nil && !errors.Is(err, libvirt.ErrNoPool) {
		return err
	}
	return checkRemoval(ctx, h, ref)
}

func checkRemoval(ctx context.Context, h *libvirt.Host, ref Ref) error {
	is, err := h.StoragePool(ctx, ref.Pool)
	if errors.Is(err, libvirt.ErrNotFound) {
		return nil // The removal returns this error then.
	}
	if err != nil {
		return err
	}
	p, err := ReadPool(is.XML)
	if err != nil {
		return err
	}
	return p.checkRemoval(ref.Name)
}

// checkRemoval returns ErrRemovesNone or a PartitionError if libvirt can't remove the volume of that name.
func (p Pool) checkRemoval(volume string) error {
	if p.kind().staying {
		return fmt.Errorf("%w: storage pool %q is of type %s, %w", libvirt.ErrUnsupported, p.Name, p.Type, ErrRemovesNone)
	}
	if !p.kind().partitions || len(p.Devices) == 0 {
		return nil
	}
	device := p.Devices[0]
	rest, named := strings.CutPrefix(volume, path.Base(device))
	disk := strings.TrimRight(volume, "0123456789")
	number := strings.TrimPrefix(volume, disk)
	if named && (rest == number || !kernelName(device)) {
		return nil // libvirt knows that partitions of device mapper's devices may have a "p".
	}
	if whole := strings.TrimSuffix(disk, "p"); whole != strings.TrimRight(whole, "0123456789") {
		disk = whole
	}
	return &PartitionError{Pool: p.Name, Device: device, Volume: volume, Disk: disk, Number: number}
}

// kernelName reports whether a device is named as the kernel names it, and isn't a device of device mapper.
func kernelName(device string) bool {
	return path.Dir(device) == "/dev" && !strings.HasPrefix(path.Base(device), "dm-")
}
