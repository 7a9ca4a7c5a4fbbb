package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func gib(n uint64) string { return fmt.Sprintf("%dG", n) }

// A thin volume counts with what it may grow to, a thick one with the same, which it has already. What is never written
// to counts with its file.
func TestGrowthOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		volumes []libvirt.Volume
		want    uint64
	}{
		"nothing": {nil, 0},
		"thin":    {[]libvirt.Volume{{Name: "a", CapacityBytes: 100, AllocationBytes: 3, PhysicalBytes: 4}}, 100},
		"thick":   {[]libvirt.Volume{{Name: "a", CapacityBytes: 100, AllocationBytes: 104, PhysicalBytes: 104}}, 104},
		"a copy of an image": {[]libvirt.Volume{
			{Name: "debian-0123456789ab", Path: "/d", CapacityBytes: 100, AllocationBytes: 6, PhysicalBytes: 7},
		}, 7},
		"an overlay and what it is based on": {[]libvirt.Volume{
			{Name: "base", Path: "/base", CapacityBytes: 100, AllocationBytes: 20, PhysicalBytes: 25},
			{Name: "over", Path: "/over", CapacityBytes: 150, AllocationBytes: 1, PhysicalBytes: 1, Backing: "/base"},
		}, 175},
		"a directory": {[]libvirt.Volume{{Name: "d", Path: "/d", Type: "dir", CapacityBytes: 4096}}, 0},
		"more than fits into a number": {[]libvirt.Volume{
			{Name: "a", Path: "/a", CapacityBytes: math.MaxUint64}, {Name: "b", Path: "/b", CapacityBytes: 1},
		}, math.MaxUint64},
	} {
		if got := growthOf(test.volumes); got != test.want {
			t.Errorf("%s: %d; want %d", name, got, test.want)
		}
	}
}

func TestRoom_Lacks(t *testing.T) {
	t.Parallel()
	limited := Room{Capacity: 100, Available: 40, Growth: 120, Factor: 1.5}
	unlimited := Room{Capacity: 100, Available: 40}
	full := Room{Capacity: 100, Available: 40, Growth: 500, Factor: 1}
	for name, test := range map[string]struct {
		room         Room
		need, others Demand
		want         string // "" if there is room
	}{
		"to the last byte":    {limited, Demand{Growth: 30}, Demand{}, ""},
		"a byte too much":     {limited, Demand{Growth: 31}, Demand{}, "= 1.5 the limit is 150G"},
		"with others":         {limited, Demand{Growth: 20}, Demand{Growth: 11}, "reach 131G, and 20G would be added"},
		"no limit":            {unlimited, Demand{Growth: 1000}, Demand{}, ""},
		"thick fits":          {unlimited, Demand{Now: 40, Growth: 40}, Demand{}, ""},
		"thick does not":      {unlimited, Demand{Now: 41, Growth: 41}, Demand{}, "has 40G left, and 41G"},
		"thick with another":  {unlimited, Demand{Now: 30}, Demand{Now: 11}, "in addition to 11G"},
		"over it before":      {full, Demand{Growth: 1}, Demand{}, "500G"},
		"less than all of it": {Room{Capacity: 100, Available: 90, Factor: 0.8}, Demand{Growth: 81}, Demand{}, "is 80G"},
		"huge": {
			Room{Capacity: math.MaxUint64, Available: 1, Factor: 2}, Demand{Growth: math.MaxUint64}, Demand{}, "",
		},
	} {
		got := test.room.Lacks(test.need, test.others, gib)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

// testHost is a host of libvirt's test driver, with an active pool "vms" of that type and 100 GiB; "" is no pool. Hosts
// of type down don't answer.
func testHost(t *testing.T, name, poolType string) hostset.Host {
	t.Helper()
	node := "<node/>"
	if poolType != "" {
		node = `<node><pool type="` + poolType + `"><name>vms</name><source><host name="nas"/><dir path="/vms"/></source>` +
			`<target><path>/vms</path></target></pool></node>`
	}
	file := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(file, []byte(node), 0o600); err != nil {
		t.Fatal(err)
	}
	if poolType == down {
		file += ".gone"
	}
	conn, err := libvirt.Open(libvirt.Config{Name: name, URI: "test://" + file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return hostset.Host{Name: name, Conn: conn}
}

const down = "down"

// A plan counts a volume that is removed before the new one is created as gone, in what is left of the pool and in what
// its volumes may grow to; the volumes that stay count.
func TestCheckRoom_removed(t *testing.T) {
	t.Parallel()
	h := testHost(t, "h", "dir")
	for name, allocation := range map[string]int{"thick": 60, "thin": 0} {
		if err := h.Conn.CreateVolume(t.Context(), libvirt.NewVolume{Pool: "vms", Name: name, Document: fmt.Sprintf(
			`<volume><name>%s</name><capacity unit="G">60</capacity><allocation unit="G">%d</allocation></volume>`, name,
			allocation)}); err != nil {
			t.Fatal(err)
		}
	}
	const gib = 1 << 30
	for name, test := range map[string]struct {
		factor  float64
		need    Demand
		removed []string
		want    error
	}{
		"thick":                  {0, Demand{Now: 60 * gib, Growth: 60 * gib}, nil, ErrNoSpace},
		"thick for a thick one":  {0, Demand{Now: 60 * gib, Growth: 60 * gib}, []string{"thick"}, nil},
		"thick for a thin one":   {0, Demand{Now: 60 * gib, Growth: 60 * gib}, []string{"thin"}, ErrNoSpace},
		"too large for it":       {0, Demand{Now: 101 * gib, Growth: 101 * gib}, []string{"thick"}, ErrNoSpace},
		"thin":                   {1.5, Demand{Growth: 60 * gib}, nil, ErrOvercommitted},
		"thin for a thin one":    {1.5, Demand{Growth: 60 * gib}, []string{"new", "thin"}, nil},
		"thin for no other one":  {1.5, Demand{Growth: 60 * gib}, []string{"new"}, ErrOvercommitted},
		"larger than the former": {1.5, Demand{Growth: 91 * gib}, []string{"thin"}, ErrOvercommitted},
	} {
		limited := h
		limited.OverprovisioningFactor = test.factor
		s := Storage{Hosts: hostset.NewSet(limited)}
		if err := s.CheckRoom(t.Context(), "h", "vms", test.need, test.removed...); !errors.Is(err, test.want) {
			t.Errorf("%s: %v; want %v", name, err, test.want)
		}
	}
}

// All runs lock a shared pool on the same host, whichever hosts answer: the first by name that shares it and isn't
// fenced. If that host can't be asked, nothing is created.
func TestLockingHost(t *testing.T) {
	t.Parallel()
	fenced := testHost(t, "a", down)
	fenced.Fenced = true
	for name, test := range map[string]struct {
		first hostset.Host
		want  string // "" if there is an error
	}{
		"answers":         {testHost(t, "a", "netfs"), "a"},
		"doesn't answer":  {testHost(t, "a", down), ""},
		"is fenced":       {fenced, "b"},
		"lacks the pool":  {testHost(t, "a", ""), "b"},
		"has another one": {testHost(t, "a", "dir"), "b"},
	} {
		s := Storage{Hosts: hostset.NewSet(
			test.first, testHost(t, "b", "netfs"), testHost(t, "c", "netfs"), testHost(t, "d", down))}
		for _, h := range s.Hosts.Named("b", "c") {
			on, err := s.lockingHost(t.Context(), h, "vms")
			if on != test.want || (err == nil) != (test.want != "") {
				t.Errorf("the first host %s: the lock of host %s is on %q, %v; want %q", name, h.Name, on, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), `host "a"`) {
				t.Errorf("the error doesn't name the host: %v", err)
			}
		}
	}
}

// Who makes or moves volumes into a shared pool has the lock of all hosts that share it, and sees what was made through
// the others.
func TestLockRoom(t *testing.T) {
	t.Parallel()
	var locked []string
	s := Storage{
		Hosts: hostset.NewSet(testHost(t, "a", "netfs"), testHost(t, "b", "netfs")),
		Lock: func(ctx context.Context, host, name, _ string) (context.Context, func(), error) {
			locked = append(locked, host+" "+name)
			return ctx, func() { locked = append(locked, "released") }, nil
		},
	}
	_, release, err := s.LockRoom(t.Context(), "b", "vms", "moving a disk into")
	if err != nil {
		t.Fatal(err)
	}
	release()
	if want := []string{"a storage-pool:vms", "released"}; !slices.Equal(locked, want) {
		t.Errorf("locked %q; want %q", locked, want)
	}
	b, _ := s.Hosts.Host("b")
	if got := b.Conn.Calls()["virStoragePoolRefresh"]; got != 1 {
		t.Errorf("the pool was refreshed %d times; want once", got)
	}
}

// TestRoomOf_unknownSize: a pool whose size libvirt doesn't know isn't taken for a full one.
func TestRoomOf_unknownSize(t *testing.T) {
	t.Parallel()
	r, err := RoomOf(t.Context(), nil, &libvirt.StoragePool{Name: "ceph"}, 1.5)
	if why := r.Lacks(Demand{Now: 1 << 40, Growth: 1 << 40}, Demand{}, gib); err != nil || why != "" {
		t.Errorf("%q, %v", why, err)
	}
}
