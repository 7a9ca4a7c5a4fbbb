package domain

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// triedValues are those that the tests declare of an attribute.
func triedValues(path string, a Attribute) []string {
	special := map[string][]string{
		cpuFeatures: {"monitor=disable\nvmx=require\n"}, "cpu.dies": {"1"}, "cpu.quota": {"5000"}, "cpu.period": {"50000"},
		"devices.tpm.persistent_state": {"yes"}, TPMSecret: {"6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11"},
		"devices.video.primary": {"yes"},
		"devices.iommu.aw_bits": {"48"},
		"devices.graphics.port": {Auto, "5905"}, "devices.graphics.websocket": {Auto, "5705"},
		"devices.graphics.keymap": {"en-us"}, "devices.second_graphics.port": {Auto, "5905"},
		"devices.second_graphics.websocket": {Auto, "5705"}, "devices.second_graphics.keymap": {"en-us"},
		"devices.vsock.cid": {Auto, "17"}, "platform.hyperv.spinlocks": {"8191"},
		"platform.hyperv.vendor_id": {"a & <b>"},
		"platform.clock.adjustment": {"-3600", "120"},
		"devices.smartcard.type":    {"spicevmc"}, "devices.smartcard.mode": {"passthrough", "host"},
		"devices.smartcard.certificates": {`["a","b","c & d"]`},
		audioType:                        {"spice", "alsa", "file", "jack"},
		"cpu.pin":                        {"0=2-3\n"}, "cpu.emulator_pin": {"1,3"}, "memory.huge_pages": {"2Mi", hugeDefault},
		cellPages: {"0=1Gi\n"},
		cpuNUMA: {"0.cpus=0-511\n" + `0.distances=1\e21\n` + "\n0.memory=1073741824\n1.discard=no\n" +
			`1.distances=0\e31\n` + "\n1.memory=1048576\n"},
		"platform.launch_security.policy": {"0x3"}, "cpu.iothread_pin": {"1=0-1\n"},
		"cpu.scheduler":          {"0.type=batch\n1.priority=1\n1.type=fifo\n", "0.type=idle\n2.type=idle\n"},
		"cpu.iothread_scheduler": {"1.priority=99\n1.type=rr\n"},
		"cpu.cachetune": {
			`0-1.caches=l2_code/0\e1Mi\nl3/0\e3Mi\nl3/1\e512Ki\n` + "\n0-1.monitors=[\"0\"]\n",
		},
		"cpu.memorytune": {`2-3.bandwidth=0\e60\n` + "\n"},
		"platform.resources.blkio_devices": {
			"/dev/a & b.1.read_bytes_sec=1000\n/dev/a & b.1.weight=200\n/dev/c.write_iops_sec=5\n",
		},
		"cpu.global_quota": {"5000"}, "cpu.global_period": {"50000"}, "cpu.emulator_quota": {"5000"},
		"cpu.emulator_period": {"50000"}, "cpu.iothread_quota": {"5000"}, "cpu.iothread_period": {"50000"},
		"platform.fw_cfg": {"opt/a & b=<x> \\\\ \\e\\n2\n"}, "platform.fw_cfg_files": {"opt/f=/f\n"},
		"platform.smbios.bios": {"version=1\n"}, "platform.smbios.system": {"version= 1 \n"},
		"platform.smbios.base_board": {"version=1\n"}, "platform.smbios.chassis": {"version=1\n"},
		seclabelPath: {
			"dac.label=+1:+2\ndac.type=static\n", "selinux.baselabel=a:b:c\nselinux.type=dynamic\n", "apparmor.type=none\n",
			"dac.label=a:b\ndac.relabel=yes\ndac.type=static\n",
		},
		"qemu_commandline.env":    {"A_1=1\n"},
		"memory.numatune.nodeset": {"0-1"}, "memory.numatune.cells": {"0.mode=strict\n0.nodeset=0\n"},
	}
	if values, ok := special[path]; ok {
		return values
	}
	if a.Values != nil {
		return a.Values
	}
	return map[AttributeKind][]string{
		Text: {"/a & <b>"}, Count: {"7"}, Switch: {"yes", "no"}, Flag: {"yes"}, Amount: {"1073741824"}, Numbers: {"42"},
		Texts: {"0=1\n"}, Words: {`["-name","a & <b>"]`},
		Switches: {"csum=no\ntso4=yes\n"},
	}[a.Kind]
}

// valuesBeside are what attributes, or single values of them, need to be declared, too.
var valuesBeside = map[string]Values{
	"cpu.emulator_scheduler.type=fifo": {"emulator_scheduler.priority": "1"},
	"cpu.emulator_scheduler.type=rr":   {"emulator_scheduler.priority": "1"},
	"firmware.stateless":               {"nvram": "", "nvram_template": ""},
	"memory.swap_hard_limit":           {"hard_limit": ""},

	"memory.numatune.placement=auto":     {"numatune.nodeset": ""},
	"platform.clock.offset=timezone":     {"timezone": "Europe/Berlin"},
	"platform.clock.offset=absolute":     {"start": "1"},
	LaunchSecurityType + "=sev":          {"policy": "0x3"},
	LaunchSecurityType + "=sev-snp":      {"policy": "0x30000"},
	"platform.launch_security.id_block":  {"type": "sev-snp", "policy": "0x30000"},
	"platform.launch_security.id_auth":   {"type": "sev-snp", "policy": "0x30000"},
	"platform.launch_security.host_data": {"type": "sev-snp", "policy": "0x30000"},
	"devices.audio.type=file":            {"path": "/a"},
	"devices.tpm.backend=external":       {"path": "/s"},
	"devices.tpm.version":                {"model": "tpm-tis"},

	"devices.video.ram":     {"model": "qxl"},
	"devices.video.vgamem":  {"model": "qxl"},
	"devices.video.heads":   {"model": "virtio"},
	"devices.video.accel3d": {"model": "virtio"},

	"devices.iommu.intremap":     {"model": "intel", "eim": ""},
	"devices.iommu.caching_mode": {"model": "intel"},
	"devices.iommu.iotlb":        {"model": "intel"},
	"devices.iommu.eim":          {"model": "intel"},
	"devices.iommu.aw_bits":      {"model": "intel"},

	"devices.graphics.listen=network":        {"network": "lan"},
	"devices.graphics.share_policy":          {"type": "vnc"},
	"devices.graphics.gl":                    {"type": "spice"},
	"devices.graphics.rendernode":            {"type": "spice", "gl": "yes"},
	"devices.second_graphics.listen=network": {"network": "lan"},
	"devices.second_graphics.share_policy":   {"type": "vnc"},
	"devices.second_graphics.rendernode":     {"gl": "yes"},

	"devices.rng.rate_period":         {"rate_bytes": "10"},
	"devices.graphics.address":        {"listen": "address"},
	"firmware.boot_menu.timeout":      {"boot_menu.enabled": "yes"},
	"devices.graphics.network":        {"listen": "network"},
	"devices.graphics.port":           {"listen": "address"},
	"devices.tpm.path":                {"backend": "external"},
	"platform.clock.timezone":         {"offset": "timezone"},
	"platform.clock.basis":            {"offset": "variable"},
	"platform.clock.adjustment":       {"offset": "variable"},
	"platform.clock.start":            {"offset": "absolute"},
	"memory.numatune.nodeset":         {"numatune.mode": "strict"},
	cellPages:                         {"huge_pages": "2Mi", cpuNUMA: "0.cpus=0-511\n0.memory=1073741824\n"},
	"firmware.nvram_template":         {"loader": "/l"},
	"memory.numatune.mode":            {"numatune.nodeset": "0"},
	"cpu.emulator_scheduler.priority": {"emulator_scheduler.type": "fifo"},
	"devices.graphics.websocket":      {"listen": "address", "type": "vnc"},

	"devices.audio.path": {"type": "file"},

	"devices.smartcard.path":         {"mode": "passthrough", "type": "unix"},
	"devices.smartcard.host":         {"mode": "passthrough", "type": "tcp", "service": "2001"},
	"devices.smartcard.service":      {"mode": "passthrough", "type": "tcp", "host": "192.0.2.7"},
	"devices.smartcard.certificates": {"mode": "host-certificates"},
	"devices.smartcard.database":     {"mode": "host-certificates", "certificates": `["a","b","c"]`},

	"devices.audio.server_name": {"type": "pulseaudio"},
	"devices.audio.input":       {"type": "alsa"},
	"devices.audio.output":      {"type": "pulseaudio"},

	"devices.second_graphics.address":   {"listen": "address"},
	"devices.second_graphics.network":   {"listen": "network"},
	"devices.second_graphics.port":      {"listen": "address"},
	"devices.second_graphics.websocket": {"listen": "address", "type": "vnc"},
	"platform.hyperv.stimer_direct":     {"stimer": "yes"},
}

// eachFact calls f with every value that every attribute of a group can be declared with, together with what that value
// needs in addition.
func eachFact(f func(g Group, a Attribute, declared Values)) {
	for _, g := range Groups {
		for _, a := range g.Attributes {
			values := triedValues(g.At(a), a)
			for _, value := range values {
				declared := Values{g.At(a): value}
				for _, needing := range []string{g.At(a), g.At(a) + "=" + value} {
					for name, value := range valuesBeside[needing] {
						if name != cpuNUMA {
							name = join(g.Path, name)
						}
						declared[name] = value
					}
				}
				if g.After != "" { // The first screen is by the other protocol.
					if declared[g.model()] == "" {
						declared[g.model()] = "spice"
					}
					declared[groupAt(g.After).model()] = map[string]string{"spice": "vnc", "vnc": "spice"}[declared[g.model()]]
				}
				f(g, a, declared)
			}
		}
	}
}

// TestGroups_areAppliedAndRead: every value of every attribute is written into every sample as what is read there,
// once, and nothing else of it changes.
func TestGroups_areAppliedAndRead(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		sample := parse(t, xml)
		was := sample.Spec()
		eachFact(func(g Group, a Attribute, declared Values) {
			d, before := sample.Clone(), was
			if err := d.Apply(Spec{Values: declared}); err != nil {
				t.Errorf("%s: %v: %v", name, declared, err)
				return
			}
			after := d.Spec()
			for path, value := range declared {
				if after.Values[path] != value && (value != Any || after.Values[path] == "") {
					t.Errorf("%s: %s is %q, not %q", name, path, after.Values[path], value)
				}
			}
			if changes := Changes(after, Spec{Values: declared}); len(changes) > 0 {
				t.Errorf("%s: still to be changed: %v", name, changes)
			}
			once := d.Canonical()
			if err := d.Apply(Spec{Values: declared}); err != nil || d.Canonical() != once {
				t.Errorf("%s: %v applied again changes it: %v", name, declared, err)
			}
			for path := range after.Values {
				if strings.HasPrefix(a.Name, "balloon.") && path == "memory.balloon.model" {
					continue // A balloon that is set up is there.
				}
				if g.After != "" && strings.HasPrefix(path, g.After+".") && before.Values[groupAt(g.After).model()] == "" {
					continue // This device came with the one that was tried.
				}
				if g.Device == "graphics" && path == audioType {
					continue // That of libvirt's choice follows the screen.
				}
				if _, ok := declared[path]; !ok && (!strings.HasPrefix(path, g.Path) || g.Device == "") {
					if before.Values[path] != after.Values[path] {
						t.Errorf("%s: %v changes %s", name, declared, path)
					}
				}
			}
			after.Values, after.FreeSlots, before.Values, before.FreeSlots = nil, nil, nil, nil
			after.Buses, before.Buses = nil, nil
			after.Memory.Fixed, before.Memory.Fixed = false, false
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s: %v changes something else:\n%s", name, declared, diff)
			}
		})
	}
}

// TestGroups_comeAndGo: what an attribute or a device has brought goes without a trace.
func TestGroups_comeAndGo(t *testing.T) {
	t.Parallel()
	eachFact(func(g Group, a Attribute, declared Values) {
		if a.Name == "dies" || strings.HasPrefix(a.Name, "balloon.") {
			return // A topology and a balloon stay.
		}
		d := parse(t, `<domain type="qemu"><name>n</name><devices><disk/></devices></domain>`)
		before := d.Canonical()
		gone := Values{}
		for path := range declared {
			gone[path] = ""
		}
		if g.Device != "" {
			gone = Values{g.model(): None}
		}
		if g.After != "" {
			gone[groupAt(g.After).model()] = None
		}
		for _, facts := range []Values{declared, gone} {
			if err := d.Apply(Spec{Values: facts}); err != nil {
				t.Fatal(err)
			}
		}
		if g.Explicit {
			if e := g.element(d); e == nil || !g.absent(e) || g.Has(d.Spec().Values) {
				t.Errorf("%v is still there, or libvirt would add another one:\n%s", declared, output(t, d))
			}
			drop(g.element(d))
		}
		if diff := cmp.Diff(before, d.Canonical()); diff != "" {
			t.Errorf("%v leaves something:\n%s", declared, diff)
		}
	})
}

// TestGroups_areClassified: every change is known to the plan, says why in a sentence, and is made by a call exactly if
// it is called live.
func TestGroups_areClassified(t *testing.T) {
	t.Parallel()
	pair := livePairs(t)["host-model"]
	xml := strings.Replace(output(t, pair[0]), "</devices>", `<tpm model="tpm-tis"><backend type="external"/></tpm>`+
		`<watchdog model="ib700" action="none"/></devices>`, 1)
	with, without := parse(t, xml), parse(t, xml)
	remove := Values{}
	for _, g := range deviceGroups {
		remove[g.model()] = None
	}
	if err := without.Apply(Spec{Values: remove}); err != nil {
		t.Fatal(err)
	}
	check := func(live *Definition, declared Values) {
		t.Helper()
		want := Spec{Values: declared}
		persistent := live.Clone()
		if err := persistent.Apply(want); err != nil {
			t.Error(err)
			return
		}
		found := classify(live.Spec(), want)
		if len(found) == 0 && persistent.Canonical() != live.Canonical() {
			t.Errorf("a change to %v is not seen", declared)
		}
		steps, err := LiveSteps(live, persistent, persistent, want)
		if err != nil {
			t.Error(err)
		}
		calls := slices.DeleteFunc(slices.Clone(found), func(c change) bool { return !c.Live })
		if len(calls) != len(steps) {
			t.Errorf("%v: changes %v, steps %v", declared, found, steps)
		}
		for _, c := range found {
			if !strings.HasSuffix(c.Why, ".") || c.Live != (c.step != 0) {
				t.Errorf("%s: %q", c.Path, c.Why)
			}
		}
	}
	eachFact(func(_ Group, _ Attribute, declared Values) {
		check(with, declared)
		check(without, declared)
	})
	check(with, remove)
	for _, g := range Groups {
		for _, a := range g.Attributes {
			if a.Doc == "" || !strings.HasSuffix(a.Doc, ".") || strings.Contains(g.Path, ".") && g.Doc == "" {
				t.Errorf("%s has no description", g.At(a))
			}
		}
	}
}

func TestGroups_refuseWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, g := range Groups {
		for _, a := range g.Attributes {
			for _, wrong := range []string{"\x01", "wr\nong"} {
				if a.Name == "description" && wrong != "\x01" {
					continue
				}
				if len(Spec{Values: Values{g.At(a): wrong}}.Validate()) == 0 {
					t.Errorf("%s = %q is let pass", g.At(a), wrong)
				}
			}
			for _, kept := range a.Kept {
				want := Spec{Values: Values{g.At(a): kept}}
				if problems := want.Validate(); len(problems) > 0 {
					t.Errorf("a VM from elsewhere may have it: %v", problems)
				}
				if err := sample(t, "strange").Apply(want); err == nil {
					t.Errorf("%s = %q is declared anew", g.At(a), kept)
				}
			}
		}
	}
	for _, wrong := range []Values{
		{"devices.tpm.model": "tpm-crb", "devices.tpm.version": "1.2"},
		{"devices.tpm.model": None, "devices.tpm.version": "2.0"},
		{"devices.rng.backend": "builtin", "devices.rng.source": "/dev/urandom"},
		{"devices.rng.rate_period": "10"},
		{"devices.iommu.model": "virtio", "devices.iommu.intremap": "yes"},
		{"devices.iommu.eim": "yes", "devices.iommu.intremap": "no"},
		{"devices.video.model": "bochs", "devices.video.heads": "2"},
		{"memory.huge_pages": "2Mi", "memory.source": "anonymous"},
		{cellPages: "0=2Mi\n", "memory.source": "anonymous"},
		{cellPages: "0=2Mi\n", "memory.huge_pages": hugeDefault},
		{"memory.huge_pages": hugeDefault, "memory.allocation": "ondemand"},
		{LaunchSecurityType: "s390-pv", "platform.launch_security.cbitpos": "47"},
		{LaunchSecurityType: "sev-snp"},
		{LaunchSecurityType: "tdx", "platform.launch_security.kernel_hashes": "yes"},
		{
			LaunchSecurityType: "sev-snp", "platform.launch_security.policy": "0x30000",
			"platform.launch_security.session": "YQ==",
		},
		{"platform.clock.pit_tickpolicy": "merge"},
		{"qemu_commandline.env": "0=1\n"},
		{"platform.events.on_poweroff": "restart", "platform.events.on_reboot": "destroy"},
		{"devices.graphics.address": "127.0.0.1"},
		{"devices.graphics.listen": "network"},
		{"devices.graphics.listen": "socket", "devices.graphics.port": "5901"},
		{"devices.graphics.listen": "address", "devices.graphics.port": "80"},
		{"devices.graphics.listen": "address", "devices.graphics.port": "any"},
		{"devices.graphics.type": "spice", "devices.graphics.share_policy": "ignore"},
		{"devices.graphics.websocket": Auto},
		{"devices.graphics.type": "vnc", "devices.graphics.gl": "yes"},
		{"devices.graphics.rendernode": "/dev/dri/renderD128"},
		{"devices.graphics.type": "spice", "devices.graphics.gl": "yes", "devices.graphics.rendernode": "renderD128"},
		{"devices.egl_headless.type": None, "devices.egl_headless.rendernode": "/dev/dri/renderD128"},
		{"devices.graphics.type": None, "devices.second_graphics.type": "spice"},
		{"devices.graphics.type": "spice", "devices.second_graphics.type": "spice"},
		{"devices.second_graphics.type": "spice", "devices.second_graphics.websocket": Auto},
		{"devices.smartcard.mode": "host", "devices.smartcard.type": "tcp"},
		{"devices.smartcard.type": "unix"},
		{"devices.smartcard.type": "tcp", "devices.smartcard.host": "192.0.2.7"},
		{"devices.smartcard.type": "spicevmc", "devices.smartcard.path": "/s"},
		{"devices.smartcard.mode": "host-certificates"},
		{"devices.smartcard.mode": "host-certificates", "devices.smartcard.certificates": `["a","b"]`},
		{"devices.smartcard.mode": "host", "devices.smartcard.certificates": `["a","b","c"]`},
		{"devices.smartcard.mode": "host", "devices.smartcard.database": "/db"},
		{audioType: "file"},
		{audioType: "alsa", "devices.audio.path": "/x.wav"},
		{audioType: "alsa", "devices.audio.server_name": "a"},
		{audioType: "jack", "devices.audio.output": "a"},
		{audioType: "spice", "devices.graphics.type": "vnc", "devices.second_graphics.type": None},
		{"devices.second_graphics.type": "spice", "devices.second_graphics.gl": "yes", "devices.egl_headless.type": Any},
		{"devices.video.vram": "50000"},
		{"devices.video.primary": "no"},
		{"devices.video.model": "vga", "devices.video.ram": "1024"},
		{"devices.video.model": "qxl", "devices.video.accel3d": "yes"},
		{"devices.vsock.cid": "2"},
		{"devices.vsock.cid": "4294967295"},
		{"platform.clock.offset": "timezone"},
		{"platform.clock.timezone": "Europe/Berlin"},
		{"devices.tpm.path": "/s"},
		{"devices.tpm.backend": tpmExternal},
		{"devices.tpm.backend": tpmPassthrough, "devices.tpm.version": "2.0"},
		{"platform.clock.offset": clockAbsolute},
		{"platform.clock.offset": clockAbsolute, "platform.clock.start": "-1"},
		{"platform.clock.offset": "utc", "platform.clock.adjustment": "60"},
		{"platform.clock.offset": clockVariable, "platform.clock.adjustment": "1.5"},
		{"platform.hyperv.spinlocks": "100"},
		{"platform.hyperv.vendor_id": "more than twelve"},
	} {
		if len(Spec{Values: wrong}.Validate()) == 0 {
			t.Errorf("%v is let pass", wrong)
		}
	}
}

// TestGroups_declaredFitsTheRest: what is declared has to fit to the values that the device has already or gets by
// default, and to other devices. What a user of another tool has written that doesn't fit is left alone.
func TestGroups_declaredFitsTheRest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		devices  string
		declared Values
		refused  string // the path
	}{
		{"", Values{"devices.graphics.gl": "yes"}, "devices.graphics.type"},
		{"", Values{"devices.graphics.type": Any, "devices.graphics.gl": "yes"}, "devices.graphics.type"},
		{"", Values{"devices.graphics.type": "spice", "devices.graphics.gl": "yes"}, ""},
		{`<graphics type="vnc"/>`, Values{"devices.graphics.gl": "yes"}, "devices.graphics.type"},
		{`<graphics type="spice"/>`, Values{"devices.graphics.gl": "yes"}, ""},
		{`<graphics type="spice"><gl enable="yes"/></graphics>`, Values{"devices.graphics.type": "vnc"}, ""},
		{`<graphics type="spice"><gl rendernode="/d"/></graphics>`, Values{"devices.graphics.keymap": "de"}, ""},
		{`<graphics type="spice"/>`, Values{"devices.graphics.share_policy": "ignore"}, "devices.graphics.type"},
		{`<graphics type="spice"/>`, Values{"devices.second_graphics.keymap": "de"}, "devices.second_graphics.type"},
		{
			`<graphics type="spice"><gl enable="yes"/></graphics>`,
			Values{"devices.egl_headless.type": Any},
			"devices.egl_headless.type",
		},
		{
			`<graphics type="spice"/><graphics type="egl-headless"/>`,
			Values{"devices.graphics.gl": "yes"},
			"devices.egl_headless.type",
		},
		{"", Values{"devices.tpm.version": "1.2"}, "devices.tpm.version"},
		{`<tpm model="tpm-tis"><backend type="emulator"/></tpm>`, Values{"devices.tpm.version": "1.2"}, ""},
		{"", Values{"devices.video.ram": "65536"}, "devices.video.ram"},
		{`<video><model type="qxl"/></video>`, Values{"devices.video.ram": "65536"}, ""},
	} {
		d := parse(t, `<domain type="qemu"><os><type arch="x86_64">hvm</type></os><devices>`+tt.devices+`</devices></domain>`)
		if problems := (Spec{Values: tt.declared}).Validate(); len(problems) > 0 {
			t.Errorf("%v is refused without a VM: %v", tt.declared, problems)
		}
		var refused Problem
		if err := d.Apply(Spec{Values: tt.declared}); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if refused.Path != tt.refused {
			t.Errorf("%s with %v: %q (%s) is refused, not %q",
				tt.devices, tt.declared, refused.Path, refused.Message, tt.refused)
		}
	}
	d := parse(t, `<domain type="qemu"><devices><filesystem type="mount"><driver type="path"/><source dir="/a"/>`+
		`<target dir="a"/><alias name="ua-filesystem-a"/></filesystem></devices></domain>`)
	row := Row{"source": "/a", "target": "a", "queue_size": "64"}
	if err := d.Apply(Spec{Filesystems: map[string]Row{"a": row}}); err == nil {
		t.Error("a queue of virtiofs is accepted for another driver")
	}
}

// TestGroups_newDevicesAreComplete: what libvirt would choose for its age is chosen for it.
func TestGroups_newDevicesAreComplete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		arch           string
		declared, want Values
	}{
		{"x86_64", Values{"devices.tpm.backend": "emulator"}, Values{
			"devices.tpm.model": "tpm-crb", "devices.tpm.backend": "emulator", "devices.tpm.version": "2.0",
		}},
		{"aarch64", Values{"devices.tpm.version": "1.2"}, Values{
			"devices.tpm.model": "tpm-tis", "devices.tpm.backend": "emulator", "devices.tpm.version": "1.2",
		}},
		{"x86_64", Values{"devices.rng.backend": "builtin"}, Values{
			"devices.rng.model": "virtio", "devices.rng.backend": "builtin",
		}},
		{"s390x", Values{"devices.watchdog.action": "pause"}, Values{
			"devices.watchdog.model": "diag288", "devices.watchdog.action": "pause",
		}},
	} {
		d := parse(t, `<domain type="qemu"><os><type arch="`+test.arch+`">hvm</type></os><devices/></domain>`)
		if err := d.Apply(Spec{Values: test.declared}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, d.Spec().Values); diff != "" {
			t.Errorf("%v: -want +got:\n%s", test.declared, diff)
		}
	}
}

// TestGroups_anotherBackendForgetsItsSource: what belonged to the old one doesn't stay.
func TestGroups_anotherBackendForgetsItsSource(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><devices><rng model="virtio"><backend model="random">/dev/hwrng</backend><x/></rng></devices>
  </domain>`)
	if err := d.Apply(Spec{Values: Values{"devices.rng.backend": "builtin"}}); err != nil {
		t.Fatal(err)
	}
	want := Values{"devices.rng.model": "virtio", "devices.rng.backend": "builtin"}
	if diff := cmp.Diff(want, d.Spec().Values); diff != "" || child(d.devices("rng")[0], "x") == nil {
		t.Errorf("-want +got:\n%s\n%s", diff, output(t, d))
	}
	d = parse(t, `<domain><devices><rng model="virtio"><backend model="egd" type="udp"><source mode="connect" host="h"/>
  </backend></rng></devices></domain>`)
	values := Values{"devices.rng.backend": "random", "devices.rng.source": "/dev/random"}
	if err := d.Apply(Spec{Values: values}); err != nil {
		t.Fatal(err)
	}
	if xml := output(t, d); !strings.Contains(xml, `<backend model="random">/dev/random</backend>`) {
		t.Error(xml)
	}
}

// TestGroups_chipsetWatchdogIsNotOurs: libvirt 9.1 lists the chipset's own watchdog in every q35.
func TestGroups_chipsetWatchdogIsNotOurs(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><devices><watchdog model="itco" action="reset"/></devices></domain>`)
	before := d.Canonical()
	if err := d.Apply(Spec{Values: Values{"devices.watchdog.model": None}}); err != nil || d.Canonical() != before {
		t.Error(err, output(t, d))
	}
	if facts := d.Spec().Values; len(facts) > 0 {
		t.Error(facts)
	}
	// libvirt refuses two watchdogs with different actions.
	for _, action := range []string{"poweroff", "none"} {
		err := d.Apply(Spec{Values: Values{"devices.watchdog.model": "i6300esb", "devices.watchdog.action": action}})
		if got := d.Spec(); err != nil || got.BuiltInWatchdog != action || got.Values["devices.watchdog.action"] != action {
			t.Errorf("%s: %v\n%s", action, err, output(t, d))
		}
	}
	// One that declares no action resets the VM.
	d = parse(t, `<domain><devices><watchdog model="itco" action="poweroff"/></devices></domain>`)
	err := d.Apply(Spec{Values: Values{"devices.watchdog.model": "i6300esb"}})
	if got := d.Spec(); err != nil || got.BuiltInWatchdog != "reset" || got.Values["devices.watchdog.action"] != "reset" {
		t.Errorf("no action: %v\n%s", err, output(t, d))
	}
}

// TestSpecHash_countsOnlyWhatIsDeclared: an attribute that a newer version has changes no hash of what doesn't use it.
func TestSpecHash_countsOnlyWhatIsDeclared(t *testing.T) {
	t.Parallel()
	plain, described := Spec{Name: "vm"}, Spec{Name: "vm", Values: Values{"title": "t"}}
	if SpecHash(plain) != SpecHash(Spec{Name: "vm", Values: Values{}}) || SpecHash(plain) == SpecHash(described) {
		t.Error("the hash counts something else")
	}
	before := maps.Clone(described.Values)
	if again := described.WithFact("title", "other").WithFact(OnCrash, "restart"); again.Values["title"] != "t" ||
		again.Values[OnCrash] != "restart" || !maps.Equal(before, described.Values) {
		t.Error(again.Values, described.Values)
	}
}

// TestGroups_anyDevice: a device of which nothing is declared but that it is there is made as it usually is, and left
// as it is where there is one.
func TestGroups_anyDevice(t *testing.T) {
	t.Parallel()
	for _, g := range deviceGroups {
		want := Spec{Values: Values{g.model(): Any}}
		if problems := want.Validate(); len(problems) > 0 {
			t.Error(problems)
		}
		d := parse(t, leastDefinition)
		if g.After != "" {
			if err := d.Apply(Spec{Values: Values{groupAt(g.After).model(): Any}}); err != nil {
				t.Fatal(err)
			}
		}
		if changes := Changes(d.Spec(), want); len(changes) != 1 || changes[0].Path != g.Path {
			t.Errorf("changes: %v", changes)
		}
		for range 2 {
			if err := d.Apply(want); err != nil {
				t.Fatal(err)
			}
		}
		after := d.Spec()
		if after.Values[g.model()] == "" || after.Values[g.model()] == Any || len(g.elements(d)) != 1 {
			t.Error(output(t, d))
		}
		if changes := Changes(after, want); len(changes) > 0 {
			t.Errorf("changes: %v", changes)
		}
		if agreed := MergeBase(after, after, after, want, nil); agreed.Values[g.model()] == Any {
			t.Error("what is declared isn't what is there")
		}
		if got := want.Values.Complete(nil, "x86_64")[g.model()]; got == Any || got == "" {
			t.Errorf("%s isn't complete", g.Path)
		}
	}
}

// The docs of an attribute name the version of libvirt that a value requires: a plan with an older one fails.
func TestAttributes_docsNameVersions(t *testing.T) {
	t.Parallel()
	all := map[string][]Attribute{"disks.*": DiskRows, "disks.*.network": networkRows, "interfaces.*": interfaceRows}
	for _, g := range Groups {
		all[g.Path] = g.Attributes
	}
	for _, f := range Families {
		all[f.Path+".*"] = f.Attributes
	}
	for path, attributes := range all {
		for _, a := range attributes {
			for value, version := range a.SinceOf {
				want := "libvirt " + strings.TrimSuffix(version, ".0")
				if !strings.Contains(a.Doc, value) || !strings.Contains(a.Doc, want) {
					t.Errorf("%s.%s: the docs say %q, and not that %q requires %s", path, a.Name, a.Doc, value, want)
				}
			}
		}
	}
	for path, value := range map[string]string{
		"devices.panic.model": "pvpanic", "devices.sound.model": "virtio", "devices.iommu.model": "amd",
	} {
		if since := (Spec{Values: Values{path: value}}).Since()[path]; since.Version == "" {
			t.Errorf("%s = %q is said to be in every libvirt", path, value)
		}
	}
}

// TestGroup_updateHasDevice: a change that updates a device of the running VM brings the whole device as it is to be.
func TestGroup_updateHasDevice(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain type="kvm"><name>a</name><devices><watchdog model="i6300esb" action="reset"/></devices>
</domain>`)
	g := groupAt("devices.watchdog")
	g.Attributes = slices.Clone(g.Attributes)
	i := slices.IndexFunc(g.Attributes, func(a Attribute) bool { return a.Name == "action" })
	g.Attributes[i].Live = Update
	want := Spec{Values: Values{"devices.watchdog.model": "i6300esb", "devices.watchdog.action": "poweroff"}}
	p := &stepper{live: d, persistent: d, want: want}
	c := change{step: Update}
	c.Path = "devices.watchdog.action"
	g.step(p, c)
	if len(p.steps) != 1 || !strings.Contains(p.steps[0].XML, `<watchdog model="i6300esb" action="poweroff"`) {
		t.Errorf("the steps are %+v", p.steps)
	}
}
