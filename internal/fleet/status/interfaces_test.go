package status_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

func addresses(all ...string) []netip.Addr {
	var parsed []netip.Addr
	for _, a := range all {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return parsed
}

func TestInterfaces_saysWhoKnewIt(t *testing.T) {
	t.Parallel()
	const mac, other = "52:54:00:00:00:01", "52:54:00:00:00:02"
	up, down, one, four := true, false, 1, 4
	lan := status.DomainInterface{Name: "lan", MAC: mac, Device: "vnet0", LinkUp: true}
	lease := []status.Lease{{MAC: mac, Address: netip.MustParseAddr("192.168.122.5")}}
	known := func(source, guestName string, a ...string) status.Interface {
		return status.Interface{
			Name: "lan", GuestName: guestName, Device: "vnet0", MAC: mac, Addresses: addresses(a...), InfoSource: source,
			LinkUp: &up, Queues: &one,
		}
	}
	tests := []struct {
		name    string
		sources status.Sources
		want    []status.Interface
	}{
		{
			"nothing but the definition",
			status.Sources{Domain: []status.DomainInterface{lan}},
			[]status.Interface{known("domain", "")},
		},
		{
			"lease, no agent",
			status.Sources{Domain: []status.DomainInterface{lan}, Leases: lease},
			[]status.Interface{known("domain, lease", "", "192.168.122.5")},
		},
		{"agent, no lease", status.Sources{
			Domain: []status.DomainInterface{lan},
			Agent: []status.GuestInterface{
				{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: addresses("127.0.0.1")},
				{Name: "eth0", MAC: "52:54:00:00:00:01", Addresses: addresses("fe80::1", "2001:db8::1", "10.0.0.5")},
			},
		}, []status.Interface{known("domain, guest-agent", "eth0", "10.0.0.5", "2001:db8::1", "fe80::1")}},
		{"a bridge over it in the guest", status.Sources{
			Domain: []status.DomainInterface{lan},
			Agent: []status.GuestInterface{
				{Name: "eth0", MAC: mac, Addresses: addresses("10.0.0.5")},
				{Name: "br0", MAC: mac, Addresses: addresses("10.1.0.5")},
				{Name: "veth0", MAC: mac},
			},
		}, []status.Interface{known("domain, guest-agent", "eth0", "10.0.0.5", "10.1.0.5")}},
		{"all", status.Sources{
			Domain: []status.DomainInterface{lan}, Leases: lease, ARP: lease,
			Agent: []status.GuestInterface{{Name: "eth0", MAC: mac, Addresses: addresses("192.168.122.5", "10.1.0.1")}},
		}, []status.Interface{known("domain, guest-agent, lease, arp", "eth0", "192.168.122.5", "10.1.0.1")}},
		{
			"lease and ARP agree",
			status.Sources{Domain: []status.DomainInterface{lan}, Leases: lease, ARP: lease},
			[]status.Interface{known("domain, lease, arp", "", "192.168.122.5")},
		},
		// The lease lives on, but the guest says that it has no address.
		{"agent reports none", status.Sources{
			Domain: []status.DomainInterface{lan}, Leases: lease, Agent: []status.GuestInterface{{Name: "eth0", MAC: mac}},
		}, []status.Interface{known("domain, guest-agent, lease", "eth0")}},
		{"only the guest", status.Sources{Agent: []status.GuestInterface{
			{Name: "docker0", MAC: other, Addresses: addresses("172.17.0.1")},
			{Name: "Loopback Pseudo-Interface 1", Addresses: addresses("::1", "127.0.0.1")},
		}}, []status.Interface{{
			GuestName: "docker0", MAC: other, Addresses: addresses("172.17.0.1"), InfoSource: "guest-agent",
		}}},
		{
			"queues and link",
			status.Sources{Domain: []status.DomainInterface{{Name: "san", MAC: "52:54:00:00:00:0A", Queues: 4}}},
			[]status.Interface{{
				Name: "san", MAC: "52:54:00:00:00:0a", InfoSource: "domain", LinkUp: &down, Queues: &four,
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			same := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
			if diff := cmp.Diff(tt.want, status.Interfaces(tt.sources), same); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInterfaces_listsOnlyTenThatOnlyTheAgentReports(t *testing.T) {
	t.Parallel()
	var s status.Sources
	for i := range 30 {
		s.Agent = append(s.Agent, status.GuestInterface{
			Name: "veth", MAC: "52:54:00:00:01:" + string("0123456789abcdef"[i/16]) + string("0123456789abcdef"[i%16]),
		})
	}
	if got := len(status.Interfaces(s)); got != 10 {
		t.Errorf("listed %d", got)
	}
}
