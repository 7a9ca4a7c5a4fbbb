package storage_test

import (
	"context"
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestMounts_automounted: autofs unmounts what nothing uses, and mounts it again at the next use. So it isn't gone, as
// long as autofs is what one finds at its mount point.
func TestMounts_automounted(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", `<pool type="dir"><name>NAME</name><target><path>/nfs/x/vms</path></target></pool>`)
	const root = "/dev/vda1 / ext4 rw 0 0\n"
	for name, c := range map[string]struct {
		mounted string
		gone    bool
	}{
		"mounted":              {mounted: root + "nas:/x /nfs/x nfs4 rw 0 0\n"},
		"gone":                 {mounted: root, gone: true},
		"indirect":             {mounted: root + "auto.nfs /nfs autofs rw,indirect 0 0\n"},
		"indirect, mounted":    {mounted: root + "auto.nfs /nfs autofs rw,indirect 0 0\nnas:/x /nfs/x nfs4 rw 0 0\n"},
		"direct":               {mounted: root + "auto.nfs /nfs/x autofs rw,direct 0 0\n"},
		"autofs elsewhere":     {mounted: root + "auto.misc /nf autofs rw,indirect 0 0\n", gone: true},
		"autofs below":         {mounted: root + "auto.misc /nfs/x/vms/iso autofs rw,direct 0 0\n", gone: true},
		"another above":        {mounted: root + "auto.nfs /nfs autofs rw 0 0\nnas:/all /nfs nfs4 rw 0 0\n", gone: true},
		"above another autofs": {mounted: root + "nas:/all /nfs nfs4 rw 0 0\nauto.nfs /nfs autofs rw 0 0\n"},
	} {
		hosts := hostset.NewSet(hostset.Host{
			Name: "one", Conn: h,
			MountTables: func(context.Context) (planned, mounted string, err error) { return "", c.mounted, nil },
			SameFile:    func(context.Context, string, ...string) ([]string, error) { return nil, nil },
		})
		_, gone := storage.Mounts{"one": "/nfs/x"}.Review(t.Context(), hosts, "vms", map[string]string{"one": ""})
		if err := gone["one"]; errors.Is(err, storage.ErrMountGone) != c.gone || (err != nil) != c.gone {
			t.Errorf("%s: %v; gone: %v", name, err, c.gone)
		}
	}
}
