package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func (o *observing) askDiskErrors(ctx context.Context) {
	if !o.vm.Active || o.onTarget() {
		return
	}

	found, err := o.vm.On.Conn.DiskErrors(ctx, o.vm.UUID)
	if err != nil {
		o.failed(PartDiskError, err)

		return
	}

	o.diskErrors = found
}

func (o *observing) askDisks(ctx context.Context) {
	if o.onTarget() {
		o.lacks(PartDisks, "the VM is just arriving at its host")

		return
	}

	var targets []string

	for _, d := range o.sources() {
		if o.opens(d) {
			targets = append(targets, d.Target)
		}
	}

	if len(targets) == 0 {
		o.disks = map[string]libvirt.BlockInfo{}

		return
	}

	found, err := o.vm.On.Conn.BlockInfos(ctx, o.vm.UUID, targets)
	if err != nil {
		o.failed(PartDisks, err)

		return
	}

	o.disks, o.images = found, o.askImages(ctx)
}

// askImages has the host open every file and block device again: a running QEMU continues with a file that was removed,
// and for a stopped VM libvirt doesn't look into the file.
func (o *observing) askImages(ctx context.Context) map[string]status.Disk {
	var mu sync.Mutex

	images := make(map[string]status.Disk)

	var all sync.WaitGroup

	for _, d := range o.sources() {
		all.Go(func() {
			image := o.image(ctx, d)

			mu.Lock()
			defer mu.Unlock()

			images[d.Target] = image
		})
	}

	all.Wait()

	return images
}

// longestChain is how many images of a backing chain are followed.
const longestChain = 64

// image says whether a disk's file, and every image of its backing chain, exists and has the format that the definition
// says.
func (o *observing) image(ctx context.Context, d domain.Disk) status.Disk {
	file, format := cmp.Or(d.Source.File, d.Source.Block), d.Format

	switch {
	case d.Source.Network != nil:
		return status.Disk{Ready: status.True} // Only QEMU reaches it.
	case file == "":
		return hostSays(status.Unknown, "libvirt can't tell for a source of this kind")
	case format == "raw":
		return opened(o.vm.On.Conn.PeekDisk(ctx, o.vm.UUID, d.Target), file)
	}

	for range longestChain {
		header, err := o.vm.On.Conn.ImageHeader(ctx, file)

		switch {
		case err != nil:
			return opened(err, file)
		case format == "qcow2" && !header.QCOW2:
			return hostSays(status.False, file+" is not a qcow2 image")
		case format != "qcow2" && format != "raw" && !o.vm.Active:
			return hostSays(status.Unknown, file+" is there, and only QEMU can tell whether it opens")
		case format != "qcow2" || header.Backing == "":
			return status.Disk{Ready: status.True}
		case header.BackingPath(file) == "":
			return hostSays(status.Unknown, fmt.Sprintf("%s is based on %q, which only QEMU reaches", file, header.Backing))
		}

		file, format = header.BackingPath(file), header.BackingFormat
	}

	return hostSays(status.Unknown, "it is based on more images than are followed")
}

// opened returns what an attempt to open a file says about a disk. Only a host that tried knows that it doesn't open.
func opened(err error, file string) status.Disk {
	switch {
	case err == nil:
		return status.Disk{Ready: status.True}
	case errors.Is(err, libvirt.ErrNotFound):
		return hostSays(status.Unknown, "no active storage pool of the host knows "+file)
	case errors.Is(err, libvirt.ErrInternal):
		return hostSays(status.False, inventory.PlainCause(err))
	default:
		return hostSays(status.Unknown, inventory.PlainCause(err))
	}
}

func hostSays(ready status.ConditionStatus, why string) status.Disk {
	return status.Disk{Ready: ready, Why: why, Layer: status.LayerLibvirt}
}

// sources returns the disks that have a source, by key.
func (o *observing) sources() map[string]domain.Disk {
	disks := make(map[string]domain.Disk)
	if spec := o.vm.CurrentSpec(); spec != nil {
		maps.Copy(disks, spec.Disks)
	}

	maps.DeleteFunc(disks, func(_ string, d domain.Disk) bool {
		s := d.Source

		return s.File == "" && s.Block == "" && s.Network == nil && s.Other == ""
	})

	return disks
}

// opens says whether the host's libvirt can open the disk's source. Only QEMU can open a source that it reaches over
// the network by itself.
func (o *observing) opens(d domain.Disk) bool { return o.vm.Active || d.Source.Network == nil }
