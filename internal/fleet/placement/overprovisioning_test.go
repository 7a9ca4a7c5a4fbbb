package placement

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A thick disk counts its full size at once, a copy what the image has, an overlay and an empty disk nothing yet.
func TestDemandOf(t *testing.T) {
	t.Parallel()

	image := &libvirt.Volume{CapacityBytes: 20, AllocationBytes: 5}

	for name, test := range map[string]struct {
		disk  domain.OwnDisk
		image *libvirt.Volume
		want  storage.Demand
	}{
		"empty":       {domain.OwnDisk{Bytes: 50}, nil, storage.Demand{Growth: 50}},
		"tables only": {domain.OwnDisk{Bytes: 50, Preallocation: "metadata"}, nil, storage.Demand{Growth: 50}},
		"thick":       {domain.OwnDisk{Bytes: 50, Preallocation: "full"}, nil, storage.Demand{Now: 50, Growth: 50}},
		"overlay":     {domain.OwnDisk{Bytes: 50, Image: "a/b"}, image, storage.Demand{Growth: 50}},
		"of its size": {domain.OwnDisk{Image: "a/b"}, image, storage.Demand{Growth: 20}},
		"a copy":      {domain.OwnDisk{Bytes: 50, Image: "a/b", Clone: "full"}, image, storage.Demand{Now: 5, Growth: 50}},
		"a thick copy": {
			domain.OwnDisk{Image: "a/b", Clone: "full", Preallocation: "full"}, image, storage.Demand{Now: 20, Growth: 20},
		},
	} {
		if got := demandOf(test.disk, test.image); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// Disks that don't exist yet count once: those of VMs that this run has placed on the host, and those of VMs whose
// creation has only begun. The VM's own, those of other pools, and those that exist don't.
func TestPendingDemand(t *testing.T) {
	t.Parallel()

	inv, err := inventory.New(map[string]inventory.HostConfig{"h": {URI: "test:///default"}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
	})

	const pool = "default-pool"

	begun := func(name string, o domain.OwnDisk) *inventory.Entry {
		o.Volume = name
		xml := definitionWith(t, name, domain.Metadata{OwnDisks: map[string]domain.OwnDisk{"root": o}})

		return inventory.NewEntry(libvirt.Domain{Name: name, UUID: name, State: libvirt.Shutoff, PersistentXML: xml})
	}
	a := inventory.Reply{Host: inv.Host("h"), View: &inventory.View{Domains: map[string]*inventory.Entry{
		"me":     begun("me", domain.OwnDisk{Pool: pool, Bytes: 1, Creating: true}),
		"begun":  begun("begun", domain.OwnDisk{Pool: pool, Bytes: 2, Creating: true, Preallocation: "full"}),
		"exists": begun("exists", domain.OwnDisk{Pool: pool, Bytes: 4}),
		"other":  begun("other", domain.OwnDisk{Pool: "other", Bytes: 8, Creating: true}),
		"both":   begun("both", domain.OwnDisk{Pool: pool, Bytes: 16, Creating: true}),
	}}}
	capacity := &Capacity{hosts: inv}
	reserved := func(bytes uint64) reservation {
		return reservation{pools: map[string]storage.Demand{pool: {Growth: bytes}}}
	}
	capacity.reservations.byHost = map[string]map[string]reservation{"h": {
		"me": reserved(1), "both": reserved(16), "placed": reserved(32), "moving": {},
	}}

	want := storage.Demand{Now: 2, Growth: 2 + 16 + 32}
	if got := capacity.pendingDemand(t.Context(), a, "me", pool); got != want {
		t.Errorf("%+v are to come; want %+v", got, want)
	}
}

// testNode returns the file of a host of libvirt's test driver with a storage pool. All of the process share
// test:///default.
func testNode(t *testing.T) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "node.xml")
	node := "<node><pool type='dir'><name>default-pool</name><target><path>/default-pool</path></target></pool></node>"

	if err := os.WriteFile(file, []byte(node), 0o600); err != nil {
		t.Fatal(err)
	}

	return file
}

// testScheduler is a scheduler of one host, of libvirt's test driver, whose pools may grow to twice their size.
func testScheduler(t *testing.T) (*Scheduler, *inventory.Host) {
	t.Helper()

	p, inv := testSchedulerOf(t, map[string]inventory.HostConfig{
		"h": {URI: "test://" + testNode(t), StorageOverprovisioningFactor: 2},
	})

	return p, inv.Host("h")
}

// testSchedulerOf is a scheduler of hosts of libvirt's test driver.
func testSchedulerOf(t *testing.T, hosts map[string]inventory.HostConfig) (*Scheduler, *inventory.Inventory) {
	t.Helper()

	inv, err := inventory.New(hosts, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
	})

	return NewScheduler(inv, nil, Config{Log: slog.New(slog.DiscardHandler)}), inv
}

// testVolume creates a thin volume in the pool of libvirt's test driver and returns its path.
func testVolume(t *testing.T, h *inventory.Host, name string, gib int) string {
	t.Helper()

	const pool = "default-pool"

	document := fmt.Sprintf(
		`<volume><name>%s</name><capacity unit="G">%d</capacity><allocation>0</allocation></volume>`, name, gib)
	if err := h.Conn.CreateVolume(t.Context(), libvirt.NewVolume{Pool: pool, Name: name, Document: document}); err != nil {
		t.Fatal(err)
	}

	v, err := h.Conn.PoolVolume(t.Context(), pool, name)
	if err != nil {
		t.Fatal(err)
	}

	return v.Path
}

// A new VM has the room of the disks that are removed with the VM that it replaces, and a creation that is completed
// that of the disks that it has made. Disks that stay count.
func TestFitsOwnDisks_leaving(t *testing.T) {
	t.Parallel()

	p, h := testScheduler(t)
	own, disks := map[string]domain.OwnDisk{}, ""

	for key, o := range map[string]domain.OwnDisk{
		"root": {}, "kept": {OnDestroy: domain.OnDestroyKeep}, "begun": {OnDestroy: domain.OnDestroyKeep, Creating: true},
	} {
		o.Pool, o.Volume, o.Path = "default-pool", key, testVolume(t, h, key, 60)
		own[key] = o
		disks += fmt.Sprintf("<disk type='file'><source file='%s'/><target dev='vd%c'/></disk>", o.Path, 'a'+len(own))
	}

	definition, err := domain.Parse("<domain type='test'><name>old</name>" +
		"<uuid>6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b</uuid><memory>1024</memory><os><type>hvm</type></os>" +
		"<devices>" + disks + "</devices></domain>")
	if err != nil {
		t.Fatal(err)
	}

	if err := definition.SetMetadata(domain.Metadata{OwnDisks: own}); err != nil {
		t.Fatal(err)
	}

	xml, err := definition.XML()
	if err != nil {
		t.Fatal(err)
	}

	uuid, err := h.Conn.DefineDomain(t.Context(), xml)
	if err != nil {
		t.Fatal(err)
	}

	a, err := p.hosts.ReplyOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}

	const gib = 1 << 30

	for name, test := range map[string]struct {
		replaces  string
		completes bool
		gib       uint64
		fits      bool
	}{
		"new": {"", false, 21, false}, "new, small": {"", false, 20, true},
		"replaces it": {uuid, false, 140, true}, "but not what is kept": {uuid, false, 141, false},
		"completes it": {uuid, true, 200, true}, "and is larger": {uuid, true, 201, false},
	} {
		d := Desired{
			Replaces: test.replaces, Completes: test.completes,
			OwnDisks: map[string]domain.OwnDisk{"root": {Pool: "default-pool", Bytes: test.gib * gib}},
		}
		d.Spec.Name = "new"

		if problems := p.fitsOwnDisks(t.Context(), a, d, nil); (len(problems) == 0) != test.fits {
			t.Errorf("%s: %v; want it to fit: %t", name, problems, test.fits)
		}
	}
}

// A plan lists the volumes of a pool once, however many new disks and volumes it checks. What the process itself
// creates is in the next answer, and what is read anew with the host.
func TestRoom_isAskedOnce(t *testing.T) {
	t.Parallel()

	p, h := testScheduler(t)
	testVolume(t, h, "first", 150)

	fits := func(gib uint64) bool {
		t.Helper()

		a, err := p.hosts.ReplyOf(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}

		d := Desired{OwnDisks: map[string]domain.OwnDisk{"root": {Pool: "default-pool", Bytes: gib << 30}}}
		s := storage.Storage{Hosts: p.hosts.Connections()}
		disk := len(p.fitsOwnDisks(t.Context(), a, d, nil)) == 0
		volume := s.CheckRoom(t.Context(), "h", "default-pool", storage.Demand{Growth: gib << 30}) == nil

		if disk != volume {
			t.Errorf("%d GiB fit as a disk: %t, as a volume: %t", gib, disk, volume)
		}

		return disk
	}
	lists := func(want int) {
		t.Helper()

		if got := p.hosts.Calls()["h"]["virStoragePoolListAllVolumes"]; got != want {
			t.Errorf("the pool was listed %d times; want %d", got, want)
		}
	}

	for range 5 {
		if !fits(50) || fits(51) {
			t.Error("the room isn't what the volume leaves")
		}
	}

	lists(1)
	testVolume(t, h, "second", 10)

	if !fits(40) || fits(41) {
		t.Error("the room isn't what both volumes leave")
	}

	lists(2)
	p.hosts.ForgetAll()
	fits(40)
	lists(3)
}
