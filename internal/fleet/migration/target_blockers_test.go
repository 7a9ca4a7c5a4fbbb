package migration

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest that has its host's own CPU finds the same only where that has the same name, which doesn't prove it. Without
// KVM it never had that of its host.
func TestToTarget_cpuOfTheHostItself(t *testing.T) {
	t.Parallel()
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, tt := range map[string]struct {
		state    libvirt.DomainState
		kind, to string
		want     []string
	}{
		"another":       {libvirt.Running, "kvm", "EPYC", []string{CPUModeNotLiveMigratable + " False"}},
		"the same name": {libvirt.Running, "kvm", "Skylake", []string{CPUModeNotLiveMigratable + " Unknown"}},
		"emulated":      {libvirt.Running, "qemu", "EPYC", nil},
		"off":           {libvirt.Shutoff, "kvm", "EPYC", nil},
	} {
		for _, mode := range []string{"host-passthrough", "maximum"} {
			m := VM{State: tt.state, Mobility: domain.Mobility{Type: tt.kind, CPU: "<cpu/>", CPUMode: mode}}
			var found blockerList
			preflight{
				vm: m, target: target, from: &libvirt.HostInfo{CPUModel: "Skylake"}, to: &libvirt.HostInfo{CPUModel: tt.to},
			}.checkCPU(t.Context(), &found)
			if got := reasons(found); !slices.Equal(got, tt.want) {
				t.Errorf("%s, %s: %q, want %q", name, mode, got, tt.want)
			}
		}
	}
}

// An interface of a network that is a pool of the host's devices has one of them, though the definition that is moved
// only names the network. Off, the VM gets another device on the target.
func TestCheckNetwork_poolOfHostDevices(t *testing.T) {
	t.Parallel()
	pool := libvirt.Network{Active: true, ForwardMode: "hostdev"}
	bridge := libvirt.Network{Active: true, ForwardMode: "bridge"}
	const vf, failover = `<interface type='network'><source network='n'/></interface>`,
		`<interface type='network'><source network='n'/><teaming type='transient' persistent='ua-net-a'/></interface>`
	const grouped = `<interface type='network'><source network='n' portgroup='eng'/></interface>`
	groups := bridge
	groups.XML = "<network><name>n</name><portgroup name='ops'/><portgroup name='eng'/></network>"
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	for name, tt := range map[string]struct {
		state       libvirt.DomainState
		device      string
		here, there libvirt.Network
		noIOMMU     bool // on the target
		want        []string
	}{
		"on both hosts":   {libvirt.Running, vf, pool, pool, true, []string{HostDeviceNotLiveMigratable + " False"}},
		"at the source":   {libvirt.Running, vf, pool, bridge, true, []string{HostDeviceNotLiveMigratable + " False"}},
		"on the target":   {libvirt.Running, vf, bridge, pool, false, []string{HostDeviceNotLiveMigratable + " False"}},
		"on none":         {libvirt.Running, vf, bridge, bridge, true, nil},
		"with a failover": {libvirt.Running, failover, pool, pool, false, nil},
		"off":             {libvirt.Shutoff, vf, pool, pool, true, nil},
		"a group of both": {libvirt.Running, grouped, groups, groups, false, nil},
		"a group of none": {libvirt.Running, grouped, bridge, bridge, false, nil},
		"a port group that the target lacks": {
			libvirt.Shutoff, grouped, groups, bridge, false, []string{NetworkNotAvailable + " False"},
		},
		"with a failover, without an IOMMU": {
			libvirt.Running, failover, pool, pool, true, []string{HostResourcesNotAvailable + " False"},
		},
	} {
		m := VM{State: tt.state, Mobility: facts(t, "", tt.device)}
		var found blockerList
		preflight{
			vm: m, target: target, to: &libvirt.HostInfo{LacksIOMMU: tt.noIOMMU}, options: Options{}.WithDefaults(),
		}.checkNetwork(&found, m.Mobility.Interfaces[0], map[string]libvirt.Network{"n": tt.here},
			map[string]libvirt.Network{"n": tt.there})
		if got := reasons(found); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestCheckNetwork_lostPortGroup: a running VM keeps the settings of a port group that its network has lost on both
// hosts, and would lose them by a move. It loses nothing if it was started without them, or if the network itself gives
// them.
func TestCheckNetwork_lostPortGroup(t *testing.T) {
	t.Parallel()
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	const vlan = "<vlan><tag id='7'/></vlan>"
	for name, tt := range map[string]struct {
		own, live, network string
		state              libvirt.DomainState
		want               []string
	}{
		"started with it":    {"", vlan, "", libvirt.Running, []string{NetworkNotAvailable + " False"}},
		"started without it": {"", "", "", libvirt.Running, nil},
		"its own":            {vlan, vlan, "", libvirt.Running, nil},
		"of the network":     {"", vlan, vlan, libvirt.Running, nil},
		"off":                {"", "", "", libvirt.Shutoff, nil},
	} {
		nic := func(kind, settings string) string {
			return "<interface type='" + kind + "'><source network='n' portgroup='eng'/>" + settings + "</interface>"
		}
		m := VM{State: tt.state, Mobility: facts(t, "", nic("network", tt.own))}
		if err := readLive(&m.Mobility, "<domain><devices>"+nic("bridge", tt.live)+"</devices></domain>"); err != nil {
			t.Fatal(err)
		}
		n := map[string]libvirt.Network{"n": {
			Name: "n", Active: true, ForwardMode: "bridge", XML: "<network>" + tt.network + "</network>",
		}}
		var found blockerList
		preflight{vm: m, target: target, to: &libvirt.HostInfo{}, options: Options{}.WithDefaults()}.checkNetwork(
			&found, m.Mobility.Interfaces[0], n, n)
		if got := reasons(found); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// What a socket or a device of another kind leads to on the target isn't known: the plan warns and doesn't refuse.
func TestCheckInterfaces_whatIsNotKnown(t *testing.T) {
	t.Parallel()
	target, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	for device, want := range map[string][]string{
		`<interface type='vhostuser'><source type='unix' path='/run/web.sock' mode='client'/></interface>`: {
			InterfaceNotLiveMigratable + " Unknown",
		},
		`<interface type='ethernet'/>`: {InterfaceNotLiveMigratable + " Unknown"},
		`<interface type='user'/>`:     nil,
		`<interface type='user'><filterref filter='clean-traffic'/></interface>`: {NetworkNotAvailable + " Unknown"},
	} {
		var found blockerList
		m := VM{State: libvirt.Running, Mobility: facts(t, "", device)}
		preflight{vm: m, target: target, options: Options{}.WithDefaults()}.checkInterfaces(t.Context(), &found)
		if got := reasons(found); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
		for _, b := range found {
			if key := m.Mobility.Interfaces[0].Key; strings.TrimSuffix(b.Attribute, ".filter.name") != "interfaces."+key {
				t.Errorf("%s: it names %q", device, b.Attribute)
			}
		}
	}
}

// What the target said of the files that QEMU opens decides. Of what it didn't say, its storage pools are asked.
func TestCheckBootFiles(t *testing.T) {
	t.Parallel()
	open := func(name string) *libvirt.Host {
		h, err := libvirt.Open(libvirt.Config{Name: name, URI: "test:///default"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return h
	}
	source, target := open("kvm1"), open("kvm2")
	m := VM{State: libvirt.Running, Mobility: domain.Mobility{
		Files: []string{"/boot/vmlinuz", "/boot/initrd"}, Loader: "/fw/code.fd", Ignition: "/ignition.json",
		Values: domain.Values{fwCfgFiles: domain.FormatTexts(map[string]string{"opt/a": "/etc/a"})},
	}}
	opened := m.OpenedFiles()
	if !slices.Equal(opened, []string{"/boot/initrd", "/boot/vmlinuz", "/etc/a", "/fw/code.fd", "/ignition.json"}) {
		t.Fatalf("QEMU opens %q", opened)
	}
	has, lacks := map[string]bool{}, map[string]bool{}
	for _, file := range opened {
		has[file], lacks[file] = true, false
	}
	for name, tt := range map[string]struct {
		there  map[string]bool
		status status.ConditionStatus
		n      int
	}{
		"has them":   {has, "", 0},
		"lacks them": {lacks, status.False, len(opened)},
		"is silent":  {nil, status.Unknown, len(opened) - 1}, // not the firmware
	} {
		vm := m
		vm.TargetFiles = func() map[string]bool { return tt.there }
		var found blockerList
		preflight{vm: vm, source: source, target: target}.checkBootFiles(t.Context(), &found)
		if len(found) != tt.n {
			t.Errorf("%s: %+v", name, found)
		}
		for _, b := range found {
			if b.Status != tt.status || b.Reason != HypervisorNotCompatible || !strings.Contains(b.Remedy, "kvm2") {
				t.Errorf("%s: %+v", name, b)
			}
		}
	}
}

// TestCheckPaths_vsock: the host's device for vsock is needed by VMs that have one, and only then asked for. Whether
// the VM runs or is off, its lack is a blocker with the remedy that the plan of a new VM names.
func TestCheckPaths_vsock(t *testing.T) {
	t.Parallel()
	read := func(devices string) domain.Mobility {
		d, err := domain.Parse("<domain type='kvm'><name>vm</name><devices>" + devices + "</devices></domain>")
		if err != nil {
			t.Fatal(err)
		}
		return d.Mobility()
	}
	if opened := (VM{Mobility: read("")}).OpenedFiles(); len(opened) > 0 {
		t.Errorf("without vsock the hosts are asked for %q", opened)
	}
	for _, state := range []libvirt.DomainState{libvirt.Running, libvirt.Shutoff} {
		vm := VM{State: state, Mobility: read("<vsock model='virtio'><cid auto='yes'/></vsock>")}
		if opened := vm.OpenedFiles(); !slices.Equal(opened, []string{domain.VhostVsock}) {
			t.Fatalf("QEMU needs %q", opened)
		}
		for name, there := range map[string]map[string]bool{
			"has it": {domain.VhostVsock: true}, "lacks it": {domain.VhostVsock: false}, "is silent": nil,
		} {
			vm.TargetFiles = func() map[string]bool { return there }
			var found blockerList
			preflight{vm: vm, source: &libvirt.Host{}, target: &libvirt.Host{}}.checkPaths(&found)
			if lacks := name == "lacks it"; len(found) > 0 != lacks {
				t.Errorf("%s, %s: %+v", state, name, found)
			} else if lacks && (found[0].Reason != HostResourcesNotAvailable || found[0].Status != status.False ||
				found[0].Attribute != domain.Vsock || found[0].Remedy != domain.VsockRemedy) {
				t.Errorf("%s: %+v", state, found[0])
			}
		}
	}
}

// A directory that a VM shares, a device that QEMU opens, and a block device that the VM has limits for are needed
// where it is moved while it is off, too. A host that can't be asked for them isn't refused.
func TestCheckPaths(t *testing.T) {
	t.Parallel()
	source, target := &libvirt.Host{}, &libvirt.Host{}
	vm := VM{State: libvirt.Shutoff, Mobility: domain.Mobility{
		Filesystems: []domain.MobileFilesystem{
			{Attribute: "devices.filesystems.data", Target: "share", Source: "/srv"}, {Target: "block"},
		},
		Values: domain.Values{
			domain.BlkioDevices: domain.FormatTable(map[string]domain.Row{"/dev/b": {"weight": "200"}}),
		},
		Devices: []domain.MobilePath{{Attribute: "devices.serials.a.path", What: "serial device", Path: "/dev/ttyS2"}},
	}}
	if opened := vm.OpenedFiles(); !slices.Equal(opened, []string{"/dev/b", "/dev/ttyS2", "/srv"}) {
		t.Fatalf("QEMU needs %q", opened)
	}
	for name, tt := range map[string]struct {
		there map[string]bool
		want  []string
	}{
		"has them": {map[string]bool{"/srv": true, "/dev/b": true, "/dev/ttyS2": true}, nil},
		"lacks them": {
			map[string]bool{"/srv": false, "/dev/b": false, "/dev/ttyS2": false},
			[]string{`directory "/srv"`, `serial device "/dev/ttyS2"`, `block device "/dev/b"`},
		},
		"is silent": {nil, nil},
	} {
		vm.TargetFiles = func() map[string]bool { return tt.there }
		var found blockerList
		preflight{vm: vm, source: source, target: target}.checkBootFiles(t.Context(), &found)
		if len(found) != len(tt.want) {
			t.Errorf("%s: %+v", name, found)
			continue
		}
		for i, b := range found {
			if b.Reason != HostResourcesNotAvailable || b.Status != status.False || !strings.HasSuffix(b.Message, tt.want[i]) {
				t.Errorf("%s: %+v", name, b)
			}
		}
		if len(found) > 0 && found[0].Attribute != "devices.filesystems.data" {
			t.Errorf("%s: %+v", name, found[0])
		}
	}
}
