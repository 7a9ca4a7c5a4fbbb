package storage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// errLater is how a host doesn't answer that does so another time.
var errLater = errors.New("it was killed")

// TestCheckMounted: a pool lacks its filesystem if libvirt mounts it, or if the host's fstab has it at the directory or
// above it, and it isn't among the mounts. Whatever can't be known is no lack. What the host doesn't say this time is.
func TestCheckMounted(t *testing.T) {
	t.Parallel()
	const root = "/dev/vda1 / ext4 rw 0 0\n"
	for name, c := range map[string]struct {
		kind, dir        string
		inactive         bool
		planned, mounted string
		links            bool   // the directory is one of the mount points under another name
		unseen           string // "points": the host's user sees not all mount points, "all": nor the directory
		unread           error  // of the tables
		uncompared       error
		want             bool
	}{
		"on the root":      {planned: "/dev/vda1 / ext4 defaults 0 1\nnone swap swap sw 0 0\n", mounted: root},
		"gone":             {planned: "nas:/v /srv/vms nfs defaults,nofail 0 0\n", mounted: root, want: true},
		"gone above":       {planned: "# all\n\nnas:/v /srv nfs defaults 0 0\n", mounted: root, want: true},
		"mounted":          {planned: "nas:/v /srv/vms/ nfs defaults\n", mounted: root + "nas:/v /srv/vms nfs4 rw 0 0\n"},
		"other":            {planned: "nas:/v /srv/vm nfs defaults 0 0\n", mounted: root},
		"below":            {planned: "nas:/v /srv/vms/a nfs defaults 0 0\n", mounted: root},
		"a space":          {dir: "/srv/a b", planned: `nas:/v /srv/a\040b nfs defaults 0 0`, mounted: root, want: true},
		"a space, mounted": {dir: "/srv/a b", planned: `x /srv/a\040b nfs rw`, mounted: root + `x /srv/a\040b nfs rw`},
		"gone, and covered": {
			planned: "/dev/vdb /srv ext4 nofail 0 0\nnas:/v /srv/vms nfs rw 0 0\n",
			mounted: root + "nas:/v /srv/vms nfs4 rw 0 0\n",
		},
		"gone, one is below": {
			planned: "/dev/vdb /srv ext4 nofail 0 0\n", mounted: root + "nas:/v /srv/vms/iso nfs4 rw 0 0\n", want: true,
		},
		"by hand":         {planned: "nas:/v /srv nfs noauto 0 0\n", mounted: root},
		"when it is used": {planned: "x /srv nfs noauto,x-systemd.automount 0 0\n", mounted: root, want: true},
		"by another name": {planned: "nas:/v /srv/vms nfs defaults 0 0\n", mounted: root, links: true},
		"gone, and some are hidden": {
			planned: "nas:/v /srv/vms nfs rw 0 0\n", mounted: root + "x /hidden fuse rw 0 0\n", unseen: "points", want: true,
		},
		"hidden": {
			planned: "nas:/v /srv/vms nfs rw 0 0\n", mounted: root + "x /hidden fuse rw 0 0\n", unseen: "all",
		},
		"unread": {planned: "nas:/v /srv/vms nfs defaults 0 0\n", unread: errLater, want: true},
		"unread by another name": {
			planned: "nas:/v /srv/vms nfs defaults 0 0\n", mounted: root, uncompared: errLater, want: true,
		},
		"no table of mounts": {planned: "nas:/v /srv/vms nfs defaults 0 0\n"},
		"libvirt's":          {kind: "netfs", mounted: root, want: true},
		"libvirt's, stopped": {kind: "netfs", mounted: root, inactive: true},
		"libvirt's, mounted": {kind: "fs", mounted: root + "/dev/vdb /srv/vms xfs rw 0 0\n"},
		"no files":           {kind: "logical", planned: "x /srv nfs defaults 0 0\n", mounted: root},
	} {
		if c.dir == "" {
			c.dir = "/srv/vms"
		}
		if c.kind == "" {
			c.kind = "dir"
		}
		h := hostset.Host{
			Name:        "kvm1",
			MountTables: func(context.Context) (planned, mounted string, err error) { return c.planned, c.mounted, c.unread },
			SameFile: func(_ context.Context, at string, all ...string) ([]string, error) {
				switch {
				case c.uncompared != nil:
					return nil, c.uncompared
				case c.links:
					return all[:1], nil
				case c.unseen == "all":
					return nil, libvirt.ErrUnsupported
				case c.unseen == "points" && slices.Contains(all, at):
					return []string{at}, libvirt.ErrUnsupported
				case c.unseen == "points":
					return nil, libvirt.ErrUnsupported
				}
				return nil, nil
			},
		}
		pool := &libvirt.StoragePool{
			Name: "vms", Active: !c.inactive,
			XML: fmt.Sprintf("<pool type='%s'><name>vms</name><target><path>%s</path></target></pool>", c.kind, c.dir),
		}
		err := storage.CheckMounted(t.Context(), h, pool)
		if errors.Is(err, storage.ErrUnmounted) != c.want || err != nil && !errors.Is(err, libvirt.ErrPoolInactive) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
		if unread := cmp.Or(c.unread, c.uncompared) != nil; errors.Is(err, storage.ErrMountsUnread) != unread ||
			unread && !strings.Contains(err.Error(), errLater.Error()) {
			t.Errorf("%s: %v; is it that the host didn't say: %v", name, err, unread)
		}
		h.MountTables = nil
		if err := storage.CheckMounted(t.Context(), h, pool); err != nil {
			t.Errorf("%s, on a host whose files can't be read: %v", name, err)
		}
	}
}

// TestVolume_unreadMounts: a volume that its pool doesn't list isn't gone, and nothing is created or removed, while the
// host doesn't say what it has mounted.
func TestVolume_unreadMounts(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	s, ref := storageOf(h), storage.Ref{Pool: "vms", Name: "data"}
	var unread error
	s.Hosts[0].MountTables = func(context.Context) (planned, mounted string, err error) {
		return "# none\n", "/dev/vda / ext4 rw 0 0\n", unread
	}
	read := func() error { return s.Volume(t.Context(), s.Hosts, ref)[0].Err }
	for name, check := range map[string]func() error{
		"reading":  read,
		"room":     func() error { return s.CheckRoom(t.Context(), "one", "vms", storage.Demand{}) },
		"removal":  func() error { return s.CheckDelete(t.Context(), "one", ref) },
		"removing": func() error { return s.DeleteUnused(t.Context(), s.Hosts, "one", ref, "") },
	} {
		unread = errLater
		if err := check(); !errors.Is(err, storage.ErrMountsUnread) || !errors.Is(err, libvirt.ErrPoolInactive) {
			t.Errorf("%s: %v", name, err)
		}
		unread = nil
		if err := check(); err != nil {
			t.Errorf("%s, when the host says it: %v", name, err)
		}
	}
	if a := s.Volume(t.Context(), s.Hosts, ref)[0]; a.Value != nil || a.Err != nil {
		t.Errorf("it is there: %+v", a)
	}
}
