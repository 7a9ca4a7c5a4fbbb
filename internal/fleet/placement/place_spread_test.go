package placement

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// VMs that are off are spread as if they ran, even where not all of them could run at a time.
func TestSortCandidates_spreadsVMsThatAreOff(t *testing.T) {
	t.Parallel()

	const hosts, vms, size = 30, 600, 4 << 30

	p := &Planner{hosts: &inventory.Inventory{}}
	memory := uint64(size)
	d := Desired{Spec: domain.Spec{Name: "off", Memory: domain.Memory{Size: &memory}}}
	d.Metadata.RunStrategy = "Halted"

	all := make([]inventory.Reply, hosts)
	for i := range all {
		all[i] = inventory.Reply{
			Host: &inventory.Host{Name: fmt.Sprintf("kvm%02d", i)}, Info: &libvirt.HostInfo{MemoryBytes: 64 << 30},
			View: &inventory.View{Domains: map[string]*inventory.Entry{}},
		}
	}

	// All are alike, and are read once.
	off := inventory.NewEntry(libvirt.Domain{
		State: libvirt.Shutoff,
		PersistentXML: `<domain type='qemu'><name>off</name>` +
			`<memory unit='GiB'>4</memory><os><type>hvm</type></os></domain>`,
	})

	for range vms {
		candidates := make([]candidate, hosts)
		for i, a := range all {
			candidates[i] = candidate{Reply: a}
			candidates[i].judgeMemory(p, d)
		}

		sortCandidates(candidates)

		candidates[0].View.Domains[uuid.NewString()] = off
	}

	for _, a := range all {
		if n := len(a.View.Domains); n != vms/hosts {
			t.Errorf("%s has %d VMs, want %d", a.Host.Name, n, vms/hosts)
		}
	}
}
