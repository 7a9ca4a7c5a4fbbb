package fleet

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// A host keeps something for itself, and what QEMU needs for a guest counts as the guest does, unless its
// configuration says otherwise.
func TestMemory_hostAndQEMUCount(t *testing.T) {
	t.Parallel()

	const total, guest = 3 << 30, 8 << 30 // What libvirt's test driver has, and its one VM.

	overhead := func(memory uint64, vcpus int) uint64 {
		return domain.NewOverhead(domain.Spec{Memory: domain.Memory{Size: &memory}, CPU: domain.CPU{VCPUs: &vcpus}}) -
			(32 << 20) // It has no screen.
	}

	for name, tt := range map[string]struct {
		cfg              inventory.HostConfig
		limit, committed uint64
	}{
		"by default":  {inventory.HostConfig{}, total - 512<<20, guest + overhead(guest, 2)},
		"reserve":     {inventory.HostConfig{MemoryReserve: new(uint64(1 << 30))}, total - 1<<30, guest + overhead(guest, 2)},
		"no reserve":  {inventory.HostConfig{MemoryReserve: new(uint64(0))}, total, guest + overhead(guest, 2)},
		"all of it":   {inventory.HostConfig{MemoryReserve: new(uint64(total + 1))}, 0, guest + overhead(guest, 2)},
		"limit":       {inventory.HostConfig{MemoryLimit: 64 << 30}, 64 << 30, guest + overhead(guest, 2)},
		"guests only": {inventory.HostConfig{MemoryLimit: 64 << 30, OvercommitGuestOverhead: true}, 64 << 30, guest},
	} {
		tt.cfg.URI = "test:///default"

		f, err := New(Config{Hosts: map[string]inventory.HostConfig{"local": tt.cfg}})
		if err != nil {
			t.Fatal(err)
		}

		hosts, err := f.Hosts(t.Context(), observe.HostQuestion{})
		if err != nil {
			t.Fatal(err)
		}

		if h := hosts[0]; h.MemoryLimit != tt.limit || h.CommittedMemory != tt.committed {
			t.Errorf("%s: %d of %d are committed, want %d of %d", name, h.CommittedMemory, h.MemoryLimit, tt.committed,
				tt.limit)
		}

		// One that would fit without what QEMU needs.
		size := tt.limit - min(tt.limit, tt.committed)
		d := placement.Desired{Spec: domain.Spec{
			Name: "tight", Type: "test", Memory: domain.Memory{Size: &size},
		}}

		problems, err := f.CheckCreate(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}

		full := false
		for _, p := range problems {
			full = full || strings.Contains(p.Detail, "including QEMU's own")
		}

		if size > 0 && full == tt.cfg.OvercommitGuestOverhead {
			t.Errorf("%s: %+v", name, problems)
		}

		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
