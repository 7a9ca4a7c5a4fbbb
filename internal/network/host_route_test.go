package network

import (
	"net/netip"
	"slices"
	"testing"
)

// TestCollision: libvirt doesn't start a network whose subnet, or that of one of its routes, the host has a route to.
func TestCollision(t *testing.T) {
	t.Parallel()
	routes := readRoutes(`Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0100000A	0003	0	0	0	00000000	0	0	0
eth0	0000000A	00000000	0001	0	0	0	00FFFFFF	0	0	0
virbr0	007AA8C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
wg0	000010AC	00000000	0001	0	0	0	0000F0FF	0	0	0
cut	0000
`)
	want := []HostRoute{
		{"eth0", netip.MustParsePrefix("0.0.0.0/0")},
		{"eth0", netip.MustParsePrefix("10.0.0.0/24")},
		{"virbr0", netip.MustParsePrefix("192.168.122.0/24")},
		{"wg0", netip.MustParsePrefix("172.16.0.0/12")},
	}
	if !slices.Equal(routes, want) {
		t.Fatalf("%v, want %v", routes, want)
	}
	for text, want := range map[string]string{
		`{"ips": [{"address": "10.0.0.7/24"}]}`:                                 "eth0",
		`{"ips": [{"address": "10.0.0.7/25"}]}`:                                 "",
		`{"ips": [{"address": "192.168.122.1/24"}]}`:                            "",
		`{"ips": [{"address": "10.1.0.1/24"}, {"address": "fd00::1/64"}]}`:      "",
		`{"routes": [{"destination": "172.16.0.0/12", "gateway": "10.1.0.2"}]}`: "wg0",
	} {
		if with, _ := spec(t, text).Collision(routes, []string{"virbr0"}); with.Interface != want {
			t.Errorf("%s collides with %q, want %q", text, with.Interface, want)
		}
	}
}
