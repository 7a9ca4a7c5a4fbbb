package migration

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// checkPoolVolume checks a disk that the VM's definition names as a volume of a storage pool. libvirt looks it up in
// each host's pool of that name, and it is never copied.
func (t preflight) checkPoolVolume(ctx context.Context, f *blockerList, disk domain.MobileDisk) {
	at := "disks." + disk.Key
	here, err := poolVolume(ctx, t.source, disk)
	if err != nil {
		f.unanswered(DisksNotLiveMigratable, at, t.source, "the storage", err)
		return
	}
	there, err := poolVolume(ctx, t.target, disk)
	if err != nil {
		f.unanswered(DisksNotLiveMigratable, at, t.target, "the storage", err)
		return
	}
	what := fmt.Sprintf("disk %q is volume %q of storage pool %q by its definition, and such a disk isn't copied",
		disk.Key, disk.Volume, disk.Pool)
	remedy := poolVolumeRemedy(disk, here)
	switch {
	case there == nil:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s; host %q has no such volume", what, t.target.Name()), remedy)
	case here != nil && here.CapacityBytes != there.CapacityBytes:
		f.block(DisksNotLiveMigratable, at, fmt.Sprintf("%s; it has %d bytes, and on host %q that is another volume, of %d "+
			"bytes", what, here.CapacityBytes, t.target.Name(), there.CapacityBytes), remedy)
	default:
		t.mayNotReach(f, disk, fmt.Sprintf("%s; host %q has a volume of that name too, and whether it is the same storage "+
			"is unknown", what, t.target.Name()), "If it isn't, libvirt refuses the migration. "+remedy)
	}
}

// poolVolume returns the volume that a disk is on that host, nil if the host has none.
func poolVolume(ctx context.Context, h *libvirt.Host, disk domain.MobileDisk) (*libvirt.Volume, error) {
	v, err := h.PoolVolume(ctx, disk.Pool, disk.Volume)
	if errors.Is(err, libvirt.ErrNotFound) || errors.Is(err, libvirt.ErrNoPool) {
		return nil, nil
	}
	return v, err
}

// poolVolumeRemedy says how to move a disk that is the volume of a pool, which is this one on the source.
func poolVolumeRemedy(disk domain.MobileDisk, here *libvirt.Volume) string {
	if here == nil || here.Type != "file" || disk.ReadOnly {
		return fmt.Sprintf("Have the volume in storage pool %q of both hosts.", disk.Pool)
	}
	return fmt.Sprintf("Set disks.%s.file = %q, and restart the VM: then the file can be copied "+
		"(migration_options.copy_storage = \"full\"), or be declared as shared.", disk.Key, here.Path)
}
