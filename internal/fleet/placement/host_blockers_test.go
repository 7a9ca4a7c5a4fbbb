package placement_test

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// The labels that the host has aren't what prevents the move.
func TestLabelBlocker_namesOnlyTheLabelsThatTheHostLacks(t *testing.T) {
	t.Parallel()

	host := &inventory.Host{
		Name: "kvm1", Config: inventory.HostConfig{Labels: map[string]string{"zone": "a", "rack": "7"}},
	}
	vm := &inventory.VM{}
	vm.Metadata.HostLabels = map[string]string{"zone": "a", "rack": "8", "disk": "ssd"}

	blockers := placement.LabelBlocker(vm, host, status.False)
	if len(blockers) != 1 || !strings.Contains(blockers[0].Message, "(disk=ssd, rack=8)") {
		t.Errorf("got %+v", blockers)
	}
}
