package storage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TestUsers_gluster: a disk names a volume on Gluster without its server, which has several names.
func TestUsers_gluster(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	for name, source := range map[string]string{
		"gluster-same":      `protocol="gluster" name="vms/to &amp; fro/data"`,
		"gluster-longer":    `protocol="gluster" name="vms/to &amp; fro/data2"`,
		"gluster-elsewhere": `protocol="gluster" name="vms/data"`,
		"gluster-nbd":       `protocol="nbd" name="vms/to &amp; fro/data"`,
	} {
		definition := fmt.Sprintf(`<domain type="test"><name>%s</name><memory>1024</memory><os><type>hvm</type></os>`+
			`<devices><disk type="network"><source %s><host name="other.example.net" port="24007"/></source>`+
			`<target dev="vdb" bus="virtio"/></disk></devices></domain>`, name, source)
		if _, err := h.DefineDomain(t.Context(), definition); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	s := storage.Storage{Log: slog.New(slog.DiscardHandler), Hosts: hostset.NewSet(hostset.Host{Name: "test", Conn: h})}
	for _, at := range []string{
		"gluster://nas.example.net/vms/to%20&%20fro/data", "gluster+tcp://nas.example.net:24007/vms/to%20%26%20fro/data",
	} {
		users, err := s.Users(t.Context(), s.Hosts, libvirt.Volume{Pool: "vms", Name: "data", Path: at})
		if err != nil || len(users) != 1 || users[0].VM != "gluster-same" || users[0].Target != "vdb" {
			t.Errorf("%s: %v, %v", at, users, err)
		}
	}
}

// TestUsers: a VM that is off uses a volume, however its definition writes the volume's path.
func TestUsers(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	const link = "/links/to & fro/data"
	sources := map[string]string{
		"same": `file="/vms/data"`, "slashes": `file="/vms//data"`, "dots": `file="/vms/../vms/./data"`,
		"link": `file="/links/to &amp; fro/data"`,
		// These are others.
		"longer": `file="/vms/data2"`, "elsewhere": `file="/other/data"`,
	}
	for name, source := range sources {
		definition := fmt.Sprintf(`<domain type="test"><name>%s</name><memory>1024</memory><os><type>hvm</type></os>`+
			`<devices><disk type="file"><source %s/><target dev="vdb" bus="virtio"/></disk></devices></domain>`, name, source)
		if _, err := h.DefineDomain(t.Context(), definition); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var failure error
	s := storage.Storage{Log: slog.New(slog.DiscardHandler), Hosts: hostset.NewSet(hostset.Host{
		Name: "test", Conn: h,
		SameFile: func(_ context.Context, path string, paths ...string) (same []string, err error) {
			if failure != nil {
				return nil, failure
			}
			if path == "/vms/data" && slices.Contains(paths, link) {
				same = append(same, link)
			}
			return same, nil
		},
	})}
	users, err := s.Users(t.Context(), s.Hosts, libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, u := range users {
		names = append(names, u.VM)
		if u.Host != "test" || u.Target != "vdb" || u.Active {
			t.Errorf("%+v", u)
		}
	}
	slices.Sort(names)
	if want := []string{"dots", "link", "same", "slashes"}; !slices.Equal(names, want) {
		t.Errorf("%q use the volume, want %q", names, want)
	}
	// Paths stand for files on a host that can't compare them, and not on one that doesn't answer.
	for _, c := range []struct {
		failure error
		known   bool
	}{{libvirt.ErrUnsupported, true}, {libvirt.ErrUnreachable, false}, {context.DeadlineExceeded, false}} {
		failure = c.failure
		users, err := s.Users(t.Context(), s.Hosts, libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"})
		if c.known && (err != nil || len(users) != 3) || !c.known && !errors.Is(err, failure) {
			t.Errorf("if files can't be compared because of %v: %v, %v", failure, users, err)
		}
	}
}

// openHost opens a host of libvirt's test driver that has nothing yet.
func openHost(t *testing.T, name string) *libvirt.Host {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".xml")
	if err := os.WriteFile(file, []byte("<node/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := libvirt.Open(libvirt.Config{Name: name, URI: "test://" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// TestDeleteUnused_everyHost: a volume of a shared pool stays while a VM that is off on any host, or one that doesn't
// answer, may use it.
func TestDeleteUnused_everyHost(t *testing.T) {
	t.Parallel()
	one, other := openHost(t, "one"), openHost(t, "other")
	const document = `<pool type="netfs"><name>vms</name><source><host name="nas"/><dir path="/vms"/></source>` +
		`<target><path>/vms</path></target></pool>`
	for _, h := range []*libvirt.Host{one, other} {
		if err := h.DefineStoragePool(t.Context(), "vms", document); err != nil {
			t.Fatal(err)
		}
		if err := h.StartStoragePool(t.Context(), "vms"); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.CreateVolume(t.Context(), libvirt.NewVolume{Pool: "vms", Name: "data", Document: `<volume>` +
		`<name>data</name><capacity>1024</capacity></volume>`}); err != nil {
		t.Fatal(err)
	}
	uuid, err := other.DefineDomain(t.Context(), `<domain type="test"><name>web</name><memory>1024</memory>`+
		`<os><type>hvm</type></os><devices><disk type="volume"><source pool="vms" volume="data"/><target dev="vdb"/></disk>`+
		`</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	s := storage.Storage{
		Log: slog.New(slog.DiscardHandler), Hosts: hostset.NewSet(
			hostset.Host{Name: "one", Conn: one}, hostset.Host{Name: "other", Conn: other}),
		Lock: func(ctx context.Context, _, _, _ string) (context.Context, func(), error) { return ctx, func() {}, nil },
	}
	remove := func() error {
		hosts, err := s.UserHosts(t.Context(), "one", "vms")
		if err != nil {
			return err
		}
		return s.DeleteUnused(t.Context(), hosts, "one", storage.Ref{Pool: "vms", Name: "data"}, "")
	}
	there := func() bool {
		_, err := one.PoolVolume(t.Context(), "vms", "data")
		return err == nil
	}
	if err := remove(); !errors.Is(err, storage.ErrInUse) || !there() {
		t.Errorf("while a VM uses it: %v, the volume is there: %t", err, there())
	}
	silent, err := libvirt.Open(libvirt.Config{Name: "other", URI: "test:///no/such/file"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s.Hosts[1].Conn = silent
	if err := remove(); err == nil || errors.Is(err, storage.ErrInUse) || !there() {
		t.Errorf("while a host doesn't answer: %v, the volume is there: %t", err, there())
	}
	s.Hosts[1].Conn = other
	if err := other.UndefineDomain(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil || there() {
		t.Errorf("unused: %v, the volume is there: %t", err, there())
	}
}

// TestIsGone_rbd: a pool that is given another source has other images, so that one that it lacks may be there.
func TestIsGone_rbd(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if err := h.DefineStoragePool(t.Context(), "ceph", "<pool type='rbd'><name>ceph</name><source><name>vms</name>"+
		"<host name='ceph1'/></source></pool>"); err != nil {
		t.Fatal(err)
	}
	if err := h.StartStoragePool(t.Context(), "ceph"); err != nil {
		t.Fatal(err)
	}
	s := storage.Storage{Log: slog.New(slog.DiscardHandler), Hosts: hostset.NewSet(hostset.Host{Name: "test", Conn: h})}
	for at, want := range map[string]bool{"vms/data": true, "before/data": false} {
		gone, err := s.IsGone(t.Context(), "test", storage.Ref{Pool: "ceph", Name: "data"}, at, "")
		if err != nil || gone != want {
			t.Errorf("%s: %t, %v", at, gone, err)
		}
	}
}
