package storage_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// originOf returns the origin of a host's pool that a resource has just created.
func originOf(t *testing.T, is *libvirt.StoragePool) *storage.PoolOrigin {
	t.Helper()
	p, err := storage.ReadPool(is.XML)
	if err != nil {
		t.Fatal(err)
	}
	return &storage.PoolOrigin{UUIDs: []string{is.UUID}, Pool: *p}
}

// TestRemovePool_anotherPool: the data of a pool is deleted only if the pool is the one that the resource created: it
// has its UUID, and is based on the same storage. Otherwise the pool isn't even stopped. Without its data, it can be
// removed.
func TestRemovePool_anotherPool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pool   string
		change func(*storage.PoolOrigin)
		want   string
	}{
		"same": {pool: logicalPool, change: func(*storage.PoolOrigin) {}},
		"imported from several hosts": {pool: logicalPool, change: func(o *storage.PoolOrigin) {
			o.UUIDs = append([]string{"11111111-2222-4333-8444-555555555555"}, o.UUIDs...)
		}},
		"source by default": {pool: logicalPool, change: func(o *storage.PoolOrigin) {
			*o = storage.PoolOrigin{UUIDs: o.UUIDs}.Applied(storage.Pool{Name: "p", Type: "logical"})
		}},
		"imported from hosts where it differs": {pool: dirPool, change: func(o *storage.PoolOrigin) {
			o.Imported = map[string]storage.Pool{"one": o.Pool, "two": {Name: "p", Type: "dir", Path: text("/before")}}
			o.Pool = o.Imported["two"]
		}},
		"changed since the import": {
			pool: dirPool, want: `target.path = "/p" instead of "/before"`,
			change: func(o *storage.PoolOrigin) {
				o.Imported = map[string]storage.Pool{"one": {Name: "p", Type: "dir", Path: text("/before")}, "two": o.Pool}
			},
		},
		"another UUID": {pool: logicalPool, want: "has another UUID", change: func(o *storage.PoolOrigin) {
			o.UUIDs = []string{"11111111-2222-4333-8444-555555555555"}
		}},
		"nothing is known": {pool: logicalPool, want: "may be another one", change: func(o *storage.PoolOrigin) {
			*o = storage.PoolOrigin{}
		}},
		"another volume group": {
			pool: logicalPool, want: `source.name = "p" instead of "before"`,
			change: func(o *storage.PoolOrigin) { o.Pool.SourceName = text("before") },
		},
		"another type": {
			pool: logicalPool, want: `type = "logical" instead of "zfs"`,
			change: func(o *storage.PoolOrigin) { o.Pool.Type = "zfs" },
		},
		"another directory": {
			pool: dirPool, want: `target.path = "/p" instead of "/before"`,
			change: func(o *storage.PoolOrigin) { o.Pool.Path = text("/before") },
		},
		"the same directory": {pool: dirPool, change: func(o *storage.PoolOrigin) { o.Pool.Path = text("/p/") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, "one")
			s := storageOf(h)
			startPool(t, h, "p", c.pool)
			is, err := h.StoragePool(t.Context(), "p")
			if err != nil {
				t.Fatal(err)
			}
			origin := originOf(t, is)
			c.change(origin)
			failed := s.RemovePool(t.Context(), s.Hosts, "p", origin)
			if c.want == "" {
				if len(failed) > 0 || h.Calls()["virStoragePoolDelete"] != 1 {
					t.Errorf("%v, and its data was deleted %d times", failed, h.Calls()["virStoragePoolDelete"])
				}
				return
			}
			if err := failed["one"]; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if is, err := h.StoragePool(t.Context(), "p"); err != nil || !is.Active || h.Calls()["virStoragePoolDelete"] != 0 {
				t.Errorf("after that: %+v, %v", is, err)
			}
			for _, err := range s.RemovePool(t.Context(), s.Hosts, "p", nil) {
				t.Error(err)
			}
		})
	}
}

// TestImportedPools: a pool that is imported from hosts where it is on different storage is the resource's on each of
// them, also after an apply that doesn't declare the storage.
func TestImportedPools(t *testing.T) {
	t.Parallel()
	one, two := openHost(t, "one"), openHost(t, "two")
	s := storageOf(one, two)
	startPool(t, one, "p", logicalPool)
	startPool(t, two, "p", strings.Replace(logicalPool, "<source><name>NAME", "<source><name>other", 1))
	origin := storage.ImportedPools(hostset.Found(storage.PoolOn(t.Context(), s.Hosts, "p")))
	origin = origin.Applied(storage.Pool{Name: "p", Type: "logical"})
	for host, err := range s.RemovePool(t.Context(), s.Hosts, "p", &origin) {
		t.Errorf("on host %s: %v", host, err)
	}
}

// TestPoolOrigin_applied: what a change doesn't declare stays as it was before the change, on each host.
func TestPoolOrigin_applied(t *testing.T) {
	t.Parallel()
	before := storage.PoolOrigin{UUIDs: []string{"a"}, Pool: storage.Pool{
		Name: "p", Type: "logical", SourceName: text("vg"), Devices: []string{"/dev/sdb"},
	}, Imported: map[string]storage.Pool{"two": {Name: "p", Type: "logical", SourceName: text("other")}}}
	after := before.Applied(storage.Pool{Name: "p", Type: "logical", Path: text("/dev/vg")})
	if *after.Pool.SourceName != "vg" || *after.Pool.Path != "/dev/vg" || after.Pool.Devices[0] != "/dev/sdb" ||
		after.UUIDs[0] != "a" || *after.Imported["two"].SourceName != "other" || *after.Imported["two"].Path != "/dev/vg" ||
		before.Pool.Path != nil || before.Imported["two"].Path != nil {
		t.Errorf("got %+v from %+v", after, before)
	}
}
