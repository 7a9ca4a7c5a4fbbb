package inventory

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A condition that one reading of the definitions leaves unknown says why.
func TestVM_Facts_unknownConditionsSayWhy(t *testing.T) {
	t.Parallel()

	vm := &VM{
		Host: "kvm1", State: libvirt.Running, Active: true, Persistent: true, AgentConnected: true,
		ActiveHosts: map[string]status.Role{"kvm1": status.RoleActive},
		LiveSpec:    &domain.Spec{GuestAgent: new(true)}, PersistentSpec: &domain.Spec{GuestAgent: new(true)},
	}
	unknown := 0

	for _, c := range status.Conditions(vm.Facts()) {
		if c.Status != status.Unknown {
			continue
		}

		unknown++

		if c.Message == "" {
			t.Errorf("%s is unknown for no reason", c.Type)
		}
	}

	if unknown == 0 {
		t.Error("no condition is unknown")
	}
}
