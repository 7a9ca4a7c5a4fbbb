package network

import (
	"context"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

// TestCheckRoutes_silentLibvirt: a host's route through the bridge of a network is no collision if its libvirt doesn't
// say which networks are active.
func TestCheckRoutes_silentLibvirt(t *testing.T) {
	t.Parallel()
	routes := func(context.Context, string, int) ([]byte, error) {
		return []byte("virbr0 007AA8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"), nil
	}
	targets := hostset.NewSet(hostset.Host{Name: "kvm1", ReadEnd: routes}, hostset.Host{Name: "kvm2", ReadEnd: routes},
		hostset.Host{Name: "kvm3", ReadEnd: routes})
	// kvm1 has the bridge, kvm2 has no network, so the device is another one, and kvm3 doesn't answer.
	active := map[string]map[string]network.ActiveNetwork{"kvm1": {"lan": {Bridge: "virbr0"}}, "kvm2": {}}
	spec := network.Spec{IPs: []network.IP{{Address: "192.168.122.1/24"}}}
	diags := checkRoutes(t.Context(), targets, spec, "lan", active)
	if len(diags) != 1 || diags.ErrorsCount() != 1 {
		t.Fatalf("expected is one error, of kvm2: %v", diags)
	}
	const want = `Host "kvm2" has a route to 192.168.122.0/24`
	if got := diags[0].Detail(); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("%s, want %s", got, want)
	}
}
