package placement

import (
	"log/slog"
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
		"me":     begun("me", domain.OwnDisk{Pool: pool, Bytes: 1, Making: true}),
		"begun":  begun("begun", domain.OwnDisk{Pool: pool, Bytes: 2, Making: true, Preallocation: "full"}),
		"exists": begun("exists", domain.OwnDisk{Pool: pool, Bytes: 4}),
		"other":  begun("other", domain.OwnDisk{Pool: "other", Bytes: 8, Making: true}),
		"both":   begun("both", domain.OwnDisk{Pool: pool, Bytes: 16, Making: true}),
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
