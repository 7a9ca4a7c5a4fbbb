package domain_test

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

func TestSameDisk_isOneDiskHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	network := func(protocol, name string, hosts ...string) domain.DiskSource {
		return domain.DiskSource{Network: &domain.NetworkSource{Protocol: protocol, Name: name, Hosts: hosts}}
	}
	for name, tt := range map[string]struct {
		a, b            domain.DiskSource
		there, anywhere bool // On one host, and on two.
	}{
		"file":               {domain.DiskSource{File: "/a"}, domain.DiskSource{File: "/b/../a"}, true, false},
		"block, as a file":   {domain.DiskSource{File: "/dev/a"}, domain.DiskSource{Block: "/dev/a"}, true, false},
		"other file":         {domain.DiskSource{File: "/a"}, domain.DiskSource{File: "/b"}, false, false},
		"no medium":          {domain.DiskSource{}, domain.DiskSource{}, false, false},
		"export":             {network("nbd", "a", "10.0.0.1"), network("nbd", "a", "10.0.0.1:10809"), true, true},
		"other port":         {network("nbd", "a", "10.0.0.1:1"), network("nbd", "a", "10.0.0.1:10809"), false, false},
		"other export":       {network("nbd", "a", "10.0.0.1"), network("nbd", "b", "10.0.0.1"), false, false},
		"some of monitors":   {network("rbd", "p/a", "m1:6789", "m2:6789"), network("rbd", "p/a", "m2:6789"), true, true},
		"other cluster":      {network("rbd", "p/a", "m1:6789"), network("rbd", "p/a", "n1:6789"), false, false},
		"monitors by config": {network("rbd", "p/a"), network("rbd", "p/a"), true, true},
		"two portals":        {network("iscsi", "iqn:x/1", "a:3260"), network("iscsi", "iqn:x/1", "b:3260"), true, true},
		"file and network":   {domain.DiskSource{File: "a"}, network("nbd", "a", "x"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pair := range [][2]domain.DiskSource{{tt.a, tt.b}, {tt.b, tt.a}} {
				if got := domain.SameDisk(pair[0], pair[1], true); got != tt.there {
					t.Errorf("on one host: %t", got)
				}
				if got := domain.SameDisk(pair[0], pair[1], false); got != tt.anywhere {
					t.Errorf("on two hosts: %t", got)
				}
			}
		})
	}
}

func TestDiskUses_areWhatIsWritten(t *testing.T) {
	t.Parallel()
	document := `<domain type='qemu'><name>a</name><memory>1024</memory><os><type>hvm</type></os><devices>
<disk type='file' device='disk'><source file='/srv/a&amp;b.raw'/>
  <backingStore type='file'><format type='raw'/><source file='/srv/base.raw'/><backingStore/></backingStore>
  <target dev='vda' bus='virtio'/></disk>
<disk type='file' device='disk'><source file='/srv/r.raw'/><target dev='vdb' bus='virtio'/><readonly/></disk>
<disk type='file' device='cdrom'><source file='/srv/c.iso'/><target dev='sda' bus='sata'/></disk>
<disk type='file' device='disk'><source file='/srv/t.raw'/><target dev='vdc' bus='virtio'/><transient/></disk>
<disk type='network' device='disk'><source protocol='nbd' name='x'><host name='h' port='1'/></source>
  <target dev='vdd' bus='virtio'/><shareable/></disk>
</devices></domain>`
	d, err := domain.Parse(document)
	if err != nil {
		t.Fatal(err)
	}
	uses := d.DiskUses()
	if len(uses) != 2 || uses[0].Source.File != "/srv/a&b.raw" || uses[0].Shareable || !uses[1].Shareable {
		t.Errorf("got %+v", uses)
	}
	if b := uses[0].Backing; len(b) != 1 || b[0].File != "/srv/base.raw" || len(uses[1].Backing) > 0 {
		t.Errorf("got %+v", uses)
	}
	names := domain.SourceNames(document)
	if !slices.Contains(names, "/srv/base.raw") {
		t.Errorf("the backing file is not among %q", names)
	}
	for _, use := range uses {
		if !slices.Contains(names, use.Source.Name()) {
			t.Errorf("%q is not among %q", use.Source.Name(), names)
		}
	}
}
