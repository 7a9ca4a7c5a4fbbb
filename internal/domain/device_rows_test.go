package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deviceRows are the attributes of devices, with the least device that can have them and where it has them.
var deviceRows = []struct {
	rows    []Attribute
	xml     string
	declare func(Values) Spec
	read    func(Spec) Values
}{
	{
		DiskRows, `<disk type="file" device="disk"><source file="/d"/><target dev="vda" bus="virtio"/></disk>`,
		func(f Values) Spec {
			return Spec{Disks: map[string]Disk{"vda": {Source: DiskSource{File: "/d"}, Values: f}}}
		},
		func(s Spec) Values { return s.Disks["vda"].Values },
	},
	{
		slices.DeleteFunc(slices.Clone(InterfaceRows), ofBackend),
		`<interface type="network"><mac address="52:54:00:00:00:01"/><source network="n"/></interface>`,
		func(f Values) Spec { return Spec{Interfaces: map[string]Interface{"net0": {Network: "n", Values: f}}} },
		func(s Spec) Values { return s.Interfaces["net0"].Values },
	},
	{
		backendRows, `<interface type="user"><mac address="52:54:00:00:00:01"/></interface>`,
		func(f Values) Spec { return Spec{Interfaces: map[string]Interface{"net0": {User: true, Values: f}}} },
		func(s Spec) Values { return s.Interfaces["net0"].Values },
	},
}

func ofBackend(a Attribute) bool { return strings.HasPrefix(a.Name, "backend.") }

// deviceValues are values that the tests declare of an attribute, and what else it needs.
func deviceValues(a Attribute) (values []string, needs Values) {
	name := a.Name
	switch {
	case name == "wwn":
		return []string{"5000c50015ea71ad"}, nil
	case name == "virtual_port.type":
		return a.Values, Values{"virtual_port.interface_id": "09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4e"}
	case name == EncryptionSecret:
		return []string{"5a1bb6ff-3f0b-4c5e-9d3a-000000000002"}, nil
	case name == "rotation_rate":
		return []string{"1", "7200"}, nil
	case name == "logical_block_size":
		return []string{"4096"}, Values{"physical_block_size": "8192"}
	case name == "physical_block_size":
		return []string{"4096"}, nil
	case name == "mtu":
		return []string{"1400"}, nil
	case strings.HasSuffix(name, "_id") && a.Kind == Text && name != "virtual_port.profile_id":
		return []string{"09b11c53-8b5c-4eeb-8f00-d84eaa0aaa4e"}, nil
	case strings.HasSuffix(name, "_max_length"):
		burst := strings.TrimSuffix(name, "_length")
		return []string{"2"}, Values{burst: "9", strings.TrimSuffix(burst, "_max"): "5"}
	case strings.HasSuffix(name, "_sec_max"):
		return []string{"7"}, Values{strings.TrimSuffix(name, "_max"): "5"}
	case name == "io_tune.size_iops_sec":
		return []string{"7"}, Values{"io_tune.total_iops_sec": "5"}
	case name == "io_tune.group_name":
		return []string{"slow"}, Values{"io_tune.read_iops_sec": "1"}
	case strings.HasPrefix(name, "vlan.native_"):
		values = map[string][]string{"vlan.native_tag": {"7"}, "vlan.native_mode": {"tagged", "untagged"}}[name]
		return values, Values{"vlan.tags": "7", "vlan.native_tag": "7"}
	case strings.HasSuffix(name, "_queue_size"):
		return []string{"512"}, nil
	case name == "backend.log_file":
		return []string{"/var/log/passt.log"}, Values{"backend.type": "passt"}
	case name == "backend.tcp_ports":
		return []string{
			`["2022:22"]`, `["all"]`, `["192.0.2.7%eth0/5000-5020:6000,~5010-5015","%eth1/all","2001:db8::1/80"]`,
		}, Values{"backend.type": "passt"}
	case name == "backend.udp_ports":
		return []string{`["53"]`}, Values{"backend.type": "passt"}
	case name == "backend.device":
		return []string{"eth0"}, Values{"backend.type": "passt"}
	case name == "teaming.type":
		return []string{"persistent"}, nil
	case name == "teaming.persistent":
		return []string{"backup", "ua-backup"}, Values{"teaming.type": "transient"}
	case name == "filter.parameters":
		return []string{"IP=10.0.0.1\n", "IP=10.0.0.1,10.0.0.2\n"}, Values{"filter.name": "f"}
	case name == "vlan.trunk":
		return []string{"yes"}, Values{"vlan.tags": "7,8"}
	case strings.HasPrefix(name, "bandwidth.") && !strings.HasSuffix(name, ".average") && name != inboundFloor:
		return []string{"9"}, Values{name[:strings.LastIndexByte(name, '.')] + ".average": "5"}
	case a.Kind == Text && a.Values == nil:
		return []string{"a & <b>"}, nil
	}
	return triedValues(name, a), nil
}

func eachDeviceRow(f func(a Attribute, xml string, declared Values, spec func(Values) Spec, read func(Spec) Values)) {
	for _, kind := range deviceRows {
		for _, a := range kind.rows {
			values, needs := deviceValues(a)
			for _, value := range values {
				declared := maps.Clone(needs)
				if declared == nil {
					declared = Values{}
				}
				declared[a.Name] = value
				f(a, kind.xml, declared, kind.declare, kind.read)
			}
		}
	}
}

// TestDeviceRows_comeAndGo: every value of every attribute is accepted, written, read back and planned no more; what
// says that nothing is there removes it without a trace; not declared, it stays.
func TestDeviceRows_comeAndGo(t *testing.T) {
	t.Parallel()
	count := 0
	eachDeviceRow(func(a Attribute, xml string, declared Values, spec func(Values) Spec, read func(Spec) Values) {
		count++
		d := parse(t, `<domain type="qemu"><name>n</name><devices>`+xml+`</devices></domain>`)
		before := d.Canonical()
		want := spec(declared)
		if problems := want.Validate(); len(problems) > 0 {
			t.Errorf("%v: %v", declared, problems)
		}
		if changes := Changes(d.Spec(), want); len(changes) != len(declared) || changes[0].Why == "" {
			t.Errorf("%v: changes %v", declared, changes)
		}
		for range 2 {
			if err := d.Apply(want); err != nil {
				t.Fatalf("%v: %v", declared, err)
			}
		}
		if got := read(d.Spec()); got[a.Name] != declared[a.Name] {
			t.Errorf("%v is read as %v:\n%s", declared, got, output(t, d))
		}
		if changes := Changes(d.Spec(), want); len(changes) > 0 {
			t.Errorf("%v: still to be changed: %v", declared, changes)
		}
		once := d.Canonical()
		if err := d.Apply(spec(nil)); err != nil || d.Canonical() != once {
			t.Errorf("%v isn't left alone: %v", declared, err)
		}
		gone := Values{}
		for name := range declared {
			gone[name] = ""
		}
		if err := d.Apply(spec(gone)); err != nil {
			t.Fatalf("%v: %v", declared, err)
		}
		if diff := cmp.Diff(before, d.Canonical()); diff != "" {
			t.Errorf("%v leaves something:\n%s", declared, diff)
		}
	})
	if count < 70 {
		t.Errorf("only %d values were tried", count)
	}
}

// TestDeviceRows_live: what is called live is one call, and what isn't has no call.
func TestDeviceRows_live(t *testing.T) {
	t.Parallel()
	eachDeviceRow(func(a Attribute, xml string, declared Values, spec func(Values) Spec, _ func(Spec) Values) {
		d := parse(t, `<domain type="qemu" id="1"><name>n</name><devices>`+xml+`</devices></domain>`)
		steps, err := LiveSteps(d, nil, nil, spec(declared))
		if err != nil {
			t.Errorf("%v: %v", declared, err)
		}
		changes := Changes(d.Spec(), spec(declared))
		live := slices.ContainsFunc(changes, func(c Change) bool { return c.Live })
		if live != (len(steps) == 1) || len(steps) > 1 {
			t.Errorf("%v: changes %v, steps %v", declared, changes, steps)
		}
		for _, s := range steps {
			if s.Kind != a.Live && a.Live != 0 {
				t.Errorf("%v: step %v", declared, s)
			}
		}
	})
}

// TestDeviceRows_refuseWhatIsWrong: what libvirt would refuse, or what can't work, is refused before anything is asked.
func TestDeviceRows_refuseWhatIsWrong(t *testing.T) {
	t.Parallel()
	disk := func(f Values) Spec {
		return Spec{Disks: map[string]Disk{"d": {Source: DiskSource{File: "/d"}, Values: f}}}
	}
	nic := func(f Values) Spec { return Spec{Interfaces: map[string]Interface{"n": {Bridge: "b", Values: f}}} }
	for name, spec := range map[string]Spec{
		"interfaces.n.vlan.tags": nic(Values{"vlan.tags": "4096"}), "disks.d.io": disk(Values{"io": "fast"}),
		"disks.d.wwn": disk(Values{"wwn": "5"}), "disks.d.physical_block_size": disk(Values{"physical_block_size": "1000"}),
		"disks.d.vendor":        disk(Values{"vendor": "more than eight"}),
		"disks.d.rotation_rate": disk(Values{"rotation_rate": "100"}),
		"disks.d.io_tune.total_bytes_sec": disk(Values{
			"io_tune.total_bytes_sec": "5", "io_tune.read_bytes_sec": "5",
		}),
		"disks.d.io_tune.read_iops_sec_max": disk(Values{
			"io_tune.read_iops_sec": "5", "io_tune.read_iops_sec_max": "5",
		}),
		// QEMU doesn't start with these.
		"disks.d.io_tune.write_bytes_sec_max": disk(Values{"io_tune.write_bytes_sec_max": "5"}),
		"disks.d.io_tune.size_iops_sec":       disk(Values{"io_tune.size_iops_sec": "4096"}),
		"disks.d.logical_block_size":          disk(Values{"logical_block_size": "4096"}),
		"disks.d.io_tune.total_iops_sec_max_length": disk(Values{
			"io_tune.total_iops_sec": "5", "io_tune.total_iops_sec_max": "0", "io_tune.total_iops_sec_max_length": "5",
		}),
		"disks.d.io_tune.read_iops_sec_max_length": disk(Values{"io_tune.read_iops_sec_max_length": "5"}),
		"disks.d.io_tune.group_name":               disk(Values{"io_tune.group_name": "g"}),
		"interfaces.n.mtu":                         nic(Values{"mtu": "67"}),
		"interfaces.n.port_group":                  nic(Values{"port_group": "p"}),
		"interfaces.n.filter.parameters":           nic(Values{"filter.parameters": "IP=1\n"}),
		"interfaces.n.bandwidth.inbound.peak":      nic(Values{"bandwidth.inbound.peak": "5"}),
		"interfaces.n.bandwidth.inbound.floor": {Interfaces: map[string]Interface{"n": {Bridge: "b", Values: Values{
			inboundFloor: "5",
		}}}},
		"interfaces.n.vlan.native_tag":           nic(Values{"vlan.tags": "1", "vlan.native_tag": "2"}),
		"interfaces.n.virtual_port.interface_id": nic(Values{"virtual_port.interface_id": "x"}),
		"interfaces.n.direct.mode":               {Interfaces: map[string]Interface{"n": {Direct: "eth0"}}},
		"cpu.pin":                                {Values: Values{"cpu.pin": "a=1\n"}},
		"cpu.emulator_pin":                       {Values: Values{"cpu.emulator_pin": "5-"}},
		"cpu.quota":                              {Values: Values{"cpu.quota": "999"}},
		"memory.huge_pages":                      {Values: Values{"memory.huge_pages": "2 MiB"}},
		cellPages:                                {Values: Values{cellPages: "0=default\n"}},
	} {
		if problems := spec.Validate(); !slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == name }) {
			t.Errorf("%s isn't refused: %v", name, problems)
		}
	}
}

// TestDeviceRows_echoes: what a network gives a running interface isn't its own, and no restart is needed for it.
func TestDeviceRows_echoes(t *testing.T) {
	t.Parallel()
	device := `<mac address="52:54:00:00:00:01"/><source network="n"%s/>%s</interface></devices></domain>`
	persistent := parse(t, `<domain><devices><interface type="network">`+strings.NewReplacer("%s", "").Replace(device))
	live := parse(t, `<domain id="1"><devices><interface type="bridge">`+strings.Replace(strings.Replace(device, "%s",
		` bridge="virbr0"`, 1), "%s", `<mtu size="1400"/><bandwidth><inbound average="5"/></bandwidth>`, 1))
	if pending := Pending(live.Spec(), persistent.Spec()); len(pending) > 0 {
		t.Error(pending)
	}
	want := persistent.Spec()
	want.Interfaces["net0"] = Interface{Network: "n", MAC: "52:54:00:00:00:01", Values: Values{"mtu": "1500"}}
	if err := persistent.Apply(want); err != nil {
		t.Fatal(err)
	}
	if pending := Pending(live.Spec(), persistent.Spec()); len(pending) != 1 || pending[0].Path != "interfaces.net0.mtu" {
		t.Error(pending)
	}
}

// TestTuned: libvirt forgets the limits of a kind that aren't given anew.
func TestTuned(t *testing.T) {
	t.Parallel()
	got := ParseTexts(ioTuneLimits(Values{"io_tune.read_bytes_sec": "5", "io_tune.group_name": "g"},
		Values{"io_tune.write_bytes_sec": "7", "io_tune.group_name": "", "io": "native"}))
	if diff := cmp.Diff(map[string]string{"read_bytes_sec": "5", "write_bytes_sec": "7"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestDeviceRows_driverIsVirtios: libvirt drops what the driver is told of any other model, and each plan would have it
// again. It is refused as soon as the model is known: in the declaration, or in the definition that it changes.
func TestDeviceRows_driverIsVirtios(t *testing.T) {
	t.Parallel()
	for model, refused := range map[string]bool{"virtio": false, "virtio-transitional": false, "e1000e": true} {
		bare := map[string]Interface{"net0": {Network: "n", Model: model}}
		there := parse(t, leastDefinition)
		if err := there.Apply(Spec{Interfaces: bare}); err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"queues": "2", "driver.tx_queue_size": "256", "driver.event_idx": "no"} {
			want := Spec{Interfaces: map[string]Interface{
				"net0": {Network: "n", Model: model, Values: Values{name: value}},
			}}
			if problems := want.Validate(); (len(problems) > 0) != refused {
				t.Errorf("%s of %s: %v", name, model, problems)
			}
			want.Interfaces["net0"] = Interface{Network: "n", Values: Values{name: value}}
			if err := there.Clone().Apply(want); (err != nil) != refused {
				t.Errorf("%s of %s, which the definition has: %v", name, model, err)
			}
		}
	}
}

// TestDeviceRows_filterIsOfBridges: libvirt drops the filter of any other connection.
func TestDeviceRows_filterIsOfBridges(t *testing.T) {
	t.Parallel()
	filter := Values{"filter.name": "clean-traffic"}
	for name, nic := range map[string]Interface{
		"network": {Network: "n"}, "bridge": {Bridge: "b"}, "direct": {Direct: "eth0", DirectMode: "bridge"},
		"hostdev": {HostDevice: "0000:03:00.1"}, "vdpa": {VDPA: "/dev/v"},
		"vhostuser": {VHostUser: "/run/s", VHostUserMode: "client"},
	} {
		refused := name != "network" && name != "bridge"
		there := parse(t, leastDefinition)
		if err := there.Apply(Spec{Interfaces: map[string]Interface{"n": nic}}); err != nil {
			t.Fatal(err)
		}
		nic.Values = filter
		want := Spec{Interfaces: map[string]Interface{"n": nic}}
		if problems := want.Validate(); (len(problems) > 0) != refused {
			t.Errorf("%s: %v", name, problems)
		}
		if err := there.Apply(want); (err != nil) != refused {
			t.Errorf("%s, which the definition has: %v", name, err)
		}
	}
}

// TestInterface_isKnownByItsAddress: NICs that came without names are keyed by their order. If one goes, or another
// tool exchanges them, those that are declared with their addresses stay as they are.
func TestInterface_isKnownByItsAddress(t *testing.T) {
	t.Parallel()
	nic := func(mac, network string) string {
		return fmt.Sprintf("<interface type='network'><mac address='%s'/><source network='%s'/>"+
			"<model type='virtio'/></interface>", mac, network)
	}
	const a, b = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
	want := Spec{Interfaces: map[string]Interface{"net0": {Network: "one", MAC: a}, "net1": {Network: "two", MAC: b}}}
	for name, tt := range map[string]struct {
		has   string
		added []string
	}{
		"the first one is gone": {nic(b, "two"), []string{"interfaces.net0", "interfaces.net1"}},
		"they were exchanged":   {nic(b, "two") + nic(a, "one"), []string{"interfaces.net0", "interfaces.net1"}},
	} {
		d := parse(t, "<domain type='qemu'><name>n</name><devices>"+tt.has+"</devices></domain>")
		var paths []string
		for _, c := range Changes(d.Spec(), want) {
			if paths = append(paths, c.Path); !c.Live {
				t.Errorf("%s: %s: %s", name, c.Path, c.Why)
			}
		}
		if slices.Sort(paths); !slices.Equal(paths, tt.added) {
			t.Errorf("%s: the changes are of %v", name, paths)
		}
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		if left := Changes(d.Spec(), want); len(left) > 0 {
			t.Errorf("%s: left to change: %v", name, left)
		}
		if got := d.Spec().Interfaces["net1"]; got.MAC != b || got.Network != "two" {
			t.Errorf("%s: net1 is %+v", name, got)
		}
	}
}
