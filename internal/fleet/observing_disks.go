package fleet

import (
	"context"
	"maps"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func (o *observing) askDiskErrors(ctx context.Context) {
	if !o.vm.Active || o.onTarget() {
		return
	}

	found, err := o.vm.host.conn.DiskErrors(ctx, o.vm.UUID)
	if err != nil {
		o.failed(PartDiskError, err)

		return
	}

	o.diskErrors = found
}

func (o *observing) askDisks(ctx context.Context) {
	if o.onTarget() {
		o.lacks(PartDisks, "the machine is just arriving at its host")

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

	found, err := o.vm.host.conn.BlockInfos(ctx, o.vm.UUID, targets)
	if err != nil {
		o.failed(PartDisks, err)

		return
	}

	o.disks = found
}

// sources are the disks that have a source, by key.
func (o *observing) sources() map[string]domain.Disk {
	spec := o.vm.LiveSpec
	if spec == nil {
		spec = o.vm.PersistentSpec
	}

	disks := make(map[string]domain.Disk)
	if spec != nil {
		maps.Copy(disks, spec.Disks)
	}

	maps.DeleteFunc(disks, func(_ string, d domain.Disk) bool {
		s := d.Source

		return s.File == "" && s.Block == "" && s.Network == nil && s.Other == ""
	})

	return disks
}

// opens says whether the host's libvirt can look at the disk's source: what QEMU
// reaches over the network by itself only QEMU can.
func (o *observing) opens(d domain.Disk) bool { return o.vm.Active || d.Source.Network == nil }
