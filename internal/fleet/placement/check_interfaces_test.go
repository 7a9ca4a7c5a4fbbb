package placement

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// portNetworks are networks of a host of libvirt's test driver. One of them gives interfaces a virtual port. The host
// has the bridge of the other one.
const portNetworks = `<node>
  <network><name>ovs</name><forward mode='bridge'/><bridge name='ovsbr'/><virtualport type='openvswitch'/></network>
  <network><name>plain</name><bridge name='virbr7'/></network>
  <interface type='ethernet' name='virbr7'><start mode='onboot'/></interface>
</node>`

// hostWithPorts is a host of libvirt's test driver with those networks.
func hostWithPorts(t *testing.T) *inventory.Host {
	t.Helper()

	file := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(file, []byte(portNetworks), 0o600); err != nil {
		t.Fatal(err)
	}

	hosts, err := inventory.New(map[string]inventory.HostConfig{"ports": {URI: "test://" + file}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})

	return hosts.Host("ports")
}

// withInterface returns the spec of a VM with one interface, in the network plain.
func withInterface(t *testing.T, key string) domain.Spec {
	t.Helper()

	d, err := domain.Parse(`<domain type="kvm"><name>a</name><memory>1</memory><devices><interface type="network">
		<mac address="52:54:00:00:00:01"/><source network="plain"/><model type="virtio"/>
		<alias name="ua-net-` + key + `"/></interface></devices></domain>`)
	if err != nil {
		t.Fatal(err)
	}

	return d.Spec()
}

// The interface of a running VM is checked, whatever key it has there: its key may have been changed since the VM was
// started, and the same change may change it again.
func TestFitsLiveConnections_followsKeys(t *testing.T) {
	t.Parallel()

	host := hostWithPorts(t)
	a := inventory.Reply{Host: host, Info: &libvirt.HostInfo{LibvirtVersion: libvirt.Version{Major: 9}}}
	live, defined := withInterface(t, "lan"), withInterface(t, "wan")
	live.FixedVirtualPorts = true

	const mac = "52:54:00:00:00:01"

	for name, tt := range map[string]struct {
		defined  *domain.Spec
		key, mac string
	}{
		"as it was started":      {&live, "lan", ""},
		"renamed before":         {&defined, "wan", ""},
		"renamed before and now": {&defined, "uplink", mac},
		"renamed now":            {&live, "wan", mac},
		"renamed and named back": {&defined, "lan", mac},
		"transient":              {nil, "lan", ""},
	} {
		vm := &inventory.VM{Active: true, State: libvirt.Running, On: host, PersistentSpec: tt.defined, LiveSpec: &live}
		nic := domain.Interface{Network: "ovs", MAC: tt.mac}
		problems := fitsLiveConnections(t.Context(), a, vm, Desired{
			Spec: domain.Spec{Interfaces: map[string]domain.Interface{tt.key: nic}},
		})

		if len(problems) != 1 || problems[0].Attribute != "interfaces."+tt.key+".network" ||
			!strings.Contains(problems[0].Detail, "openvswitch") {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// A host is asked once about the bridge of a network or an interface, however many VMs are connected to it. It is asked
// again about a bridge that it lacks, which may be created at any time.
func TestFitsNetworks_asksOnceAboutABridge(t *testing.T) {
	t.Parallel()

	const vms = 4

	for name, tt := range map[string]struct {
		nic      domain.Interface
		problems int // of each VM
		asked    int
	}{
		"network":            {domain.Interface{Network: "plain"}, 0, 1},
		"bridge":             {domain.Interface{Bridge: "virbr7"}, 0, 1},
		"direct":             {domain.Interface{Direct: "virbr7"}, 0, 1},
		"network without it": {domain.Interface{Network: "ovs"}, 1, vms},
		"missing bridge":     {domain.Interface{Bridge: "ovsbr"}, 1, vms},
		"refused VLAN": {
			domain.Interface{Network: "plain", Values: map[string]string{"vlan.tags": "7"}}, 1, 1,
		},
	} {
		host := hostWithPorts(t)
		// A host of libvirt's test driver isn't asked about a network's bridge.
		a := inventory.Reply{Host: host, Info: &libvirt.HostInfo{Driver: "QEMU"}}

		for range vms {
			d := Desired{Spec: domain.Spec{Interfaces: map[string]domain.Interface{"lan": tt.nic}}}
			if problems := fitsNetworks(t.Context(), a, d); len(problems) != tt.problems {
				t.Errorf("%s: %+v", name, problems)
			}
		}

		calls := host.Conn.Calls()
		if calls["virInterfaceLookupByName"] != tt.asked {
			t.Errorf("%s: %v", name, calls)
		}

		if calls["virConnectListAllNetworks"] > 2 { // all of them, and the active ones
			t.Errorf("%s: the networks were listed for each VM: %v", name, calls)
		}
	}
}

// A host is asked once about a network that it has. It is asked again about those that it lacks, which may
// be created at any time, and about all once this process has changed one.
func TestFitsNetworks_asksAgain(t *testing.T) {
	t.Parallel()

	host := hostWithPorts(t)
	a := inventory.Reply{Host: host, Info: &libvirt.HostInfo{}}
	fits := func(network string) []inventory.Problem {
		return fitsNetworks(t.Context(), a, Desired{Spec: domain.Spec{Interfaces: map[string]domain.Interface{
			"lan": {Network: network},
		}}})
	}
	listed := func() int { return host.Conn.Calls()["virConnectListAllNetworks"] / 2 }

	for i, step := range []struct {
		network string
		fits    bool
		before  func() error
		listed  int
	}{
		{network: "plain", fits: true, listed: 1},
		{network: "plain", fits: true, listed: 1},
		{network: "new", listed: 2},
		{network: "new", listed: 3},
		{"new", true, func() error {
			return errors.Join(host.Conn.DefineNetwork(t.Context(), "<network><name>new</name></network>"),
				host.Conn.StartNetwork(t.Context(), "new"))
		}, 4},
		{network: "plain", fits: true, listed: 4},
		{"plain", false, func() error {
			return errors.Join(host.Conn.StopNetwork(t.Context(), "plain"), host.Conn.UndefineNetwork(t.Context(), "plain"))
		}, 5},
	} {
		if step.before != nil {
			if err := step.before(); err != nil {
				t.Fatal(err)
			}
		}

		if problems := fits(step.network); len(problems) == 0 != step.fits || listed() != step.listed {
			t.Errorf("step %d: the networks were listed %d times: %+v", i, listed(), problems)
		}
	}
}
