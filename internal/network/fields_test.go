package network

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fieldtest"
)

// fullSpec has a value in every field.
func fullSpec() Spec {
	rate := func(n int) *Rate { return &Rate{Average: n, Peak: n + 1, Burst: n + 2} }
	limits := func(n int) *Bandwidth { return &Bandwidth{Inbound: rate(n), Outbound: rate(n + 100)} }
	vlan := func() *VLAN { return &VLAN{Tags: []int{7, 8}, Trunk: true, NativeTag: 7, NativeMode: "tagged"} }
	port := func() *VirtualPort {
		return &VirtualPort{
			Type: "802.1Qbg", InterfaceID: "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f", ProfileID: "prod", ManagerID: new(1),
			TypeID: new(2), TypeIDVersion: new(3), InstanceID: "f9b4cbc8-54a5-4a4b-a4e0-1a1a1a1a1a1a",
		}
	}
	return Spec{
		Forward: &Forward{
			Mode: ModeNAT, Devices: []string{"eth0", "eth1"}, PhysicalFunction: "eth2", PCIAddresses: []string{"0000:03:10.1"},
			Managed: true, NAT: &NAT{Start: "10.0.0.1", End: "10.0.0.9", PortStart: 1, PortEnd: 9, IPv6: true},
		},
		Bridge: new("virbr7"), MTU: new(1400), Domain: &Domain{Name: "lab.example", LocalOnly: true},
		DNS: &DNS{
			Enabled: new(true), ForwardPlainNames: new(false),
			Forwarders: []Forwarder{{Address: "10.0.0.53", Domain: "corp.example"}},
			Hosts:      []DNSHost{{IP: "10.0.0.2", Names: []string{"a", "b"}}},
			SRV: []SRV{{
				Service: "ldap", Protocol: "tcp", Domain: "d", Target: "t", Port: 1, Priority: 2, Weight: 3,
			}},
			TXT: []TXT{{Name: "n", Value: "v"}},
		},
		IPs: []IP{{Address: "192.168.10.1/24", DHCP: &DHCP{
			Ranges: []Range{{Start: "192.168.10.100", End: "192.168.10.200"}},
			Hosts:  []DHCPHost{{MAC: "52:54:00:00:00:01", DUID: "0:1", IP: "192.168.10.9", Name: "a"}},
		}}},
		Routes:     []Route{{Destination: "10.0.0.0/8", Gateway: "192.168.10.2", Metric: 2}},
		PortGroups: map[string]*PortGroup{"ops": {Default: true, VLAN: vlan(), VirtualPort: port(), Bandwidth: limits(10)}},
		VLAN:       vlan(), VirtualPort: port(), Bandwidth: limits(20), DnsmasqOptions: []string{"a=b", "c"},
	}
}

// Each field of a network counts: a change of it is a difference, is applied, and is then no difference any more.
func TestSpec_everyField(t *testing.T) {
	t.Parallel()
	all := fieldtest.Variants(t, fullSpec())
	for _, path := range []string{
		// Without a block, it isn't managed. Reservations may be managed individually.
		"Forward removed", "Bridge removed", "MTU removed", "Domain removed", "DNS removed", "VLAN removed",
		"VirtualPort removed", "Bandwidth removed",
		// The default is the same, and several tags always form a trunk.
		"DNS.Enabled removed", "VLAN.Trunk", "PortGroups[ops].VLAN.Trunk",
	} {
		if _, known := all[path]; !known {
			t.Errorf("%s is unknown", path)
		}
		delete(all, path)
	}
	for path, want := range all {
		if len(Differences(fullSpec(), want)) == 0 {
			t.Errorf("%s: no difference", path)
		}
		if strings.HasPrefix(path, "Forward.") || strings.Contains(path, "VLAN.Tags[") {
			continue // Not all of a forward fits together, and the native tag is one of the tags.
		}
		want.Forward = &Forward{Mode: ModeNAT, Devices: []string{"eth0"}}
		d := newDefinition("net", "", fullSpec())
		d.Apply(want)
		read, err := parseDefinition(d.String())
		if err != nil {
			t.Fatal(err)
		}
		if left := Differences(read.Spec(), want); len(left) > 0 {
			t.Errorf("%s: after the apply, %v is different", path, left)
		}
	}
}
