package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// definitionWith is the XML of a VM with that metadata.
func definitionWith(t *testing.T, name string, m domain.Metadata) string {
	t.Helper()

	definition, err := domain.Parse(`<domain type='qemu'><name>` + name + `</name><memory unit='GiB'>1</memory>` +
		`<os><type>hvm</type></os></domain>`)
	if err != nil {
		t.Fatal(err)
	}

	if err := definition.SetMetadata(m); err != nil {
		t.Fatal(err)
	}

	xml, err := definition.XML()
	if err != nil {
		t.Fatal(err)
	}

	return xml
}

// A stale definition is no neighbour: a VM that left the host keeps no other one off it. One that is off is.
func TestConflict_ignoresStaleDefinitions(t *testing.T) {
	t.Parallel()

	web := map[string]string{"app": "web"}

	for reason, want := range map[string]string{libvirt.ReasonMigrated: "", "Shutdown": "web1"} {
		xml := definitionWith(t, "web1", domain.Metadata{Labels: web})

		p, all, _ := spread()
		all[0].View.Domains["web1"] = inventory.NewEntry(libvirt.Domain{
			Name: "web1", UUID: "web1", State: libvirt.Shutoff, Reason: reason, PersistentXML: xml,
		})

		if got := p.conflict(all[0], evacuation.Neighbour{Name: "web2", Avoids: web}, ""); got != want {
			t.Errorf("off by %q: web2 must not share the host with %q, want %q", reason, got, want)
		}
	}
}

// A host whose labels aren't those that the VM asks for is refused, and called so: it isn't one that doesn't answer.
func TestLabelBlocker(t *testing.T) {
	t.Parallel()

	vm := &inventory.VM{Metadata: domain.Metadata{HostLabels: map[string]string{"zone": "a"}}}

	for zone, want := range map[string]int{"a": 0, "b": 1, "": 1} {
		h := &inventory.Host{Name: "kvm1", Config: inventory.HostConfig{Labels: map[string]string{"zone": zone}}}

		blockers := LabelBlocker(vm, h, status.False)
		if len(blockers) != want || want == 1 && blockers[0].Reason != "HostLabelsMismatch" {
			t.Errorf("zone %q: %+v", zone, blockers)
		}
	}
}

// A running VM that is turned off to be moved needs what its definition says, not what it has while it runs: an address
// that libvirt chose for it, and memory that was plugged in, don't come along.
func TestCapacityBlockers_turnedOffFirst(t *testing.T) {
	t.Parallel()

	guest := func(name, cid string, mebibytes int) string {
		return fmt.Sprintf(`<domain type='qemu' id='1'><name>%s</name><memory unit='MiB'>%d</memory><os><type>hvm</type></os>
			<devices><vsock model='virtio'><cid %s/></vsock></devices></domain>`, name, mebibytes, cid)
	}

	for name, tt := range map[string]struct {
		runs, defined string
		starts        bool
		want          []string
	}{
		"moved as it runs": {
			guest("vm", "auto='yes' address='3'", 900), guest("vm", "auto='yes'", 100), false,
			[]string{migration.InsufficientMemory, migration.VsockCIDTaken},
		},
		"turned off first": {
			guest("vm", "auto='yes' address='3'", 900), guest("vm", "auto='yes'", 100), true, nil,
		},
		"moved, and defined with more": {
			guest("vm", "auto='yes' address='4'", 100), guest("vm", "auto='no' address='3'", 900), false, nil,
		},
		"turned off first, and defined with more": {
			guest("vm", "auto='yes' address='4'", 100), guest("vm", "auto='no' address='3'", 900), true,
			[]string{migration.InsufficientMemory, migration.VsockCIDTaken},
		},
	} {
		p, all, _ := spread()
		to := all[0]
		to.Host.Config.MemoryLimit = 900 << 20
		to.View.Domains["neighbour"] = inventory.NewEntry(libvirt.Domain{
			Name: "neighbour", UUID: "neighbour", State: libvirt.Running, LiveXML: guest("neighbour", "address='3'", 1),
		})

		vm, err := inventory.NewVM(inventory.Reply{Host: all[1].Host, Info: &libvirt.HostInfo{}, Domain: inventory.NewEntry(
			libvirt.Domain{
				Name: "vm", UUID: "vm", State: libvirt.Running, Persistent: true, LiveXML: tt.runs, PersistentXML: tt.defined,
			},
		)})
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, b := range p.CapacityBlockers(t.Context(), to, vm, tt.starts) {
			got = append(got, b.Reason)
		}

		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
