package placement

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
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
