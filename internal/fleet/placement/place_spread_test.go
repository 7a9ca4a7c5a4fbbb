package placement

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const spreadHosts, spreadVMs = 30, 600

// spread are hosts that are alike, and a VM that is off.
func spread() (*Scheduler, []inventory.Reply, Desired) {
	hosts := &inventory.Inventory{}
	p := &Scheduler{Capacity: &Capacity{hosts: hosts}, hosts: hosts}
	memory := uint64(4 << 30)
	d := Desired{Spec: domain.Spec{Name: "off", Memory: domain.Memory{Size: &memory}}}
	d.Metadata.RunStrategy = "Halted"

	all := make([]inventory.Reply, spreadHosts)
	for i := range all {
		all[i] = inventory.Reply{
			Host: &inventory.Host{Name: fmt.Sprintf("kvm%02d", i)}, Info: &libvirt.HostInfo{MemoryBytes: 64 << 30},
			View: &inventory.View{Domains: map[string]*inventory.Entry{}},
		}
	}

	return p, all, d
}

func judgedMemory(p *Scheduler, all []inventory.Reply, d Desired) []candidate {
	candidates := make([]candidate, len(all))
	for i, a := range all {
		candidates[i] = candidate{Reply: a}
		candidates[i].judgeMemory(p, d)
	}

	sortCandidates(candidates)

	return candidates
}

// VMs that are off are spread as if they ran, even where not all of them could run at a time.
func TestSortCandidates_spreadsVMsThatAreOff(t *testing.T) {
	t.Parallel()

	p, all, d := spread()

	// All are alike, and are read once.
	off := inventory.NewEntry(libvirt.Domain{
		State: libvirt.Shutoff,
		PersistentXML: `<domain type='qemu'><name>off</name>` +
			`<memory unit='GiB'>4</memory><os><type>hvm</type></os></domain>`,
	})

	for range spreadVMs {
		judgedMemory(p, all, d)[0].View.Domains[uuid.NewString()] = off
	}

	for _, a := range all {
		if n := len(a.View.Domains); n != spreadVMs/spreadHosts {
			t.Errorf("%s has %d VMs, want %d", a.Host.Name, n, spreadVMs/spreadHosts)
		}
	}
}

// VMs whose hosts are chosen at the same time, by what the hosts said before, are spread as well.
func TestPick_countsThoseThatWereToldToCome(t *testing.T) {
	t.Parallel()

	p, all, d := spread()
	candidates := judgedMemory(p, all, d)
	came := map[*inventory.Host]int{}

	for i := range spreadHosts {
		d.Spec.Name = fmt.Sprintf("off-%d", i)
		came[p.pick(candidates, d, nil).Host]++
	}

	if len(came) != spreadHosts {
		t.Errorf("%d VMs were told to come to %d hosts, want one on each: %v", spreadHosts, len(came), came)
	}

	first := all[0].Host
	p.endChoice(first, "off-0")

	d.Spec.Name = "last"
	if h := p.pick(candidates, d, nil).Host; h != first {
		t.Errorf("the last one was told to come to %s, want %s, which none comes to any more", h.Name, first.Name)
	}
}

// A VM that would rather be alone avoids a host to which one was told to come that it avoids.
func TestPick_avoidsThoseThatWereToldToCome(t *testing.T) {
	t.Parallel()

	p, all, d := spread()
	d.Metadata.Labels = map[string]string{"app": "web"}
	d.Placement.AntiAffinity = &AntiAffinity{Labels: d.Metadata.Labels}

	all = all[:2]
	all[1].Info = &libvirt.HostInfo{MemoryBytes: 16 << 30} // The other one has more room even with all of them.
	candidates := judgedMemory(p, all, d)

	for i, want := range []*inventory.Host{all[0].Host, all[1].Host, all[0].Host} {
		d.Spec.Name = fmt.Sprintf("web-%d", i)
		if h := p.pick(candidates, d, nil).Host; h != want {
			t.Errorf("%s was told to come to %s, want %s", d.Spec.Name, h.Name, want.Name)
		}
	}
}
