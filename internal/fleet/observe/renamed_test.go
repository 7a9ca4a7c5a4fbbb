package observe

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// The addresses of an interface whose key was changed while the VM runs are known by the new key: no wait is in vain
// for those of an interface that is there.
func TestByInterface_followsARename(t *testing.T) {
	t.Parallel()

	nic := func(key string) *domain.Spec {
		return &domain.Spec{Interfaces: map[string]domain.Interface{key: {Network: "default", MAC: "52:54:00:00:00:01"}}}
	}
	vm := &inventory.VM{LiveSpec: nic("lan"), PersistentSpec: nic("wan")}
	found := []libvirt.Address{{MAC: "52:54:00:00:00:01", IP: "192.0.2.7"}}

	got := byInterface(vm, libvirt.SourceLease, found)
	if len(got) != 1 || len(got["wan"]) != 1 || got["wan"][0] != "192.0.2.7" {
		t.Errorf("%v", got)
	}

	vm.PersistentSpec = nil // It has no other definition than what runs.
	if got := byInterface(vm, libvirt.SourceLease, found); len(got["lan"]) != 1 {
		t.Errorf("of a transient one %v", got)
	}
}
