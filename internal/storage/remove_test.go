package storage_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// copyName is the name of an image's copy.
const copyName = "base-0123456789ab"

const (
	dirPool   = `<pool type="dir"><name>NAME</name><target><path>/NAME</path></target></pool>`
	netfsPool = `<pool type="netfs"><name>NAME</name><source><host name="nas"/><dir path="/NAME"/></source>` +
		`<target><path>/NAME</path></target></pool>`
	iscsiPool = `<pool type="iscsi"><name>NAME</name><source><host name="san"/>` +
		`<device path="iqn.2026-11.net.example:NAME"/></source><target><path>/dev/disk/by-path</path></target></pool>`
	logicalPool = `<pool type="logical"><name>NAME</name><source><name>NAME</name><format type="lvm2"/></source>` +
		`<target><path>/dev/NAME</path></target></pool>`
)

// startPool defines and starts a pool of that name.
func startPool(t *testing.T, h *libvirt.Host, name, document string) {
	t.Helper()
	err := h.DefineStoragePool(t.Context(), name, strings.ReplaceAll(document, "NAME", name))
	if err := errors.Join(err, h.StartStoragePool(t.Context(), name)); err != nil {
		t.Fatal(err)
	}
}

// createVolume creates a volume; backing is the path of the file that it is based on, or "".
func createVolume(t *testing.T, h *libvirt.Host, pool, name, backing string) {
	t.Helper()
	document := "<volume><name>" + name + "</name><capacity>4096</capacity>"
	if backing != "" {
		document += "<backingStore><path>" + backing + "</path></backingStore>"
	}
	if err := h.CreateVolume(t.Context(), libvirt.NewVolume{
		Pool: pool, Name: name, Document: document + "</volume>",
	}); err != nil {
		t.Fatal(err)
	}
}

// defineVM defines a VM whose disk has that source, and returns its UUID.
func defineVM(t *testing.T, h *libvirt.Host, name, diskType, source string) string {
	t.Helper()
	uuid, err := h.DefineDomain(t.Context(), `<domain type="test"><name>`+name+`</name><memory>1024</memory>`+
		`<os><type>hvm</type></os><devices><disk type="`+diskType+`"><source `+source+`/><target dev="vdb"/></disk>`+
		`</devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}
	return uuid
}

func storageOf(hosts ...*libvirt.Host) storage.Storage {
	s := storage.Storage{
		Log:  slog.New(slog.DiscardHandler),
		Lock: func(ctx context.Context, _, _, _ string) (context.Context, func(), error) { return ctx, func() {}, nil },
	}
	for _, h := range hosts {
		s.Hosts = append(s.Hosts, hostset.Host{Name: h.Name(), Conn: h})
	}
	s.Hosts = hostset.NewSet(s.Hosts...)
	return s
}

func hasCopy(t *testing.T, h *libvirt.Host, pool string) bool {
	t.Helper()
	_, err := h.PoolVolume(t.Context(), pool, copyName)
	return err == nil
}

// TestRemoveCopies: an image's copy in a shared pool is one file for all hosts. It stays while a disk of any of them is
// based on it, in whichever pool that disk is, and while the image stays on a host that shares the pool.
func TestRemoveCopies(t *testing.T) {
	t.Parallel()
	one, other := openHost(t, "one"), openHost(t, "other")
	for _, h := range []*libvirt.Host{one, other} {
		startPool(t, h, "images", netfsPool)
		startPool(t, h, "local", dirPool)
		createVolume(t, h, "images", copyName, "")
	}
	createVolume(t, other, "local", "root", "/images/"+copyName)
	s := storageOf(one, other)
	ref := storage.Ref{Pool: "images", Name: copyName}
	failed := s.RemoveCopies(t.Context(), s.Hosts.Named("one"), nil, ref)
	if !errors.Is(failed["one"], storage.ErrInUse) || !hasCopy(t, one, "images") {
		t.Errorf("while another host has an overlay of it: %v", failed)
	}
	before := [...]int{one.Calls()["virStoragePoolListAllVolumes"], other.Calls()["virStoragePoolListAllVolumes"]}
	failed = s.RemoveCopies(t.Context(), s.Hosts, nil, ref)
	if !errors.Is(failed["one"], storage.ErrInUse) || !errors.Is(failed["other"], storage.ErrInUse) ||
		!hasCopy(t, one, "images") || !hasCopy(t, other, "images") {
		t.Errorf("on all hosts, while one has an overlay of it: %v", failed)
	}
	for i, h := range []*libvirt.Host{one, other} {
		if n := h.Calls()["virStoragePoolListAllVolumes"] - before[i]; n != 2 {
			t.Errorf("host %s listed %d pools, want each of its two once", h.Name(), n)
		}
	}
	failed = s.CheckCopies(t.Context(), s.Hosts, nil, ref)
	if len(failed) != 1 || !errors.Is(failed["one"], storage.ErrInUse) {
		t.Errorf("that it can't be removed is known before as %v", failed)
	}
	if err := other.DeleteVolume(t.Context(), "local", "root"); err != nil {
		t.Fatal(err)
	}
	if failed = s.CheckCopies(t.Context(), s.Hosts, nil, ref); len(failed) > 0 || !hasCopy(t, one, "images") {
		t.Errorf("that it can be removed is known before as %v", failed)
	}
	failed = s.RemoveCopies(t.Context(), s.Hosts.Named("one"), s.Hosts.Named("other"), ref)
	if len(failed) > 0 || !hasCopy(t, one, "images") {
		t.Errorf("while it stays on a host that shares the pool: %v", failed)
	}
	failed = s.RemoveCopies(t.Context(), s.Hosts, nil, ref)
	if len(failed) > 0 || hasCopy(t, one, "images") {
		t.Errorf("unused: %v", failed)
	}
}

// TestLocks_shared: who sends or removes an image in a pool that hosts share has the lock on each of them that answers:
// another run may reach the pool through another host. In a pool of a host's own, only that host has the lock.
func TestLocks_shared(t *testing.T) {
	t.Parallel()
	one, other := openHost(t, "one"), openHost(t, "other")
	for _, h := range []*libvirt.Host{one, other} {
		startPool(t, h, "images", netfsPool)
		startPool(t, h, "local", dirPool)
	}
	silent, err := libvirt.Open(libvirt.Config{
		Name: "silent", URI: "qemu+unix:///system?socket=" + t.TempDir() + "/absent",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s := storageOf(one, other, silent)
	var mu sync.Mutex
	var held, most []string
	var locks error // What the first host answers.
	s.Lock = func(ctx context.Context, host, name, _ string) (context.Context, func(), error) {
		mu.Lock()
		defer mu.Unlock()
		if host == "one" && locks != nil {
			return nil, nil, locks
		}
		if strings.HasPrefix(name, "volume:") {
			held = append(held, host)
		}
		if len(held) > len(most) {
			most = slices.Clone(held)
		}
		return ctx, func() { mu.Lock(); defer mu.Unlock(); held = nil }, nil
	}
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := storage.Fetch(t.Context(), storage.Source{File: file}, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = image.Close() })
	for pool, want := range map[string][]string{"images": {"one", "other"}, "local": {"other"}} {
		ref := storage.Ref{Pool: pool, Name: copyName}
		most = nil
		s.Put(t.Context(), s.Hosts.Named("other"), ref, image)
		if !slices.Equal(most, want) {
			t.Errorf("an upload to pool %s has the locks of %v, want %v", pool, most, want)
		}
		most = nil
		_ = s.DeleteUnused(t.Context(), s.Hosts.Named("other"), "other", ref, "")
		if !slices.Equal(most, want) {
			t.Errorf("a removal from pool %s has the locks of %v, want %v", pool, most, want)
		}
	}
	ref := storage.Ref{Pool: "images", Name: copyName}
	for _, locks = range []error{libvirt.ErrUnreachable, libvirt.ErrNoSecretDriver} {
		most = nil
		if failed := s.Put(t.Context(), s.Hosts.Named("other"), ref, image); errors.Is(failed["other"], locks) ||
			!slices.Equal(most, []string{"other"}) {
			t.Errorf("next to a host with %v, an upload has the locks of %v and ends with %v", locks, most, failed["other"])
		}
	}
	locks = libvirt.ErrBusy
	if failed := s.Put(t.Context(), s.Hosts.Named("other"), ref, image); !errors.Is(failed["other"], libvirt.ErrBusy) {
		t.Errorf("while another run has the lock, an upload ends with %v", failed["other"])
	}
}

// TestCreateVolume_unknownImage: a pool that doesn't list the image of a new volume is refreshed, once. One that lists
// it isn't.
func TestCreateVolume_unknownImage(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "images", dirPool)
	startPool(t, h, "vms", dirPool)
	createVolume(t, h, "images", copyName, "")
	s := storageOf(h)
	for image, want := range map[string]int{"absent-0123456789ab": 1, copyName: 0} {
		before := h.Calls()["virStoragePoolRefresh"]
		_, err := s.CreateVolume(t.Context(), "one", storage.Disk{
			Pool: "vms", Name: "root", Overlay: &storage.Ref{Pool: "images", Name: image},
		})
		if errors.Is(err, libvirt.ErrNotFound) != (want == 1) {
			t.Errorf("%s: %v", image, err)
		}
		if n := h.Calls()["virStoragePoolRefresh"] - before; n != want {
			t.Errorf("%s: %d refreshes, want %d", image, n, want)
		}
	}
}

// TestPut_writtenTo: a copy that isn't the image any more is neither removed nor sent again while a VM uses it.
func TestPut_writtenTo(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	createVolume(t, h, "vms", copyName, "")
	uuid := defineVM(t, h, "web", "file", `file="/vms/`+copyName+`"`)
	file := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	s := storageOf(h)
	image, err := storage.Fetch(t.Context(), storage.Source{File: file}, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = image.Close() })
	// The test driver has no content of volumes, so it has none that is the image.
	ref := storage.Ref{Pool: "vms", Name: copyName}
	if failed := s.Put(t.Context(), s.Hosts, ref, image); !errors.Is(failed["one"], storage.ErrInUse) ||
		!strings.Contains(fmt.Sprint(failed), `VM "web"`) || !hasCopy(t, h, "vms") {
		t.Errorf("while a VM uses it: %v", failed)
	}
	createVolume(t, h, "vms", "root", "/vms/"+copyName)
	if err := h.UndefineDomain(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
	if failed := s.Put(t.Context(), s.Hosts, ref, image); !errors.Is(failed["one"], storage.ErrInUse) ||
		!strings.Contains(fmt.Sprint(failed), `volume "vms/root"`) ||
		strings.Contains(fmt.Sprint(failed), "virtual machine") {
		t.Errorf("while a volume is based on it: %v", failed)
	}
	if err := h.DeleteVolume(t.Context(), "vms", "root"); err != nil {
		t.Fatal(err)
	}
	if failed := s.Put(t.Context(), s.Hosts, ref, image); errors.Is(failed["one"], storage.ErrInUse) {
		t.Errorf("unused: %v", failed)
	}
}

// TestUsers_otherPool: two pools of a host may have the same directory, one of them through a link. A VM that names its
// disk by the other pool uses the volume, also while that pool isn't active.
func TestUsers_otherPool(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	startPool(t, h, "link", dirPool)
	startPool(t, h, "apart", dirPool)
	for _, pool := range []string{"vms", "link", "apart"} {
		createVolume(t, h, pool, "data", "")
		defineVM(t, h, "of-"+pool, "volume", `pool="`+pool+`" volume="data"`)
	}
	if err := h.StopStoragePool(t.Context(), "link"); err != nil {
		t.Fatal(err)
	}
	s := storageOf(h)
	s.Hosts[0].SameFile = func(_ context.Context, path string, paths ...string) (same []string, err error) {
		for _, p := range paths {
			if path == "/vms/data" && p == "/link/data" {
				same = append(same, p)
			}
		}
		return same, nil
	}
	users, err := s.Users(t.Context(), s.Hosts, libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, u := range users {
		names[u.VM] = u.Target
	}
	if len(names) != 2 || names["of-vms"] != "vdb" || names["of-link"] != "vdb" {
		t.Errorf("used by %v", names)
	}
}

// TestUsers_readsPoolsAgain: a VM's file that libvirt doesn't know makes it read the pool's directory again, but not
// for a plan, which changes nothing.
func TestUsers_readsPoolsAgain(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	createVolume(t, h, "vms", "data", "")
	createVolume(t, h, "vms", "overlay", "/vms/data")
	s := storageOf(h)
	data := libvirt.Volume{Pool: "vms", Name: "data", Path: "/vms/data"}
	refreshes := func(look func(context.Context, hostset.Set, libvirt.Volume) ([]storage.User, error)) int {
		before := h.Calls()["virStoragePoolRefresh"]
		if users, err := look(t.Context(), s.Hosts, data); err != nil || len(users) != 1 || users[0].Volume != "vms/overlay" {
			t.Errorf("used by %v, %v", users, err)
		}
		return h.Calls()["virStoragePoolRefresh"] - before
	}
	defineVM(t, h, "known", "file", `file="/vms/overlay"`)
	if n := refreshes(s.Users); n != 0 {
		t.Errorf("of known files: %d refreshes", n)
	}
	defineVM(t, h, "missing", "file", `file="/vms/missing.iso"`)
	if n := refreshes(s.Users); n != 1 {
		t.Errorf("%d refreshes, want 1", n)
	}
	if n := refreshes(s.KnownUsers); n != 0 {
		t.Errorf("of a plan: %d refreshes", n)
	}
}

// TestRelease_missing: a volume that its pool doesn't list is gone only if the pool is still in the volume's directory,
// the host doesn't have its file, and the pool isn't empty, as it is if its filesystem isn't mounted.
func TestRelease_missing(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	s := storageOf(h)
	release := storage.Release{Host: "one", Ref: storage.Ref{Pool: "vms", Name: "data"}, Path: "/vms/data", Hosts: s.Hosts}
	stays := func(says string) {
		t.Helper()
		if err := s.Release(t.Context(), release); !errors.Is(err, storage.ErrOtherPath) ||
			!strings.Contains(err.Error(), release.Path) || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v; want %s", err, says)
		}
	}
	gone := func(why string) {
		t.Helper()
		if err := s.Release(t.Context(), release); err != nil {
			t.Errorf("%s: %v", why, err)
		}
	}
	stays("isn't mounted")
	if err := s.Release(t.Context(), release); !errors.Is(err, storage.ErrUnseen) {
		t.Errorf("from an empty pool: %v", err)
	}
	release.Creating = true
	gone("never created")
	release.Creating = false
	// A first-boot volume is believed to be gone if nothing that may have it is missing.
	planned, mounted := "# none\n", "/dev/vda / ext4 rw 0 0\n"
	var asking, reading error
	s.Hosts[0].MountTables = func(context.Context) (string, string, error) { return planned, mounted, reading }
	s.Hosts[0].SameFile = func(context.Context, string, ...string) ([]string, error) { return nil, asking }
	stays("isn't mounted")
	release.Unbased = true
	gone("a first-boot volume from an empty pool")
	for _, planned = range []string{"", "nas:/v /vms nfs noauto 0 0\n"} {
		stays("isn't mounted")
	}
	mounted += "nas:/v /vms nfs4 rw 0 0\n"
	gone("with its filesystem")
	mounted = ""
	stays("isn't mounted")
	mounted, planned, asking = "/dev/vda / ext4 rw 0 0\n", "# none\n", libvirt.ErrUnsupported
	stays("isn't mounted")
	reading = errLater
	if err := s.Release(t.Context(), release); !errors.Is(err, storage.ErrUnseen) ||
		!errors.Is(err, storage.ErrMountsUnread) {
		t.Errorf("while the host doesn't say what is mounted: %v", err)
	}
	reading = nil
	release.Unbased = false
	createVolume(t, h, "vms", "other", "")
	gone("removed from a pool with other volumes")
	s.Hosts[0].SameFile = func(_ context.Context, path string, _ ...string) ([]string, error) {
		return []string{path}, nil
	}
	stays("the host has")
	release.Path = "/before/data"
	stays("is outside it")
}

// TestDeleteUnused_otherPath: a volume that has the place of the one that is to be removed stays: its pool was moved to
// another directory.
func TestDeleteUnused_otherPath(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	createVolume(t, h, "vms", "data", "")
	s, ref := storageOf(h), storage.Ref{Pool: "vms", Name: "data"}
	if err := s.DeleteUnused(t.Context(), s.Hosts, "one", ref, "/before/data"); !errors.Is(err, storage.ErrOtherPath) {
		t.Errorf("of another directory: %v", err)
	}
	if _, err := h.PoolVolume(t.Context(), "vms", "data"); err != nil {
		t.Fatalf("the other volume: %v", err)
	}
	if err := s.DeleteUnused(t.Context(), s.Hosts, "one", ref, "/vms/data"); err != nil {
		t.Error(err)
	}
	if _, err := h.PoolVolume(t.Context(), "vms", "data"); !errors.Is(err, libvirt.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
}

// TestRemovePool_inUse: a pool stays while its removal makes a VM lose disks: one that runs if it is stopped, and one
// that is off if its data is deleted. Its volumes are listed only if no directory tells which disks are in it, and to
// find VMs that have them under other paths before their data is deleted. Those of a stopped pool are listed as well.
func TestRemovePool_inUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pool, name, disk               string
		runs, stopped, withData, stays bool
		lists                          int
	}{
		"runs": {pool: netfsPool, disk: `file="/p/disk"`, runs: true, stays: true},
		"runs on a device": {
			pool: iscsiPool, disk: `file="/dev/disk/by-path/lun"`, runs: true, stays: true, lists: 1,
		},
		"runs on another device": {pool: iscsiPool, disk: `file="/dev/disk/by-path/other"`, runs: true, lists: 1},
		"off":                    {pool: netfsPool, disk: `file="/p/disk"`},
		"runs in a directory":    {pool: dirPool, disk: `file="/p/disk"`, runs: true},
		"with data":              {pool: logicalPool, disk: `file="/dev/p/disk"`, withData: true, stays: true},
		"with data, elsewhere":   {pool: logicalPool, disk: `file="/dev/other/disk"`, withData: true, lists: 2},
		"with data, link": {
			pool: logicalPool, disk: `file="/dev/mapper/p-lun"`, withData: true, stays: true, lists: 2,
		},
		"with data, stopped, link": {
			pool: logicalPool, disk: `file="/dev/mapper/p-lun"`, stopped: true, withData: true, stays: true, lists: 2,
		},
		"with data, apostrophe": {
			pool: strings.ReplaceAll(logicalPool, "NAME", "it's"), name: "it's", disk: `pool="it's" volume="lun"`,
			withData: true, stays: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, "one")
			s := storageOf(h)
			name, kind := cmp.Or(c.name, "p"), "file"
			if c.name != "" {
				kind = "volume"
			}
			s.Hosts[0].SameFile = func(_ context.Context, path string, paths ...string) (same []string, err error) {
				if link := "/dev/mapper/p-lun"; path == "/dev/p/lun" && slices.Contains(paths, link) {
					same = append(same, link)
				}
				return same, nil
			}
			startPool(t, h, name, c.pool)
			createVolume(t, h, name, "lun", "")
			is, err := h.StoragePool(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			var origin *storage.PoolOrigin
			if c.withData {
				origin = originOf(t, is)
			}
			uuid := defineVM(t, h, "web", kind, c.disk)
			if c.runs {
				if err := h.StartDomain(t.Context(), uuid); err != nil {
					t.Fatal(err)
				}
			}
			if c.stopped {
				if err := h.StopStoragePool(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			before := h.Calls()["virStoragePoolRefresh"]
			failed := s.RemovePool(t.Context(), s.Hosts, name, origin)
			_, err = h.StoragePool(t.Context(), name)
			if stays := err == nil; stays != c.stays || c.stays == (failed["one"] == nil) {
				t.Fatalf("it stays: %t, %v", stays, failed)
			}
			if c.stays && !strings.Contains(failed["one"].Error(), "virtual machine web") {
				t.Error(failed)
			}
			if n := h.Calls()["virStoragePoolListAllVolumes"]; n != c.lists {
				t.Errorf("its volumes were listed %d times, want %d", n, c.lists)
			}
			// libvirt doesn't know a volume that was made without it.
			if n := h.Calls()["virStoragePoolRefresh"] - before; (n > 0) != (c.withData && c.lists > 0 && !c.stopped) {
				t.Errorf("it was read again %d times", n)
			}
			if c.stays && s.CheckRemovePool(t.Context(), s.Hosts, name, origin)["one"] == nil {
				t.Error("that it stays isn't known before")
			}
		})
	}
}

// TestRelease_unknownUsers: a VM's volume stays while a disk in an inactive pool may be based on it, although the VM's
// own definition names it. It is known before the VM is shut down. Nothing is based on a first-boot medium.
func TestRelease_unknownUsers(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	for _, pool := range []string{"images", "vms"} {
		startPool(t, h, pool, dirPool)
	}
	createVolume(t, h, "images", "data", "")
	own := defineVM(t, h, "own", "file", `file="/images/data"`)
	s := storageOf(h)
	release := storage.Release{
		Host: "one", Ref: storage.Ref{Pool: "images", Name: "data"}, Path: "/images/data", VM: own, Hosts: s.Hosts,
	}
	if err := s.CheckRelease(t.Context(), release); err != nil {
		t.Errorf("without another VM: %v", err)
	}
	defineVM(t, h, "by-hand", "volume", `pool="vms" volume="disk"`)
	if err := h.StopStoragePool(t.Context(), "vms"); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(context.Context, storage.Release) error{
		"the check":   func(ctx context.Context, r storage.Release) error { return s.CheckRelease(ctx, r) },
		"the removal": s.Release,
	} {
		if err := do(t.Context(), release); !errors.Is(err, storage.ErrUsersUnknown) ||
			!strings.Contains(err.Error(), "virsh pool-start vms") {
			t.Errorf("%s says %v", what, err)
		}
	}
	if _, err := h.PoolVolume(t.Context(), "images", "data"); err != nil {
		t.Fatalf("the volume: %v", err)
	}
	release.Unbased = true
	if err := s.CheckRelease(t.Context(), release); err != nil {
		t.Errorf("of a first-boot medium: %v", err)
	}
	if err := s.Release(t.Context(), release); err != nil {
		t.Errorf("a first-boot medium: %v", err)
	}
}

// TestDeleteUnused_settled: before a volume is removed, each running VM with a removable drive is read while libvirt
// changes nothing of it. See TestDevices_mediumOfALockedDrive for what libvirt shows otherwise.
func TestDeleteUnused_settled(t *testing.T) {
	t.Parallel()
	h := openHost(t, "one")
	startPool(t, h, "vms", dirPool)
	s := storageOf(h)
	var uuid string
	for name, device := range map[string]string{"drive": "cdrom", "disk": "disk"} {
		var err error
		uuid, err = h.DefineDomain(t.Context(), `<domain type="test"><name>`+name+`</name><memory>1024</memory>`+
			`<os><type>hvm</type></os><devices><disk type="file" device="`+device+`"><source file="/`+name+`"/>`+
			`<target dev="vdb"/></disk></devices></domain>`)
		if err := errors.Join(err, h.StartDomain(t.Context(), uuid)); err != nil {
			t.Fatal(err)
		}
	}
	createVolume(t, h, "vms", "gone", "")
	if err := s.DeleteUnused(t.Context(), s.Hosts, "one", storage.Ref{Pool: "vms", Name: "gone"}, ""); err != nil {
		t.Error(err)
	}
	if n := h.Calls()["virDomainGetControlInfo"]; n != 2 {
		t.Errorf("libvirt was asked %d times; want before and after the reading of one VM", n)
	}
	createVolume(t, h, "vms", "own", "")
	if err := s.Release(t.Context(), storage.Release{
		Host: "one", Ref: storage.Ref{Pool: "vms", Name: "own"}, Path: "/vms/own", Hosts: s.Hosts, VM: uuid,
	}); err != nil {
		t.Error(err)
	}
	if n := h.Calls()["virDomainGetControlInfo"]; n < 4 {
		t.Errorf("libvirt was asked %d times, also before an own disk was removed", n)
	}
}
