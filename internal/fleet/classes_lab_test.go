package fleet

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Two VMs that are off are changed at the same time to a class of devices: each gets one of its own, although neither
// is defined with it yet while the other's is chosen.
func TestLab_changedClassesOfVMsThatAreOff(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	host := l.StartHost(t)
	devices := fleettest.PCIDevices(t, l, host, 4)
	f := ownFleet(t, "alice", host)
	f.Host(host.Name).Config.Devices = map[string][]domain.HostPart{"gpu": devices[:2], "nic": devices[2:]}

	wish := func(d placement.Desired, class string) placement.Desired {
		d.Spec.HostDevices = map[string]domain.Row{"card": {"class": class}}

		return d
	}

	var (
		wishes []placement.Desired
		vms    []*inventory.VM
	)

	for _, name := range []string{"a", "b"} {
		d := light(t, l, name, nil)
		d.Metadata.RunStrategy = "Halted"
		wishes = append(wishes, d)
		vms = append(vms, create(t, f, l, wish(d, "gpu")))
	}

	update := func(i int) {
		vm, err := f.Update(t.Context(), vms[i].UUID, lastOf(vms[i]), wish(wishes[i], "nic"))
		if err != nil {
			t.Error(err)

			return
		}

		vms[i] = vm
	}

	// The first one's device is chosen, and its definition isn't changed yet.
	listen(f, &onLog{Message: "changing definition", Do: func() { update(1) }})
	update(0)

	var given []domain.HostPart
	for _, vm := range vms {
		given = append(given, vm.PersistentSpec.HostDevices["card"].HostDevice())
	}

	if given[0] == given[1] || !slices.Contains(devices[2:], given[0]) || !slices.Contains(devices[2:], given[1]) {
		t.Errorf("they are defined with %v; want each of %v once", given, devices[2:])
	}
}
