package inventory

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What a VM was started with is pending only in its run: a definition that someone made of the running VM's XML has the
// record too, and the VM that starts with it has nothing pending.
func TestNewVM_recordOfARun(t *testing.T) {
	t.Parallel()

	const adjustment = "platform.clock.adjustment"

	record := `<metadata><r:run xmlns:r="` + domain.RunNamespace + `"><started path="` + adjustment +
		`" value="0"/></r:run></metadata>`

	xml := func(metadata string) string {
		return fmt.Sprintf(`<domain>%s<clock offset="variable" adjustment="120"/></domain>`, metadata)
	}

	for persistent, pending := range map[string]bool{xml(""): true, xml(record): false} {
		vm, err := NewVM(Reply{Host: &Host{}, Info: &libvirt.HostInfo{}, Domain: NewEntry(libvirt.Domain{
			State: libvirt.Running, Persistent: true, PersistentXML: persistent, LiveXML: xml(record),
		})})
		if err != nil {
			t.Fatal(err)
		}

		if vm.RestartRequired() != pending {
			t.Errorf("pending is %v, want %v, with the definition %s", !pending, pending, persistent)
		}
	}
}
