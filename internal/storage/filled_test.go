package storage

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestDisk_checkFilled: QEMU copies what it can open, as a guest sees it.
func TestDisk_checkFilled(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		disk   Disk
		source libvirt.Volume
		ok     bool
	}{
		"file":              {Disk{}, libvirt.Volume{Type: "file", PoolType: "dir"}, true},
		"device":            {Disk{}, libvirt.Volume{Type: "block", PoolType: "logical"}, true},
		"Ceph":              {Disk{}, libvirt.Volume{Type: "network", PoolType: "rbd"}, true},
		"Gluster":           {Disk{}, libvirt.Volume{Type: "network", PoolType: "gluster"}, false},
		"directory":         {Disk{}, libvirt.Volume{Type: "dir", PoolType: "dir"}, false},
		"encrypted":         {Disk{}, libvirt.Volume{Type: "file", PoolType: "dir", Encrypted: true}, false},
		"new one encrypted": {Disk{Secret: "5a1bb6ff"}, libvirt.Volume{Type: "file", PoolType: "dir"}, false},
	} {
		tt.disk.Clone = &Ref{Pool: "vms", Name: "base"}
		err := tt.disk.checkFilled(tt.source)
		if (err == nil) != tt.ok || errors.Is(err, libvirt.ErrUnsupported) == tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
