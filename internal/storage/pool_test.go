package storage_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

func text(s string) *string { return &s }

// samples are pools of every type, with what each can't be without.
func samples() map[string]storage.Pool {
	port := int64(6789)
	hosts := []storage.SourceHost{{Name: "server.example.net"}}
	return map[string]storage.Pool{
		"dir":     {Path: text("/srv/vms"), Mode: text("0711"), Owner: text("0"), Group: text("0")},
		"fs":      {Path: text("/srv/vms"), Devices: []string{"/dev/sdb1"}, SourceFormat: text("ext4")},
		"netfs":   {Path: text("/srv/vms"), SourceHosts: hosts, SourceDir: text("/export"), SourceFormat: text("nfs")},
		"logical": {Path: text("/dev/vg"), SourceName: text("vg"), SourceFormat: text("lvm2"), Devices: []string{"/dev/sdc"}},
		"disk":    {Path: text("/dev"), Devices: []string{"/dev/sdd"}, SourceFormat: text("gpt")},
		"iscsi": {
			Path: text("/dev/disk/by-path"), SourceHosts: hosts, Devices: []string{"iqn.2026-01.net.example:vms"},
			Auth: &storage.Auth{Type: "chap", Username: "me", Secret: "6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10"},
		},
		"iscsi-direct": {
			SourceHosts: hosts, Devices: []string{"iqn.2026-01.net.example:vms"}, Initiator: text("iqn.2026-01.net.example:me"),
		},
		"rbd": {
			SourceName: text("vms"), SourceHosts: []storage.SourceHost{{Name: "a"}, {Name: "b", Port: &port}},
			Auth: &storage.Auth{Type: "ceph", Username: "libvirt", Secret: "6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10"},
		},
		"gluster": {SourceName: text("vms"), SourceHosts: hosts, SourceDir: text("/")},
		"zfs":     {SourceName: text("tank")},
		"scsi": {
			Path:    text("/dev/disk/by-path"),
			Adapter: &storage.Adapter{Type: text("scsi_host"), Name: text("scsi_host0")},
		},
		"mpath": {Path: text("/dev/mapper")},
	}
}

// TestPool_everyType: what is declared is in libvirt's XML and is read back from it, for each type.
func TestPool_everyType(t *testing.T) {
	t.Parallel()
	all := samples()
	for _, kind := range storage.PoolTypes() {
		p, ok := all[kind]
		if !ok {
			t.Errorf("no sample of type %s", kind)
			continue
		}
		p.Name, p.Type = "vms", kind
		document, err := p.Document("")
		if err != nil {
			t.Fatal(err)
		}
		is, err := storage.ReadPool(document)
		if err != nil {
			t.Fatal(err)
		}
		if !p.IsIn(*is) {
			t.Errorf("%s: %s is read as %+v", kind, document, is)
		}
	}
}

// TestPool_patch: what isn't declared stays as it is, what is declared otherwise is seen and set.
func TestPool_patch(t *testing.T) {
	t.Parallel()
	const document = `<pool type='dir'><name>vms</name><uuid>6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10</uuid>` +
		`<unknown/><source/><target><path>/old</path><permissions><mode>0755</mode><owner>7</owner></permissions>` +
		`</target></pool>`
	is, err := storage.ReadPool(document)
	if err != nil {
		t.Fatal(err)
	}
	same := storage.Pool{Name: "vms", Type: "dir", Path: text("/old/"), Mode: text("755")}
	if !same.IsIn(*is) {
		t.Error("what means the same is taken for other")
	}
	other := storage.Pool{Name: "vms", Type: "dir", Path: text("/new"), Mode: text("0755")}
	if other.IsIn(*is) {
		t.Error("another path isn't seen")
	}
	if merged := other.Merge(*is); *merged.Path != "/old" || *merged.Mode != "0755" || merged.Owner != nil {
		t.Errorf("merged: %+v", merged)
	}
	patched, err := other.Patch(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<path>/new</path>", "<unknown/>", "<owner>7</owner>", "<uuid>6f1f3a5e"} {
		if !strings.Contains(patched, want) {
			t.Errorf("%s lacks %s", patched, want)
		}
	}
}

// TestPool_libvirtTakesIt: libvirt's own driver defines what is declared, and gives it back.
func TestPool_libvirtTakesIt(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	for kind, p := range samples() {
		p.Name, p.Type = "of-"+kind, kind
		document, err := p.Document("")
		if err != nil {
			t.Fatal(err)
		}
		if err := h.DefineStoragePool(t.Context(), p.Name, document); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		found, err := h.StoragePool(t.Context(), p.Name)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if is, err := storage.ReadPool(found.XML); err != nil || !p.IsIn(*is) {
			t.Errorf("%s: %s (%v)", kind, found.XML, err)
		}
	}
}

// TestApplyPool_build: a pool that is changed gets the directory that it is changed to, unless build is off.
func TestApplyPool_build(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := storage.Storage{Hosts: hostset.NewSet(hostset.Host{Name: "test", Conn: h})}
	for _, step := range []struct {
		path  string
		build bool
		built int
	}{{"/srv/built", true, 1}, {"/srv/elsewhere", true, 2}, {"/srv/unbuilt", false, 2}} {
		p := storage.Pool{Name: "to-build", Type: "dir", Path: &step.path}
		for _, err := range s.ApplyPool(t.Context(), s.Hosts, p, storage.PoolSettings{Build: step.build}) {
			t.Fatalf("%s: %v", step.path, err)
		}
		if calls := h.Calls()["virStoragePoolBuild"]; calls != step.built {
			t.Errorf("%s: built %d times, want %d", step.path, calls, step.built)
		}
	}
}

// TestRemovePool_disk: libvirt would remove the partition table of a disk together with its pool, also while VMs use
// its partitions. So the pool isn't even stopped, and can be removed without its data.
func TestRemovePool_disk(t *testing.T) {
	t.Parallel()
	h, err := libvirt.Open(libvirt.Config{Name: "test", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	s := storage.Storage{Hosts: hostset.NewSet(hostset.Host{Name: "test", Conn: h})}
	p := samples()["disk"]
	// The test driver is shared. It refuses a device of which TestPool_libvirtTakesIt has a pool.
	p.Name, p.Type, p.Devices = "partitions", "disk", []string{"/dev/sde"}
	for _, err := range s.ApplyPool(t.Context(), s.Hosts, p, storage.PoolSettings{}) {
		t.Fatal(err)
	}
	err = s.RemovePool(t.Context(), s.Hosts, p.Name, &storage.PoolOrigin{})["test"]
	if !errors.Is(err, libvirt.ErrInvalid) {
		t.Errorf("the removal with its data: %v", err)
	}
	if is, err := h.StoragePool(t.Context(), p.Name); err != nil || !is.Active {
		t.Errorf("the pool after that: %+v, %v", is, err)
	}
	if calls := h.Calls()["virStoragePoolDelete"]; calls > 0 {
		t.Errorf("libvirt was asked %d times to remove it", calls)
	}
	for _, err := range s.RemovePool(t.Context(), s.Hosts, p.Name, nil) {
		t.Error(err)
	}
}
