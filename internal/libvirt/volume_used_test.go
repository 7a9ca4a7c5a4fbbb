package libvirt

import "testing"

// TestVolume_usedAs: a raw file has the size of the file, whatever libvirt reads in it. What isn't known to be raw, and
// what is no file, is what libvirt says.
func TestVolume_usedAs(t *testing.T) {
	t.Parallel()
	image := Volume{
		Type: "file", Format: "qcow2", CapacityBytes: 64, PhysicalBytes: 4, Backing: "/etc/shadow", AllocationBytes: 3,
	}
	luks := Volume{Type: "file", Format: "raw", CapacityBytes: 2, PhysicalBytes: 4, Encrypted: true}
	network := Volume{Type: "network", Format: "raw", CapacityBytes: 4}
	raw := Volume{Type: "file", Format: "raw", CapacityBytes: 4, PhysicalBytes: 4}
	written := raw
	written.AllocationBytes = 3
	for name, c := range map[string]struct {
		is     Volume
		format string
		want   Volume
	}{
		"an image in a raw file":   {image, "raw", written},
		"LUKS in a raw file":       {luks, "raw", raw},
		"a raw file":               {raw, "raw", raw},
		"an image":                 {image, "qcow2", image},
		"an image of another kind": {image, "vmdk", image},
		"a file of unknown format": {image, "", image},
		"an encrypted volume":      {luks, "", luks},
		"a volume that is no file": {network, "raw", network},
	} {
		if got := c.is.UsedAs(c.format); got != c.want {
			t.Errorf("%s is %+v, want %+v", name, got, c.want)
		}
	}
}
