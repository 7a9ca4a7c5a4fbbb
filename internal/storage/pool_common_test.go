package storage

import (
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestInCommon: two pools have storage in common if libvirt doesn't define the second one.
func TestInCommon(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "local", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	path := func(kind, path string) Pool { return Pool{Type: kind, Path: &path} }
	export := func(server, dir string) Pool {
		p := path("netfs", "/mnt/"+server+dir)
		p.SourceHosts, p.SourceDir = []SourceHost{{Name: server}}, &dir
		return p
	}
	devices := func(kind string, devices ...string) Pool {
		p := path(kind, "/mnt/"+kind)
		p.Devices = devices
		return p
	}
	for name, c := range map[string]struct{ one, two Pool }{
		"directory":            {path("dir", "/in-common/vms"), path("dir", "/in-common/vms/")},
		"two directories":      {path("dir", "/in-common/a"), path("dir", "/in-common/b")},
		"directory of a mount": {devices("fs", "/dev/in-common-m"), path("dir", "/mnt/fs")},
		"export":               {export("nas", "/vms"), export("nas", "/vms")},
		"two exports":          {export("nas", "/a"), export("nas", "/b")},
		"two servers":          {export("nas1", "/vms"), export("nas2", "/vms")},
		"device":               {devices("fs", "/dev/in-common-1"), devices("fs", "/dev/in-common-1")},
		"one of the devices": {
			devices("logical", "/dev/in-common-2", "/dev/in-common-3"), devices("disk", "/dev/in-common-3"),
		},
		"two devices":                {devices("fs", "/dev/in-common-4"), devices("logical", "/dev/in-common-5")},
		"groups without the devices": {devices("logical"), devices("logical")},
	} {
		var refused error
		pools := []Pool{c.one, c.two}
		for i := range pools {
			pools[i].Name = []string{"one", "two"}[i]
			document, err := pools[i].Document(uuid.NewString())
			if err != nil {
				t.Fatal(err)
			}
			if refused = h.DefineStoragePool(t.Context(), pools[i].Name, document); refused != nil && i == 0 {
				t.Fatalf("%s: %v", name, refused)
			}
		}
		if says := pools[1].InCommon(pools[0]); (says != "") != (refused != nil) {
			t.Errorf("%s: in common is %q, and libvirt says %v", name, says, refused)
		}
		for _, p := range pools[:map[bool]int{true: 1, false: 2}[refused != nil]] {
			if err := h.UndefineStoragePool(t.Context(), p.Name); err != nil {
				t.Error(err)
			}
		}
	}
}
