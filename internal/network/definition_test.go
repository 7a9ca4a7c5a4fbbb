package network

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// everything is a network as libvirt prints it, with what Spec doesn't model in every place.
const everything = `<network connections='2' xmlns:dnsmasq='http://libvirt.org/schemas/network/dnsmasq/1.0'>
  <name>lan</name>
  <uuid>5d2f1c8e-3b0a-4e0e-9d7c-0c9a2b7f1a11</uuid>
  <metadata><other:note xmlns:other="urn:other">kept</other:note></metadata>
  <forward mode='nat' dev='eth0'>
    <nat ipv6='yes'><address start='10.0.0.1' end='10.0.0.9'/><port start='1024' end='65535'/></nat>
    <interface dev='eth0' connections='1'/>
  </forward>
  <bridge name='virbr7' stp='on' delay='3'/>
  <mtu size='9000'/>
  <mac address='52:54:00:11:22:33'/>
  <domain name='lan.example' localOnly='yes' register='yes'/>
  <dns forwardPlainNames='no'>
    <forwarder domain='corp.example' addr='10.1.1.1'/>
    <txt name='a' value='b c'/>
    <host ip='192.168.10.2'><hostname>gw</hostname><hostname>gw2</hostname></host>
    <srv service='ldap' protocol='tcp' domain='lan.example' target='gw' port='389' priority='1' weight='2'/>
  </dns>
  <ip address='192.168.10.1' netmask='255.255.255.0' localPtr='yes'>
    <tftp root='/srv/tftp'/>
    <dhcp>
      <range start='192.168.10.100' end='192.168.10.199'><lease expiry='1' unit='hours'/></range>
      <host mac='52:54:00:AA:BB:CC' name='web' ip='192.168.10.50'/>
      <bootp file='pxelinux.0'/>
    </dhcp>
  </ip>
  <ip family='ipv6' address='fd00:10::1' prefix='64'/>
  <route address='10.9.0.0' prefix='16' gateway='192.168.10.2' metric='3'/>
  <portgroup name='eng' default='yes' trustGuestRxFilters='yes'>
    <vlan trunk='yes'><tag id='42' nativeMode='untagged'/><tag id='43'/></vlan>
    <virtualport type='openvswitch'><parameters profileid='x'/></virtualport>
    <bandwidth><inbound average='1000' peak='5000' burst='1024'/></bandwidth>
  </portgroup>
  <vlan><tag id='5'/></vlan>
  <virtualport type='802.1Qbh'/>
  <bandwidth><outbound average='128'/></bandwidth>
  <dnsmasq:options><dnsmasq:option value='dhcp-option=6,1.1.1.1'/></dnsmasq:options>
</network>`

func parse(t *testing.T, xml string) *definition {
	t.Helper()
	d, err := parseDefinition(xml)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// spec is a Spec as users write it.
func spec(t *testing.T, text string) Spec {
	t.Helper()
	var s Spec
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

const everythingSpec = `{
	"forward": {"mode": "nat", "devices": ["eth0"], "nat": {"start": "10.0.0.1", "end": "10.0.0.9", "ipv6": true}},
	"bridge": "virbr7", "mtu": 9000, "domain": {"name": "lan.example", "local_only": true},
	"dns": {
		"forward_plain_names": false, "forwarders": [{"domain": "corp.example", "address": "10.1.1.1"}],
		"hosts": [{"ip": "192.168.10.2", "names": ["gw", "gw2"]}], "txt": [{"name": "a", "value": "b c"}],
		"srv": [{
			"service": "ldap", "protocol": "tcp", "domain": "lan.example", "target": "gw", "port": 389,
			"priority": 1, "weight": 2
		}]
	},
	"ips": [
		{"address": "192.168.10.1/24", "dhcp": {
			"ranges": [{"start": "192.168.10.100", "end": "192.168.10.199"}],
			"hosts": [{"mac": "52:54:00:aa:bb:cc", "name": "web", "ip": "192.168.10.50"}]
		}},
		{"address": "fd00:10::1/64"}
	],
	"routes": [{"destination": "10.9.0.0/16", "gateway": "192.168.10.2", "metric": 3}],
	"port_groups": {"eng": {
		"default": true, "vlan": {"tags": [42, 43], "trunk": true, "native_tag": 42, "native_mode": "untagged"},
		"virtual_port": {"type": "openvswitch", "profile_id": "x"},
		"bandwidth": {"inbound": {"average": 1000, "peak": 5000, "burst": 1024}}
	}},
	"vlan": {"tags": [5]}, "virtual_port": {"type": "802.1Qbh"},
	"bandwidth": {"outbound": {"average": 128}}, "dnsmasq_options": ["dhcp-option=6,1.1.1.1"]
}`

func TestDefinition_readsEveryBlock(t *testing.T) {
	t.Parallel()
	want := spec(t, everythingSpec)
	if diff := cmp.Diff(want, parse(t, everything).Spec()); diff != "" {
		t.Error(diff)
	}
	for _, b := range blocks {
		if !b.declared(want) {
			t.Errorf("%s isn't in the test", b.name)
		}
	}
	// Created again, it says the same.
	if diff := cmp.Diff(want, parse(t, newDefinition("lan", "", want).String()).Spec()); diff != "" {
		t.Error(diff)
	}
}

func TestApply_changesWhatIsWantedAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	d := parse(t, everything)
	unchanged := d.String()
	d.Apply(Spec{})
	d.Apply(spec(t, everythingSpec))
	if diff := cmp.Diff(unchanged, d.String()); diff != "" {
		t.Errorf("what is there already was changed: %s", diff)
	}
	for name, test := range map[string]struct{ want, in, out string }{
		"forward": {
			`{"forward": {"mode": "route", "devices": ["eth1"]}}`,
			"<forward mode=\"route\">", "<nat",
		},
		"isolated": {`{"forward": {"mode": "isolated"}}`, "<bridge name='virbr7'", "<forward "},
		"bridge":   {`{"bridge": "br9"}`, "<bridge name=\"br9\" stp=\"on\" delay=\"3\"/>", "virbr7"},
		"domain":   {`{"domain": {"name": "x"}}`, "<domain name=\"x\" register=\"yes\"/>", "localOnly"},
		"range": {
			`{"ips": [{"address": "192.168.10.1/24", "dhcp": {"ranges": [
				{"start": "192.168.10.100", "end": "192.168.10.199"}, {"start": "192.168.10.5", "end": "192.168.10.9"}]}}]}`,
			"<lease expiry=\"1\" unit=\"hours\"/>", "fd00:10::1",
		},
		"reservations": {
			`{"ips": [{"address": "192.168.10.1/24", "dhcp": {"hosts": []}}]}`, "<bootp file=\"pxelinux.0\"/>", "52:54:00:AA",
		},
		"another address in the subnet": {
			`{"ips": [{"address": "192.168.10.254/24", "dhcp": {}}]}`, "<host mac=\"52:54:00:AA:BB:CC\"", "192.168.10.1\"",
		},
		"the address of a reservation": {
			`{"ips": [{"address": "192.168.10.50/24", "dhcp": {}}]}`, "<ip address=\"192.168.10.50\"", "52:54:00:AA:BB:CC",
		},
		"larger subnet": {
			`{"ips": [{"address": "192.168.10.1/23", "dhcp": {}}, {"address": "fd00:10::1/64"}]}`,
			"<host mac=\"52:54:00:AA:BB:CC\"", "netmask",
		},
		"another subnet": {
			`{"ips": [{"address": "192.168.11.1/24", "dhcp": {}}]}`, "<ip address=\"192.168.11.1\" prefix=\"24\"", "52:54:00:AA",
		},
		"no addresses": {`{"ips": []}`, "virbr7", "<ip"},
		"port group": {
			`{"port_groups": {"eng": {"vlan": {"tags": [7]}}}}`, "trustGuestRxFilters=\"yes\"", "openvswitch",
		},
		"virtual port": {
			`{"virtual_port": {"type": "802.1Qbg", "manager_id": 0, "type_id": 1193047, "type_id_version": 1,
				"instance_id": "09B11C53-8B5C-4EEB-8F00-D84EAA0AAA4F"}}`,
			"<virtualport type=\"802.1Qbg\"><parameters managerid=\"0\" typeid=\"1193047\" typeidversion=\"1\" " +
				"instanceid=\"09B11C53-8B5C-4EEB-8F00-D84EAA0AAA4F\"/>", "802.1Qbh",
		},
		"profile": {
			`{"virtual_port": {"type": "openvswitch", "profile_id": "prod",
				"interface_id": "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f"}}`,
			"<parameters interfaceid=\"09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4f\" profileid=\"prod\"/>", "802.1Qbh",
		},
		"options":    {`{"dnsmasq_options": ["log-dhcp"]}`, "<dnsmasq:option value=\"log-dhcp\"/>", "dhcp-option"},
		"no options": {`{"dnsmasq_options": []}`, "kept", "dhcp-option"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, everything)
			want := spec(t, test.want)
			d.Apply(want)
			text := strings.ReplaceAll(d.String(), "'", "\"")
			if !strings.Contains(text, strings.ReplaceAll(test.in, "'", "\"")) || strings.Contains(text, test.out) {
				t.Errorf("want %s, not %s, in %s", test.in, test.out, text)
			}
			if left := Differences(parse(t, d.String()).Spec(), want); len(left) > 0 {
				t.Errorf("%v still differ", left)
			}
			for _, kept := range []string{"52:54:00:11:22:33", ">kept<", "5d2f1c8e"} {
				if !strings.Contains(text, kept) {
					t.Errorf("%s is lost", kept)
				}
			}
		})
	}
}

func TestDifferences_goByMeaning(t *testing.T) {
	t.Parallel()
	have := parse(t, everything).Spec()
	for name, same := range map[string]string{
		"order":        `{"dns": {"forward_plain_names": false, "enabled": true, "forwarders": [{"domain": "corp.example", "address": "10.1.1.1"}], "hosts": [{"ip": "192.168.10.2", "names": ["gw2", "gw"]}], "txt": [{"name": "a", "value": "b c"}], "srv": [{"service": "ldap", "protocol": "tcp", "domain": "lan.example", "target": "gw", "port": 389, "priority": 1, "weight": 2}]}}`, //nolint:lll // one document
		"upper case":   `{"ips": [{"address": "FD00:10:0::1/64"}, {"address": "192.168.10.1/24", "dhcp": {"ranges": [{"start": "192.168.10.100", "end": "192.168.10.199"}], "hosts": [{"mac": "52:54:00:AA:bb:cc", "name": "web", "ip": "192.168.10.50"}]}}]}`,                                                                                                                              //nolint:lll // one document
		"reservations": `{"ips": [{"address": "192.168.10.1/24", "dhcp": {"ranges": [{"start": "192.168.10.100", "end": "192.168.10.199"}]}}, {"address": "fd00:10::1/64"}]}`,                                                                                                                                                                                                               //nolint:lll // one document
		"nat's ports":  `{"forward": {"mode": "nat", "devices": ["eth0"], "nat": {"start": "10.0.0.1", "end": "10.0.0.9", "ipv6": true, "port_start": 1024, "port_end": 65535}}}`,                                                                                                                                                                                                           //nolint:lll // one document
	} {
		if names := Differences(have, spec(t, same)); len(names) > 0 {
			t.Errorf("%s: %v differ", name, names)
		}
	}
}

func TestChanges_tellLiveFromRestart(t *testing.T) {
	t.Parallel()
	have := parse(t, everything).Spec()
	update := func(command libvirt.NetworkCommand, section libvirt.NetworkSection, parent int, xml string,
	) libvirt.NetworkUpdate {
		return libvirt.NetworkUpdate{Command: command, Section: section, Parent: parent, XML: xml}
	}
	dns := func(change string) string {
		return `{"dns": {"forward_plain_names": false, "forwarders": [{"domain": "corp.example", "address": "10.1.1.1"}],
			"srv": [{"service": "ldap", "protocol": "tcp", "domain": "lan.example", "target": "gw", "port": 389, "priority": 1,
				"weight": 2}], ` + change + `}}`
	}
	for name, test := range map[string]struct {
		want    string
		updates []libvirt.NetworkUpdate
		restart []string
	}{
		"bridge":           {`{"bridge": "br9"}`, nil, []string{"bridge"}},
		"mtu and options":  {`{"mtu": 1500, "dnsmasq_options": []}`, nil, []string{"mtu", "dnsmasq_options"}},
		"another address":  {`{"ips": [{"address": "192.168.11.1/24"}]}`, nil, []string{"ips"}},
		"forwarders":       {`{"dns": {"forward_plain_names": false}}`, nil, []string{"dns"}},
		"nothing declared": {`{}`, nil, nil},
		"DNS host": {
			dns(`"txt": [], "hosts": [{"ip": "192.168.10.2", "names": ["gw"]}, {"ip": "192.168.10.3", "names": ["db"]}]`),
			[]libvirt.NetworkUpdate{
				update(libvirt.NetworkDelete, libvirt.NetworkDNSHost, -1, `<host ip="192.168.10.2"/>`),
				update(libvirt.NetworkAdd, libvirt.NetworkDNSHost, -1, `<host ip="192.168.10.2"><hostname>gw</hostname></host>`),
				update(libvirt.NetworkAdd, libvirt.NetworkDNSHost, -1, `<host ip="192.168.10.3"><hostname>db</hostname></host>`),
				update(libvirt.NetworkDelete, libvirt.NetworkDNSTXT, -1, `<txt name="a" value="b c"/>`),
			},
			nil,
		},
		"reservation": {
			`{"ips": [{"address": "fd00:10::1/64", "dhcp": {"ranges": [{"start": "fd00:10::100", "end": "fd00:10::1ff"}]}},
				{"address": "192.168.10.1/24", "dhcp": {"ranges": [{"start": "192.168.10.100", "end": "192.168.10.199"}],
				"hosts": [{"mac": "52:54:00:aa:bb:cc", "ip": "192.168.10.51"}]}}]}`,
			[]libvirt.NetworkUpdate{
				update(libvirt.NetworkModify, libvirt.NetworkDHCPHost, 0, `<host mac="52:54:00:aa:bb:cc" ip="192.168.10.51"/>`),
				update(libvirt.NetworkAdd, libvirt.NetworkDHCPRange, 1, `<range start="fd00:10::100" end="fd00:10::1ff"/>`),
			},
			nil,
		},
		"reservation with another name": {
			`{"ips": [{"address": "fd00:10::1/64", "dhcp": {"ranges": [{"start": "fd00:10::100", "end": "fd00:10::1ff"}]}},
				{"address": "192.168.10.1/24", "dhcp": {"ranges": [{"start": "192.168.10.100", "end": "192.168.10.199"}],
				"hosts": [{"mac": "52:54:00:aa:bb:cc", "ip": "192.168.10.50", "name": "other"}]}}]}`,
			[]libvirt.NetworkUpdate{
				update(libvirt.NetworkDelete, libvirt.NetworkDHCPHost, 0, dhcpHosts.element(have.IPs[0].DHCP.Hosts[0])),
				update(libvirt.NetworkAdd, libvirt.NetworkDHCPHost, 0,
					`<host mac="52:54:00:aa:bb:cc" name="other" ip="192.168.10.50"/>`),
				update(libvirt.NetworkAdd, libvirt.NetworkDHCPRange, 1, `<range start="fd00:10::100" end="fd00:10::1ff"/>`),
			},
			nil,
		},
		"port groups": {
			`{"port_groups": {"ops": {"default": true}}}`,
			[]libvirt.NetworkUpdate{
				update(libvirt.NetworkDelete, libvirt.NetworkPortGroup, -1, portGroups.element(listOf(have.PortGroups)[0])),
				update(libvirt.NetworkAdd, libvirt.NetworkPortGroup, -1, `<portgroup name="ops" default="yes"/>`),
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			updates, restart := requiredChanges(have, spec(t, test.want))
			if diff := cmp.Diff(test.updates, updates); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.restart, restart); diff != "" {
				t.Error(diff)
			}
		})
	}
	pool := parse(t, "<network><name>x</name><forward mode='bridge'><interface dev='eth0'/></forward></network>").Spec()
	updates, restart := requiredChanges(pool, spec(t, `{"forward": {"mode": "bridge", "devices": ["eth0", "eth1"]}}`))
	if len(updates) != 1 || updates[0].XML != `<interface dev="eth1"/>` || restart != nil {
		t.Errorf("got %v, %v", updates, restart)
	}
	// libvirt finds no reservation by its DUID, so it can't modify one.
	six := parse(t, "<network><name>x</name><ip family='ipv6' address='fd00:10::1' prefix='64'><dhcp>"+
		"<host id='00:03:00:01' ip='fd00:10::5'/></dhcp></ip></network>").Spec()
	updates, restart = requiredChanges(six, spec(t, `{"ips": [{"address": "fd00:10::1/64",
		"dhcp": {"hosts": [{"duid": "00:03:00:01", "ip": "fd00:10::6"}]}}]}`))
	if diff := cmp.Diff([]libvirt.NetworkUpdate{
		update(libvirt.NetworkDelete, libvirt.NetworkDHCPHost, 0, `<host id="00:03:00:01" ip="fd00:10::5"/>`),
		update(libvirt.NetworkAdd, libvirt.NetworkDHCPHost, 0, `<host id="00:03:00:01" ip="fd00:10::6"/>`),
	}, updates); diff != "" || restart != nil {
		t.Error(diff, restart)
	}
}

func TestParse_refusesWhatIsNoNetwork(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "<domain/>", "<network"} {
		if _, err := parseDefinition(text); err == nil {
			t.Errorf("%q was taken for a network", text)
		}
	}
}
