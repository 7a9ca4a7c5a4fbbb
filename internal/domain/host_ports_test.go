package domain

import (
	"slices"
	"strings"
	"testing"
)

// TestHostUse_ports: two VMs can't have one port of a host, or one of its input devices. What passt leaves out, and
// "all", which are the ports that are free, is no VM's.
func TestHostUse_ports(t *testing.T) {
	t.Parallel()
	words := func(all string) string { return FormatWords(strings.Fields(all)) }
	use := func(tcp, udp string, inputs map[string]Row) HostUse {
		return Spec{
			Interfaces: map[string]Interface{
				"lan": {Values: Values{"backend.tcp_ports": words(tcp), "backend.udp_ports": words(udp)}},
			}, Inputs: inputs,
		}.HostUse()
	}
	keyboard := map[string]Row{"kbd": {"type": "evdev", "device": "/dev/input/event3"}, "mouse": {"type": "mouse"}}
	holder := use("2022:22 5000-5020,~5010 192.0.2.7/80 %eth0/443 ::1/25", "53", keyboard)
	var parts []string
	for _, part := range use("5000-5020,~5010,~5020 192.0.2.7%eth0/80 all ~7", "53", keyboard).Parts() {
		parts = append(parts, part.String())
	}
	want := []string{
		"TCP port 192.0.2.7%eth0/80", "TCP port 5000-5009", "TCP port 5011-5019", "UDP port 53",
		"input device /dev/input/event3",
	}
	if !slices.Equal(parts, want) {
		t.Errorf("the parts are %q, want %q", parts, want)
	}
	for _, other := range []struct{ tcp, udp, shared string }{
		{"2022", "", "TCP port 2022"},
		{"2000-2100:22", "", "TCP port 2022"},
		{"192.0.2.9/2022", "", "TCP port 2022"},
		{"5010", "2022", ""},
		{"5015-5030", "", "TCP port 5011-5020"},
		{"192.0.2.8/80 %eth1/443 all ~9", "", ""},
		{"80", "", "TCP port 192.0.2.7/80"},
		{"192.0.2.7/443", "", "TCP port %eth0/443"},
		{"53", "", ""},
		{"", "53:5353", "UDP port 53"},
	} {
		if shared := use(other.tcp, other.udp, nil).Shared(holder); shared != other.shared {
			t.Errorf("%q and %q share %q, want %q", other.tcp, other.udp, shared, other.shared)
		}
	}
	if shared := use("", "", keyboard).Shared(holder); shared != "input device /dev/input/event3" {
		t.Errorf("two with one keyboard share %q", shared)
	}
}
