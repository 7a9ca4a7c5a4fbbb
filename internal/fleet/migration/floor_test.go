package migration

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A network of each host's own guarantees a part of the bandwidth that it has.
func TestFloorLacks(t *testing.T) {
	t.Parallel()
	network := func(mode, bandwidth string) libvirt.Network {
		return libvirt.Network{Name: "n", ForwardMode: mode, XML: "<network><name>n</name>" + bandwidth + "</network>"}
	}
	const average = `<bandwidth><inbound average="1000"/></bandwidth>`
	const peak = `<bandwidth><inbound average="1000" peak="2000"/><outbound average="9000"/></bandwidth>`
	for name, tt := range map[string]struct {
		network libvirt.Network
		floor   uint64
		lacks   string
	}{
		"nothing asked for":  {network("bridge", ""), 0, ""},
		"all of it":          {network("nat", average), 1000, ""},
		"all of the peak":    {network("", peak), 2000, ""},
		"too much":           {network("route", average), 1001, "1000 kB/s (bandwidth.inbound.average)"},
		"more than the peak": {network("open", peak), 2001, "2000 kB/s (bandwidth.inbound.peak)"},
		"no inbound":         {network("nat", `<bandwidth><outbound average="9"/></bandwidth>`), 1, "no bandwidth.inbound"},
		"a bridge":           {network("bridge", average), 1, "(bridge) can't guarantee"},
		"an absent network":  {libvirt.Network{}, 1, ""},
	} {
		got := FloorLacks(tt.network, domain.NetworkFloor{Sum: tt.floor})
		if (got == "") != (tt.lacks == "") || !strings.Contains(got, tt.lacks) {
			t.Errorf("%s: %q; want %q", name, got, tt.lacks)
		}
	}
}
