package placement

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Without storage_overprovisioning_factor, a new VM goes rather to a host whose pools have all that thin disks may grow
// to, with those of VMs that were told to come there. If no host has that, memory decides.
func TestPick_prefersPoolsThatKeepTheirPromises(t *testing.T) {
	t.Parallel()

	const capacity = 100 << 30 // of a pool of libvirt's test driver

	p, inv := testSchedulerOf(t, map[string]inventory.HostConfig{
		"a": {URI: "test://" + testNode(t)}, "b": {URI: "test://" + testNode(t)},
	})
	testVolume(t, inv.Host("a"), "thin", 60)

	memory := uint64(64 << 20)
	d := Desired{
		Spec:     domain.Spec{Memory: domain.Memory{Size: &memory}},
		OwnDisks: map[string]domain.OwnDisk{"root": {Pool: "default-pool", Bytes: capacity / 2}},
	}
	d.Metadata.RunStrategy = "Halted"

	for i, want := range []string{"b", "b", "a"} {
		d.Spec.Name = fmt.Sprintf("vm-%d", i)

		candidates, err := p.candidates(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}

		c := p.pick(candidates, d, nil)
		if c == nil {
			t.Fatalf("no host for %s: %+v", d.Spec.Name, candidates)
		}

		if c.Host.Name != want {
			t.Errorf("%s was told to come to %s, want %s", d.Spec.Name, c.Host.Name, want)
		}
	}
}
