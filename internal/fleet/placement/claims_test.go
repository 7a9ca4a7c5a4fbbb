package placement

import (
	"errors"
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Two overlays of one image are fine. A VM that writes to the image below another's disk isn't, whichever is asked
// about.
func TestRivals_nobodyWritesToABackingFile(t *testing.T) {
	t.Parallel()

	running := func(uuid, file, backing string) *inventory.Entry {
		if backing != "" {
			backing = fmt.Sprintf(`<backingStore type='file'><format type='raw'/><source file='%s'/><backingStore/>`+
				`</backingStore>`, backing)
		}

		return inventory.NewEntry(libvirt.Domain{UUID: uuid, Name: uuid, State: libvirt.Running, LiveXML: fmt.Sprintf(
			`<domain type='qemu'><name>%s</name><uuid>%s</uuid><memory>1024</memory><os><type>hvm</type></os><devices>`+
				`<disk type='file' device='disk'><source file='%s'/>%s<target dev='vda' bus='virtio'/></disk>`+
				`</devices></domain>`, uuid, uuid, file, backing)})
	}

	for name, tt := range map[string]struct {
		a, b     *inventory.Entry
		conflict bool
	}{
		"two overlays":          {running("a", "/a", "/base"), running("b", "/b", "/base"), false},
		"one has the base":      {running("a", "/a", "/base"), running("b", "/base", ""), true},
		"one has the same disk": {running("a", "/a", "/base"), running("b", "/a", "/base"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := inventory.NewView(nil, map[string]*inventory.Entry{"a": tt.a, "b": tt.b})
			answers := []inventory.Reply{{Host: &inventory.Host{Name: "kvm1"}, View: v}}

			for _, e := range []*inventory.Entry{tt.a, tt.b} {
				if err := rivals(answers, claim{uuid: e.UUID, name: e.Name, host: "kvm1", disks: e.DiskUses()}); errors.Is(err,
					ErrShared) != tt.conflict {
					t.Errorf("%s: %v", e.UUID, err)
				}
			}
		})
	}
}

// A running VM that is turned off and started on another host has the disks of its definition there: a disk that was
// only plugged in, or only defined, counts as it will be.
func TestClaimOf_startsFromItsDefinition(t *testing.T) {
	t.Parallel()

	guest := func(file string) string {
		return fmt.Sprintf(`<domain type='qemu'><name>vm</name><memory>1024</memory><os><type>hvm</type></os><devices>`+
			`<disk type='file' device='disk'><source file='%s'/><target dev='vda' bus='virtio'/></disk></devices></domain>`,
			file)
	}

	for state, want := range map[libvirt.DomainState][2]string{
		libvirt.Running: {"/runs", "/defined"}, libvirt.Shutoff: {"/defined", "/defined"},
	} {
		d := libvirt.Domain{UUID: "vm", Name: "vm", State: state, Persistent: true, PersistentXML: guest("/defined")}
		if state == libvirt.Running {
			d.LiveXML = guest("/runs")
		}

		vm, err := inventory.NewVM(inventory.Reply{
			Host: &inventory.Host{Name: "kvm1"}, Info: &libvirt.HostInfo{}, Domain: inventory.NewEntry(d),
		})
		if err != nil {
			t.Fatal(err)
		}

		for i, starts := range []bool{false, true} {
			c := claimOf(vm, "kvm2", starts)
			if len(c.disks) != 1 || c.disks[0].Source.Name() != want[i] {
				t.Errorf("%v, started there %v: %+v, want %s", state, starts, c.disks, want[i])
			}
		}
	}
}

// A new VM may have a disk that another one writes to if both declare that.
func TestNewUses_shareable(t *testing.T) {
	t.Parallel()

	theirs := []domain.DiskUse{{Key: "quorum", Source: domain.DiskSource{File: "/d"}, Shareable: true}}

	for shareable, want := range map[string]bool{"yes": false, "": true} {
		d := Desired{Spec: domain.Spec{Disks: map[string]domain.Disk{
			"quorum": {Source: domain.DiskSource{File: "/d"}, Values: domain.Values{"shareable": shareable}},
		}}}

		uses := d.newUses(nil)
		if len(uses) != 1 {
			t.Fatal(uses)
		}

		if _, shared := uses[0].SharedWith(theirs, true); shared != want {
			t.Errorf("shareable = %q is refused: %t", shareable, shared)
		}
	}
}

// Disks that are created with their VMs aren't one disk, although one path stands for both. Two disks of one volume
// are.
func TestNewUses_unknown(t *testing.T) {
	t.Parallel()

	d := Desired{
		Spec: domain.Spec{Disks: map[string]domain.Disk{
			"own":  {Source: domain.DiskSource{File: domain.UnknownFile}},
			"data": {Source: domain.DiskSource{File: domain.UnknownFile}},
		}},
		Volumes: map[string]string{"data": "vms/orders"},
	}

	uses := d.newUses(nil)
	if len(uses) != 1 || uses[0].Key != "data" {
		t.Fatal(uses)
	}

	if _, shared := uses[0].SharedWith(d.newUses(nil), true); !shared {
		t.Error("one volume in two VMs isn't noticed")
	}
}
