package drain_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// VMs that are off and ask for a device by class each get one of the host that they are drained to, which no VM there
// has. They aren't started: the lab has no IOMMU.
func TestLab_drainGivesDevicesOfTheirClass(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	devices := fleettest.PCIDevices(t, l, to, 6)
	source, target := devices[:3], devices[2:]
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)

	for _, onSource := range []*inventory.Host{alone.Host(from.Name), f.Host(from.Name)} {
		onSource.Config.Devices = map[string][]domain.HostPart{"gpu": source}
	}

	f.Host(to.Name).Config.Devices = map[string][]domain.HostPart{"gpu": target}

	made := map[string]*inventory.VM{}

	for _, name := range []string{"a", "b", "c"} {
		d := light(t, l, name, nil)
		d.Metadata.RunStrategy = "Halted"
		d.Spec.HostDevices = map[string]domain.Row{"gpu": {"class": "gpu"}}
		made[name] = create(t, alone, l, d)
	}

	// The target gives the first one of its own to a VM that it starts when it boots.
	holder := light(t, l, "holder", nil)
	holder.Metadata.RunStrategy = "Halted"
	holder.Spec.HostDevices = map[string]domain.Row{"gpu": target[0].Assign(nil)}
	l.Virsh(t, to.Name, "autostart", create(t, ownFleet(t, "alice", to), l, holder).UUID)

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", MoveStopped: true})
	if got := resultsOf(steps); err != nil || got != "a=ColdMoved b=ColdMoved c=ColdMoved" {
		t.Fatalf("%s, %v", got, err)
	}

	given := map[domain.HostPart]string{target[0]: "holder"}

	for name, vm := range made {
		onlyOn(t, f, vm.UUID, to.Name)

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		has := now.PersistentSpec.HostDevices["gpu"].HostDevice()
		if other := given[has]; other != "" {
			t.Errorf("%s and %s are both defined with %s, of %v", name, other, has, target)
		}

		given[has] = name
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	for _, vm := range made {
		onlyOn(t, f, vm.UUID, from.Name)
	}
}
