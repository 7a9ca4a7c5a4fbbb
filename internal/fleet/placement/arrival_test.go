package placement_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// VMs that are off and come to a host at the same time get devices of their own there, as long as there are some.
func TestReserveArrival_givesEachItsOwnDevice(t *testing.T) {
	t.Parallel()

	log := slog.New(slog.DiscardHandler)
	gpus := []domain.HostPart{{Kind: domain.MdevDevice, ID: "a"}, {Kind: domain.MdevDevice, ID: "b"}}

	hosts, err := inventory.New(map[string]inventory.HostConfig{
		"local": {URI: "test:///default", Devices: map[string][]domain.HostPart{"gpu": gpus}},
	}, log)
	if err != nil {
		t.Fatal(err)
	}

	store := records.NewStore(hosts, records.Config{Owner: "alice", Log: log})

	t.Cleanup(func() {
		store.EndRenewals()
		store.AwaitRenewals()

		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})

	p := placement.NewScheduler(hosts, store, placement.Config{Owner: "alice", Log: slog.New(slog.DiscardHandler)})
	to := hosts.Host("local")
	given := map[domain.HostPart]int{}

	for _, name := range []string{"a", "b", "c"} {
		arrival, err := p.ReserveArrival(t.Context(), withGPU(t, to, name), to, false)
		if err != nil {
			t.Fatal(err)
		}
		defer arrival.Release()

		given[arrival.Devices["gpu"].HostDevice()]++
	}

	if given[gpus[0]] == 0 || given[gpus[1]] == 0 {
		t.Errorf("given were %v, want both devices before one for the second time", given)
	}
}

// withGPU is a VM that is off and asks for a device of the class gpu.
func withGPU(t *testing.T, on *inventory.Host, name string) *inventory.VM {
	t.Helper()

	elsewhere := domain.HostPart{Kind: domain.MdevDevice, ID: uuid.NewString()}
	memory := uint64(32 << 20)
	id := uuid.NewString()

	definition, err := domain.New(domain.Spec{
		Name: name, Type: "test", Memory: domain.Memory{Size: &memory},
		HostDevices: map[string]domain.Row{"gpu": elsewhere.Assign(domain.Row{"class": "gpu"})},
	}, id)
	if err != nil {
		t.Fatal(err)
	}

	metadata := definition.Metadata()
	metadata.DeviceClasses = map[string]string{"gpu": "gpu"}

	if err := definition.SetMetadata(metadata); err != nil {
		t.Fatal(err)
	}

	xml, err := definition.XML()
	if err != nil {
		t.Fatal(err)
	}

	vm, err := inventory.NewVM(inventory.Reply{Host: on, Info: &libvirt.HostInfo{}, Domain: inventory.NewEntry(
		libvirt.Domain{UUID: id, Name: name, State: libvirt.Shutoff, Persistent: true, PersistentXML: xml},
	)})
	if err != nil {
		t.Fatal(err)
	}

	return vm
}
