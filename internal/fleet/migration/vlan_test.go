package migration

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestRefusedVLAN: libvirt starts no VM whose interface has a VLAN, of its own or of its network or port group, where
// it can't give one.
func TestRefusedVLAN(t *testing.T) {
	t.Parallel()
	const vlan, ovs = "<vlan><tag id='7'/></vlan>", "<virtualport type='openvswitch'/>"
	const group, device = "<portgroup name='a'>" + vlan + "</portgroup>", "<forward><interface dev='e'/></forward>"
	const tagged = "<portgroup name='a'>" + ovs + vlan + "</portgroup>"
	const usual = "<portgroup name='a' default='yes'>" + vlan + "</portgroup>"
	for name, c := range map[string]struct {
		mode, says string
		port       Port
		major      int
		refused    bool
	}{
		"bridge, port group":           {"bridge", group, Port{Group: "a"}, 9, true},
		"bridge, another port group":   {"bridge", group, Port{Group: "b"}, 9, false},
		"bridge, default port group":   {"bridge", usual, Port{}, 9, true},
		"bridge, not the default":      {"bridge", group, Port{}, 9, false},
		"bridge, newer libvirt":        {"bridge", vlan, Port{}, 11, false},
		"bridge, of the interface":     {"bridge", "", Port{Tagged: true}, 9, true},
		"bridge, none":                 {"bridge", "", Port{}, 9, false},
		"switch":                       {"bridge", ovs + vlan, Port{}, 9, false},
		"switch, of the interface":     {"bridge", vlan, Port{VirtualPort: "openvswitch"}, 9, false},
		"switch, of the port group":    {"bridge", tagged, Port{Group: "a"}, 9, false},
		"macvtap":                      {"bridge", device + vlan, Port{}, 11, true},
		"passthrough":                  {"passthrough", vlan, Port{}, 9, false},
		"hostdev, of the interface":    {"hostdev", "", Port{Tagged: true}, 9, false},
		"libvirt's own, newer libvirt": {"nat", vlan, Port{}, 11, true},
	} {
		info := &libvirt.HostInfo{Driver: "QEMU", LibvirtVersion: libvirt.Version{Major: c.major}}
		n := libvirt.Network{Name: "lan", ForwardMode: c.mode, XML: "<network>" + c.says + "</network>"}
		if why, _ := RefusedVLAN(info, n, c.port); (why != "") != c.refused {
			t.Errorf("%s: %q", name, why)
		}
	}
}
