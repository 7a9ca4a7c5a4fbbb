package storage

import (
	"errors"
	"testing"
)

// TestPool_checkRemoval: which partitions libvirt can remove, by the names of the pool's device and of the volume. It
// removes and grows no LUNs.
func TestPool_checkRemoval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, device, volume string
		disk, number         string // "" is that libvirt removes it.
		link                 bool
	}{
		{"disk", "/dev/sda", "sda1", "", "", false},
		{"disk", "/dev/sda", "sda12", "", "", false},
		{"disk", "/dev/vdb", "vdb3", "", "", false},
		{"disk", "/dev/nvme0n1", "nvme0n1p1", "nvme0n1", "1", false},
		{"disk", "/dev/loop0", "loop0p12", "loop0", "12", false},
		{"disk", "/dev/mmcblk1", "mmcblk1p2", "mmcblk1", "2", false},
		{"disk", "/dev/disk/by-id/ata-DISK_1", "sdb2", "sdb", "2", true},
		{"disk", "/dev/disk/by-id/nvme-DISK", "nvme1n1p2", "nvme1n1", "2", false},
		{"disk", "/dev/mapper/mpatha", "mpatha1", "", "", false},
		{"disk", "/dev/mapper/mpath1", "mpath1p1", "", "", false},
		{"disk", "/dev/dm-3", "dm-3p1", "", "", false},
		{"disk", "/dev/vg/lv1", "lv1p1", "", "", false},
		{"logical", "/dev/nvme0n1", "data", "", "", false},
		{"dir", "", "nvme0n1p1", "", "", false},
		{"gluster", "", "disk", "", "", false},
	} {
		p := Pool{Name: "parts", Type: tt.kind}
		if tt.device != "" {
			p.Devices = []string{tt.device}
		}
		err := p.checkRemoval(tt.volume)
		e, refused := errors.AsType[*PartitionError](err)
		switch {
		case refused != (tt.disk != ""):
			t.Errorf("%s on %s, volume %s: %v", tt.kind, tt.device, tt.volume, err)
		case refused && (e.Disk != tt.disk || e.Number != tt.number || e.OfAnotherName() != tt.link || e.Pool != "parts"):
			t.Errorf("volume %s on %s is taken for %+v", tt.volume, tt.device, e)
		}
	}
	for _, kind := range []string{"iscsi", "iscsi-direct", "scsi", "mpath"} {
		p := Pool{Name: "luns", Type: kind, Devices: []string{"iqn.2026-11.net.example:vms"}}
		if err := p.checkRemoval("unit:0:0:1"); !errors.Is(err, ErrRemovesNone) {
			t.Errorf("a volume of a pool of type %s is removed: %v", kind, err)
		}
		if err := p.CheckGrowth(); err == nil {
			t.Errorf("a volume of a pool of type %s grows", kind)
		}
	}
}
