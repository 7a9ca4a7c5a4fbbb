package drain

import (
	"maps"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// What disks may grow to counts in a drain only where the host limits it, and apart from the space that they take.
func TestSpaceFor(t *testing.T) {
	t.Parallel()

	load := migration.TransferSize{
		Files:  map[string]uint64{"/vms/a": 1, "/vms/b": 2, "/fast/c": 4},
		Growth: map[string]uint64{"/vms/a": 10, "/vms/b": 20, "/fast/c": 40},
	}
	unlimited, limited := &inventory.Host{}, &inventory.Host{}
	limited.Config.StorageOverprovisioningFactor = 2

	if got := spaceFor(unlimited, load); !maps.Equal(got, map[string]uint64{"/vms": 3, "/fast": 4}) {
		t.Errorf("without a limit: %v", got)
	}

	want := map[string]uint64{"/vms": 3, "/fast": 4, "/vms" + evacuation.GrowthIn: 30, "/fast" + evacuation.GrowthIn: 40}
	if got := spaceFor(limited, load); !maps.Equal(got, want) {
		t.Errorf("with a limit: %v; want %v", got, want)
	}
}
