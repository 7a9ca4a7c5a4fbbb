package domain

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf are devices of a family as they can be declared, each with what is read of it.
var rowsOf = map[string][]struct{ declared, read Row }{
	"devices.inputs": {
		{Row{"type": "tablet"}, Row{"type": "tablet", "bus": "usb"}},
		{Row{"type": "keyboard", "bus": "virtio"}, Row{"type": "keyboard", "bus": "virtio"}},
		{Row{"type": "passthrough", "device": "/dev/input/event1"}, Row{
			"type": "passthrough", "bus": "virtio", "device": "/dev/input/event1",
		}},
		{
			Row{
				"type": "evdev", "device": "/dev/input/event2", "grab": "all", "grab_toggle": "shift-shift", "repeat": "yes",
			},
			Row{
				"type": "evdev", "device": "/dev/input/event2", "grab": "all", "grab_toggle": "shift-shift", "repeat": "yes",
			},
		},
	},
	"devices.serials": {
		{
			Row{"type": "pty", "log_file": "/l", "log_append": "yes"},
			Row{"type": "pty", "log_file": "/l", "log_append": "yes"},
		},
		{Row{"type": "file", "path": "/f"}, Row{"type": "file", "path": "/f"}},
		{Row{"type": "unix", "path": "/s"}, Row{"type": "unix", "path": "/s"}},
		{Row{"type": "pty", "target_type": "pci-serial"}, Row{"type": "pty", "target_type": "pci-serial"}},
		{Row{"type": "dev", "path": "/dev/ttyS1"}, Row{"type": "dev", "path": "/dev/ttyS1"}},
		{
			Row{"type": "tcp", "host": "10.0.0.1", "service": "4001", "reconnect": "5", "target_type": "usb-serial"},
			Row{
				"type": "tcp", "host": "10.0.0.1", "service": "4001", "reconnect": "5", "target_type": "usb-serial",
				"mode": "connect",
			},
		},
		{
			Row{"type": "tcp", "mode": "bind", "host": "0.0.0.0", "service": "4001", "protocol": "telnet"},
			Row{"type": "tcp", "mode": "bind", "host": "0.0.0.0", "service": "4001", "protocol": "telnet"},
		},
		{
			Row{"type": "udp", "host": "10.0.0.1", "service": "9", "bind_host": "0.0.0.0", "bind_service": "10"},
			Row{"type": "udp", "host": "10.0.0.1", "service": "9", "bind_host": "0.0.0.0", "bind_service": "10"},
		},
		{
			Row{"type": "null", "target_type": "system-serial", "target_model": "16550a"},
			Row{"type": "null", "target_type": "system-serial", "target_model": "16550a"},
		},
	},
	"devices.consoles": {
		{Row{"type": "pty", "log_file": "/l"}, Row{"type": "pty", "log_file": "/l"}},
		{Row{"type": "unix", "path": "/s"}, Row{"type": "unix", "path": "/s"}},
	},
	"devices.redirdevs": {
		{Row{"type": "spicevmc"}, Row{"type": "spicevmc"}},
		{Row{"type": "unix", "path": "/s"}, Row{"type": "unix", "path": "/s"}},
		{
			Row{"type": "tcp", "host": "10.0.0.1", "service": "4000"},
			Row{"type": "tcp", "host": "10.0.0.1", "service": "4000"},
		},
	},
	"devices.channels": {
		{Row{"type": "unix", "name": "a"}, Row{"type": "unix", "name": "a"}},
		{Row{"type": "spicevmc", "name": "com.redhat.spice.0"}, Row{"type": "spicevmc", "name": "com.redhat.spice.0"}},
	},
	"devices.filesystems": {
		{Row{"target": "t", "source": "/s"}, Row{
			"target": "t", "source": "/s", "driver": "virtiofs", "access_mode": "passthrough",
		}},
		{Row{"target": "t", "source": "/s", "driver": "9p", "access_mode": "mapped", "read_only": "yes"}, Row{
			"target": "t", "source": "/s", "driver": "9p", "access_mode": "mapped", "read_only": "yes",
		}},
	},
	"devices.virtio_mem": {
		{
			Row{"size": "1073741824", "requested": "268435456"},
			Row{"size": "1073741824", "requested": "268435456", "block": "2097152", "node": "0"},
		},
		{
			Row{"size": "1073741824", "block": "4194304", "node": "0", "requested": "0"},
			Row{"size": "1073741824", "block": "4194304", "node": "0"},
		},
	},
	"devices.nvdimms": {
		{
			Row{"path": "/n", "size": "1073741824"},
			Row{"path": "/n", "size": "1073741824", "shared": "yes", "node": "0"},
		},
		{
			Row{
				"path": "/m", "size": "1073741824", "label_size": "131072", "align_size": "2097152", "pmem": "yes",
				"shared": "no", "read_only": "yes", "node": "0",
			},
			Row{
				"path": "/m", "size": "1073741824", "label_size": "131072", "align_size": "2097152", "pmem": "yes",
				"shared": "no", "read_only": "yes", "node": "0",
			},
		},
	},
	"devices.host_devices": {
		{Row{"type": "pci", "address": "0000:65:00.1"}, Row{"type": "pci", "address": "0000:65:00.1"}},
		{Row{"type": "usb", "address": "1234:abcd"}, Row{"type": "usb", "address": "1234:abcd"}},
		{Row{"type": "mdev", "address": "c2177883-f1bb-47f0-914d-32a22e3a8804"}, Row{
			"type": "mdev", "address": "c2177883-f1bb-47f0-914d-32a22e3a8804",
		}},
		{Row{"type": "scsi", "address": "2:0:1:5"}, Row{"type": "scsi", "address": "2:0:1:5"}},
	},
}

// withRoom gives a VM what the devices of a family require.
func withRoom(t *testing.T, d *Definition, f Family) *Definition {
	t.Helper()
	if f.Path == virtioMemPath || f.Path == nvdimmPath {
		memory := Memory{MaxSize: new(uint64(1 << 42))}
		if d.Spec().Memory.Size == nil {
			memory.Size = new(uint64(1 << 30))
		}
		if err := d.Apply(Spec{Memory: memory}); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestFamilies_comeAndGo: in every sample devices come as they are declared, are read so, are left alone by what is
// declared again, and go without a trace.
func TestFamilies_comeAndGo(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		for _, f := range Families {
			for _, row := range rowsOf[f.Path] {
				d := withRoom(t, parse(t, xml), f)
				before := d.Spec()
				all := maps.Clone(f.Of(before))
				all["new"] = row.declared
				var want Spec
				f.Declare(&want, all)
				if problems := want.Validate(); len(problems) > 0 {
					t.Errorf("%s: %v", name, problems)
				}
				for range 2 {
					if err := d.Apply(want); err != nil {
						t.Fatal(err)
					}
				}
				now := d.Spec()
				if diff := cmp.Diff(row.read, f.Of(now)["new"]); diff != "" {
					t.Errorf("%s: %v is read as another one:\n%s", name, row.declared, diff)
				}
				if changes := Changes(now, want); len(changes) > 0 {
					t.Errorf("%s: still to be changed: %v", name, changes)
				}
				f.Declare(&want, f.Of(before))
				if err := d.Apply(want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(f.Of(before), f.Of(d.Spec())); diff != "" {
					t.Errorf("%s: it has left something:\n%s", name, diff)
				}
			}
		}
	}
}

// TestFamilies_areClassified: every change says why, and is made by a call exactly if it is called live.
func TestFamilies_areClassified(t *testing.T) {
	t.Parallel()
	for _, f := range Families {
		for _, row := range rowsOf[f.Path] {
			live := withRoom(t, parse(t, leastDefinition), f)
			declared := func(all map[string]Row) Spec {
				var s Spec
				f.Declare(&s, all)
				return s
			}
			steps := func(have *Definition, want Spec, path string, kind StepKind) {
				t.Helper()
				next := have.Clone()
				if err := next.Apply(want); err != nil {
					t.Fatal(err)
				}
				made, err := LiveSteps(have, next, next, want)
				changes := Changes(have.Spec(), want)
				if err != nil || len(changes) != 1 || changes[0].Path != path || !strings.HasSuffix(changes[0].Why, ".") {
					t.Fatalf("%v %v", changes, err)
				}
				if isLive := len(made) == 1 && made[0].Kind == kind; isLive != changes[0].Live {
					t.Errorf("%v: %v", changes, made)
				}
			}
			with := declared(map[string]Row{"a": row.declared})
			steps(live, with, f.Path+".a", Attach)
			if err := live.Apply(with); err != nil {
				t.Fatal(err)
			}
			steps(live, declared(map[string]Row{}), f.Path+".a", Detach)
			for a := range f.defined() {
				other := maps.Clone(row.read)
				if other[a.Name] == "x" || len(a.Values) > 0 && slices.Equal(a.Values, []string{other[a.Name]}) {
					continue
				}
				other[a.Name] = "x"
				if changes := Changes(live.Spec(), declared(map[string]Row{"a": other})); len(changes) != 1 ||
					changes[0].Live != (a.Live != 0) {
					t.Errorf("%s: %v", a.Name, changes)
				}
			}
		}
		for _, a := range f.Attributes {
			if !strings.HasSuffix(a.Doc, ".") || !strings.HasSuffix(a.Why, ".") && !a.Recorded {
				t.Errorf("%s isn't described", f.At(a))
			}
		}
	}
}

// TestFamilies_anotherOneOfAKind: a device that takes the place of another one is another one, however alike they are.
func TestFamilies_anotherOneOfAKind(t *testing.T) {
	t.Parallel()
	device := func(key string) Spec {
		return Spec{Channels: map[string]Row{key: {"type": "unix", "name": "org.example." + key}}}
	}
	live := parse(t, `<domain><devices><controller type="virtio-serial" index="0"/></devices></domain>`)
	if err := live.Apply(device("a")); err != nil {
		t.Fatal(err)
	}
	persistent := live.Clone()
	if err := persistent.Apply(device("b")); err != nil {
		t.Fatal(err)
	}
	steps, err := LiveSteps(live, persistent, persistent, device("b"))
	if err != nil || len(steps) != 2 || steps[0].Kind != Detach || steps[1].Kind != Attach ||
		!strings.Contains(steps[0].XML, "org.example.a") || !strings.Contains(steps[1].XML, "org.example.b") {
		t.Errorf("%v: %v", err, steps)
	}
}

func TestFamilies_refuseWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, wrong := range []Spec{
		{Inputs: map[string]Row{"a": {"bus": "usb"}}},
		{Inputs: map[string]Row{"a": {"type": "joystick"}}},
		{Inputs: map[string]Row{"a b": {"type": "tablet"}}},
		{Inputs: map[string]Row{"a": {"type": "evdev"}}},
		{Inputs: map[string]Row{"a": {"type": "passthrough"}}},
		{Inputs: map[string]Row{"a": {"type": "evdev", "device": "event1"}}},
		{Inputs: map[string]Row{"a": {"type": "evdev", "device": "/dev/input/event1", "bus": "usb"}}},
		{Inputs: map[string]Row{"a": {"type": "passthrough", "device": "/dev/input/event1", "bus": "usb"}}},
		{Inputs: map[string]Row{"a": {"type": "passthrough", "device": "/dev/input/event1", "grab": "all"}}},
		{Inputs: map[string]Row{"a": {"type": "tablet", "device": "/dev/input/event1"}}},
		{Inputs: map[string]Row{"a": {"type": "tablet", "repeat": "no"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "target_type": "lpt"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "target_model": "pl011"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "target_type": "sclp-serial", "target_model": "pl011"}}},
		{Serials: map[string]Row{"a": {"type": "file"}}},
		{Serials: map[string]Row{"a": {"type": "file", "path": "log"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "path": "/log"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "log_append": "yes"}}},
		{Serials: map[string]Row{"a": {"type": "null"}}, SerialConsole: new(true)},
		{Serials: map[string]Row{"a": {"type": "dev"}}},
		{Serials: map[string]Row{"a": {"type": "dev", "path": "ttyS0"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "host": "h"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "service": "1"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "host": "h", "service": "1", "path": "/s"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "host": "h", "service": "1", "mode": "bind", "reconnect": "5"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "host": "h", "service": "1", "reconnect": "0"}}},
		{Serials: map[string]Row{"a": {"type": "tcp", "host": "h", "service": "1", "bind_service": "2"}}},
		{Serials: map[string]Row{"a": {"type": "udp", "host": "h"}}},
		{Serials: map[string]Row{"a": {"type": "udp", "host": "h", "service": "1", "bind_host": "0.0.0.0"}}},
		{Serials: map[string]Row{"a": {"type": "udp", "host": "h", "service": "1", "protocol": "telnet"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "host": "h"}}},
		{Serials: map[string]Row{"a": {"type": "pty", "mode": "bind"}}},
		{Arch: "x86_64", Serials: map[string]Row{
			"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}, "d": {"type": "null"},
			"e": {"type": "null", "target_type": "isa-serial"},
		}},
		{Consoles: map[string]Row{"a": {"type": "spicevmc"}}},
		{Consoles: map[string]Row{"a": {"type": "file"}}},
		{Consoles: map[string]Row{"a": {"type": "unix"}}},
		{Serials: map[string]Row{"a": {"type": "unix"}}},
		{Redirdevs: map[string]Row{"a": {"type": "tcp", "host": "h"}}},
		{Redirdevs: map[string]Row{"a": {"type": "tcp", "service": "1"}}},
		{Redirdevs: map[string]Row{"a": {"type": "tcp", "host": "h", "service": "1", "path": "/s"}}},
		{Redirdevs: map[string]Row{"a": {"type": "spicevmc", "host": "h"}}},
		{Redirdevs: map[string]Row{"a": {"type": "unix"}}},
		{Channels: map[string]Row{"a": {"type": "unix"}}},
		{Channels: map[string]Row{"a": {"type": "unix", "name": agentChannel}}},
		{Filesystems: map[string]Row{"a": {"target": "t"}}},
		{Filesystems: map[string]Row{"a": {"target": "t", "source": "/s", "driver": "virtiofs", "access_mode": "mapped"}}},
		{HostDevices: map[string]Row{"a": {"type": "pci", "address": "65:00.0"}}},
		{HostDevices: map[string]Row{"a": {"type": "usb", "address": "0000:65:00.0"}}},
		{HostDevices: map[string]Row{"a": {"type": "mdev"}}},
		{HostDevices: map[string]Row{"a": {"class": "gpu", "type": "pci", "address": "0000:65:00.0"}}},
		{HostDevices: map[string]Row{"a": {"class": "g p u"}}},
	} {
		if len(wrong.Validate()) == 0 {
			t.Errorf("%v is let pass", flattenSpec(wrong))
		}
	}
	kept := Spec{Serials: map[string]Row{"a": {"type": "vc"}}}
	if problems := kept.Validate(); len(problems) > 0 {
		t.Errorf("a VM from elsewhere may have it: %v", problems)
	}
	if err := parse(t, leastDefinition).Apply(kept); err == nil {
		t.Error("it is declared anew")
	}
}

// TestFamilies_whatRunsIsTheSame: what libvirt chooses when a VM starts is no difference between its two definitions.
func TestFamilies_whatRunsIsTheSame(t *testing.T) {
	t.Parallel()
	persistent := parse(t, `<domain><devices><channel type="unix"><target type="virtio" name="a"/></channel>
  <serial type="pty"><log file="/l" append="on"/></serial><graphics type="vnc" port="-1" autoport="yes" websocket="-1">
  <listen type="address"/></graphics><vsock><cid auto="yes"/></vsock></devices></domain>`).Spec()
	live := parse(t, `<domain id="1"><devices><channel type="unix">
  <source mode="bind" path="/var/lib/libvirt/qemu/channel/target/domain-1-a/a"/><target type="virtio" name="a"/>
  <alias name="channel0"/></channel><serial type="pty"><source path="/dev/pts/0"/><log file="/l" append="on"/></serial>
  <graphics type="vnc" port="5900" autoport="yes" websocket="5700" listen="127.0.0.1"><listen type="address"
  address="127.0.0.1"/></graphics><vsock><cid auto="yes" address="3"/></vsock></devices></domain>`).Spec()
	if pending := Pending(live, persistent); len(pending) > 0 {
		t.Error(pending)
	}
	if merged := Merge(&persistent, &live, nil, nil); merged.Values["devices.graphics.websocket"] != Auto ||
		merged.Values["devices.graphics.address"] != "" {
		t.Error(merged.Values)
	}
}

// TestFamilies_keptHostDevices: a device that is identified in a way that can't be declared is kept, and is given no
// wrong address.
func TestFamilies_keptHostDevices(t *testing.T) {
	t.Parallel()
	for address, valid := range map[string]bool{unknownHostDevice: true, "0000:65:00.0": false} {
		want := Spec{HostDevices: map[string]Row{"a": {"type": "scsi", "address": address}}}
		if problems := want.Validate(); (len(problems) == 0) != valid {
			t.Errorf("%s: %v", address, problems)
		}
		d := parse(t, `<domain><devices><hostdev mode="subsystem" type="scsi"><source><adapter name="scsi_host0"/></source>
			<alias name="ua-host-device-a"/></hostdev></devices></domain>`)
		if err := d.Apply(want); err != nil || child(d.devices("hostdev")[0], "source", "adapter") == nil {
			t.Error(err, output(t, d))
		}
	}
}

// TestFilesystems_followers: what only virtiofs has goes with it, unless it is declared.
func TestFilesystems_followers(t *testing.T) {
	t.Parallel()
	share := func(driver string, more Row) Spec {
		row := Row{"target": "t", "source": "/s", "driver": driver}
		maps.Copy(row, more)
		return Spec{Filesystems: map[string]Row{"a": row}}
	}
	d := parse(t, leastDefinition)
	own := Row{"cache": "always", "queue_size": "1024", "xattr": "yes"}
	for _, want := range []Spec{share("virtiofs", own), share("virtiofs", nil)} {
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		for name, value := range own {
			if got := d.Spec().Filesystems["a"][name]; got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
	}
	if err := d.Apply(share("9p", nil)); err != nil {
		t.Fatal(err)
	}
	if xml := output(t, d); strings.Contains(xml, "queue") || strings.Contains(xml, "<binary") {
		t.Errorf("what only virtiofs has is left:\n%s", xml)
	}
	if err := d.Apply(share("virtiofs", own)); err != nil {
		t.Fatal(err)
	}
	if changes := Changes(d.Spec(), share("virtiofs", own)); len(changes) > 0 {
		t.Errorf("still to be changed: %v", changes)
	}
}
