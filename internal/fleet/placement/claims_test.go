package placement

import (
	"errors"
	"fmt"
	"testing"

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
