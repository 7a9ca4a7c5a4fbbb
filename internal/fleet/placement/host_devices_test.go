package placement_test

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// hostDevices are devices of a host of libvirt's test driver.
const hostDevices = `<node>
  <device><name>computer</name><capability type='system'>
    <hardware><uuid>11111111-2222-3333-4444-555555555555</uuid></hardware><firmware/></capability></device>
  <device><name>net_eth0</name><parent>computer</parent>
    <capability type='net'><interface>eth0</interface><address>52:54:00:c0:0d:01</address></capability></device>
  <device><name>pci_0000_03_00_1</name><parent>computer</parent><capability type='pci'><class>0x020000</class>
    <domain>0</domain><bus>3</bus><slot>0</slot><function>1</function><product id='0x16af'/><vendor id='0x14e4'/>
  </capability></device>
  <network><name>vfs</name><forward mode='hostdev' managed='yes'>
    <address type='pci' domain='0x0000' bus='0x03' slot='0x10' function='0x0'/>
    <address type='pci' domain='0x0000' bus='0x03' slot='0x10' function='0x2'/></forward></network>
  <network><name>plain</name><bridge name='virbr7'/></network>
</node>`

// listingHosts are two hosts of libvirt's test driver: one lists devices, the other doesn't.
func listingHosts(t *testing.T) *inventory.Inventory {
	t.Helper()

	file := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(file, []byte(hostDevices), 0o600); err != nil {
		t.Fatal(err)
	}

	hosts, err := inventory.New(map[string]inventory.HostConfig{
		"lists": {URI: "test://" + file}, "silent": {URI: "test:///default"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})

	return hosts
}

// A host that lists its devices lacks those that it doesn't list, even if it has none of their kind. A host that lists
// no devices isn't refused.
func TestLacksDevice(t *testing.T) {
	t.Parallel()

	hosts := listingHosts(t)

	for part, lacked := range map[domain.HostPart]bool{
		{Kind: domain.PCIDevice, ID: "0000:03:00.1"}:                          false,
		{Kind: domain.PCIDevice, ID: "0000:65:00.0"}:                          true,
		{Kind: domain.USBDevice, ID: "1234:abcd"}:                             true,
		{Kind: domain.SCSIDevice, ID: "0:0:1:0"}:                              true,
		{Kind: domain.MdevDevice, ID: "11111111-2222-3333-4444-555555555555"}: true,
		{Kind: domain.VDPADevice, ID: "/dev/vhost-vdpa-0"}:                    true,
		{Kind: domain.VDPADevice, ID: "/dev/vdpa/fast"}:                       false,
		{Kind: domain.VsockAddress, ID: "77"}:                                 false,
	} {
		if got := hosts.Host("lists").LacksDevice(t.Context(), part); got != lacked {
			t.Errorf("the host that lists devices lacks %v: %t", part, got)
		}

		if hosts.Host("silent").LacksDevice(t.Context(), part) {
			t.Errorf("the host that lists none lacks %v", part)
		}
	}
}

// A host is asked which devices a network hands out, and which USB device is where.
func TestHandedOut(t *testing.T) {
	t.Parallel()

	host := listingHosts(t).Host("lists")
	want := map[string][]string{"vfs": {"0000:03:10.0", "0000:03:10.2"}}

	for range 2 { // the second answer knows which networks are plain
		if got := host.HandedOut(t.Context(), []string{"plain", "absent"}); got != nil {
			t.Errorf("ordinary networks hand out %v", got)
		}

		got := host.HandedOut(t.Context(), []string{"plain", "vfs"})
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("they hand out %v", got)
		}
	}

	if got := host.USBDevices(t.Context()); len(got) > 0 {
		t.Errorf("it has %v", got)
	}
}

// A running VM gets the device of its transient interface on the target too, so the target has it. Other devices of the
// host prevent the move anyway. A host that lists no devices isn't refused.
func TestFailoverBlockers(t *testing.T) {
	t.Parallel()

	hosts := listingHosts(t)
	transient := domain.Values{"teaming.type": "transient", "teaming.persistent": "backup"}

	for name, tt := range map[string]struct {
		host string
		nic  domain.Interface
		want []string
	}{
		"it has the card": {"lists", domain.Interface{HostDevice: "0000:03:00.1", Values: transient}, nil},
		"it has another": {
			"lists",
			domain.Interface{HostDevice: "0000:03:00.2", Values: transient},
			[]string{`interfaces.fast.hostdev: host "lists" has no pci device 0000:03:00.2`},
		},
		"the interface stays": {"lists", domain.Interface{HostDevice: "0000:03:00.2"}, nil},
		"it has no vDPA device": {
			"lists",
			domain.Interface{VDPA: "/dev/vhost-vdpa-0", Values: transient},
			[]string{`interfaces.fast.vdpa: host "lists" has no vDPA device /dev/vhost-vdpa-0`},
		},
		"it may be a link":           {"lists", domain.Interface{VDPA: "/dev/vdpa/fast", Values: transient}, nil},
		"a card, no devices":         {"silent", domain.Interface{HostDevice: "0000:03:00.2", Values: transient}, nil},
		"a vDPA device, no devices":  {"silent", domain.Interface{VDPA: "/dev/vhost-vdpa-0", Values: transient}, nil},
		"a network of the transient": {"lists", domain.Interface{Network: "sriov", Values: transient}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := &domain.Spec{Interfaces: map[string]domain.Interface{"backup": {Network: "lan"}, "fast": tt.nic}}

			var got []string
			for _, b := range placement.FailoverBlockers(t.Context(), hosts.Host(tt.host), spec) {
				got = append(got, b.Attribute+": "+b.Message)
			}

			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
