package domain

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testUUID = "0f0e0d0c-0b0a-4908-8706-050403020100"

func sizeOf(mebibytes uint64) Memory { return Memory{Size: new(mebibytes * mib)} }

// newSpecs are declarations of new VMs.
func newSpecs() map[string]Spec {
	return map[string]Spec{
		"smallest": {Name: "vm", Type: "qemu", Memory: sizeOf(64)},
		"of everything": {
			Name: "vm", Type: "kvm", Arch: "x86_64", Machine: "q35",
			CPU:      CPU{Sockets: new(1), Cores: new(2), Threads: new(2), MaxSockets: new(4), Mode: new("host-passthrough")},
			Memory:   Memory{Size: new(uint64(2 << 30)), MaxSize: new(uint64(8 << 30))},
			Firmware: Firmware{Type: new("efi"), SecureBoot: new(true)},
			Kernel:   &Kernel{Path: "/k", Initrd: "/i", Cmdline: "quiet"},
			Disks: map[string]Disk{
				"root": {Source: DiskSource{File: "/root.qcow2"}, BootOrder: new(1)},
				"net": {
					Source: DiskSource{Network: &NetworkSource{Protocol: "nbd", Name: "x", Hosts: []string{"10.0.0.1:10809"}}},
				},
				"usb":    {Source: DiskSource{File: "/u.img"}, Bus: "usb", ReadOnly: new(true), Serial: new("7")},
				"scsi":   {Source: DiskSource{Block: "/dev/b"}, Bus: "scsi", Cache: "writeback"},
				"lun":    {Source: DiskSource{Block: "/dev/l"}, Device: "lun"},
				"cd":     {Source: DiskSource{File: "/cd.iso"}, Device: "cdrom"},
				"empty":  {Device: "cdrom"},
				"floppy": {Device: "floppy"},
			},
			Interfaces: map[string]Interface{
				"lan":  {Network: "default", BootOrder: new(2)},
				"br":   {Bridge: "br0", Model: "e1000e", MAC: "52:54:00:00:00:01", LinkUp: new(false)},
				"user": {User: true},
			},
			GuestAgent: new(true), SerialConsole: new(true),
		},
		"old machine": {
			Name: "vm", Type: "qemu", Machine: "pc", CPU: CPU{VCPUs: new(3)}, Memory: sizeOf(128),
			Disks: map[string]Disk{"cd": {Device: "cdrom"}},
		},
		"efi":   {Name: "vm", Type: "kvm", Memory: sizeOf(512), Firmware: Firmware{Type: new("efi")}},
		"model": {Name: "vm", Type: "qemu", Memory: sizeOf(512), CPU: CPU{Model: new("Nehalem")}},
		"ARM": {
			Name: "vm", Type: "kvm", Arch: "aarch64", Memory: sizeOf(512), Firmware: Firmware{Type: new("efi")},
			Disks: map[string]Disk{"cd": {Device: "cdrom"}},
		},
		"mainframe": {Name: "vm", Type: "kvm", Arch: "s390x", Memory: sizeOf(512), SerialConsole: new(true)},
	}
}

func TestNew_saysWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for name, spec := range newSpecs() {
		d, err := New(spec, testUUID)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		have := d.Spec()
		if m := missing("", reflect.ValueOf(have), reflect.ValueOf(spec)); len(m) > 0 {
			t.Errorf("%s: not there: %v", name, m)
		}
		if d.UUID() != testUUID || d.Live() {
			t.Errorf("%s: UUID %s, live %v", name, d.UUID(), d.Live())
		}
		if changes := Changes(have, spec); len(changes) > 0 {
			t.Errorf("%s: changes at once: %v", name, changes)
		}
		if problems := have.Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		again, err := New(spec, testUUID)
		if err != nil || output(t, again) != output(t, d) {
			t.Errorf("%s: made again it differs: %v", name, err)
		}
	}
}

func TestNew_defaults(t *testing.T) {
	t.Parallel()
	specs := newSpecs()
	for name, want := range map[string]Spec{
		"smallest": {
			Arch: "x86_64", Machine: "q35", CPU: CPU{VCPUs: new(1), MaxSockets: new(1)},
			Firmware: Firmware{Type: new("bios")}, GuestAgent: new(true), SerialConsole: new(true),
		},
		"old machine": {CPU: CPU{Sockets: new(3)}, Disks: map[string]Disk{"cd": {Bus: "ide", Device: "cdrom"}}},
		"efi":         {CPU: CPU{Mode: new("host-model")}, Firmware: Firmware{SecureBoot: new(false)}},
		"model":       {CPU: CPU{Mode: new("custom")}},
		"ARM": {
			Machine: "virt", CPU: CPU{Mode: new("host-passthrough")},
			Disks: map[string]Disk{"cd": {Bus: "scsi", Device: "cdrom"}},
		},
		"mainframe": {Machine: "s390-ccw-virtio"},
	} {
		d, err := New(specs[name], testUUID)
		if err != nil {
			t.Fatal(err)
		}
		if m := missing("", reflect.ValueOf(d.Spec()), reflect.ValueOf(want)); len(m) > 0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	d, err := New(specs["smallest"], testUUID)
	if err != nil {
		t.Fatal(err)
	}
	if mode := d.Spec().CPU.Mode; mode != nil {
		t.Errorf("emulation has no host CPU to model on: %s", *mode)
	}
	d, err = New(specs["of everything"], testUUID)
	if err != nil {
		t.Fatal(err)
	}
	disks := d.Spec().Disks
	for key, want := range map[string]Disk{
		"root":   {Bus: "virtio", Target: "vda", Format: "qcow2"},
		"net":    {Bus: "virtio", Target: "vdb", Format: "raw", Cache: "none"},
		"cd":     {Bus: "sata", Target: "sda"},
		"floppy": {Bus: "fdc", Target: "fda"},
		"lun":    {Bus: "scsi"},
	} {
		have := disks[key]
		if have.Bus != want.Bus || want.Target != "" && have.Target != want.Target ||
			want.Format != "" && have.Format != want.Format || have.Cache != want.Cache && want.Cache != "" {
			t.Errorf("%s: %v", key, have)
		}
	}
	if free := d.Spec().FreeSlots; free == nil || *free < 8 {
		t.Error("no ports to plug disks into")
	}
}

// A machine type with PCI Express has no IDE. The problem names the disk, also if the machine type isn't declared.
func TestNew_noIDE(t *testing.T) {
	t.Parallel()
	for machine, refused := range map[string]bool{"": true, "q35": true, "pc-q35-7.2": true, "pc": false} {
		s := newSpecs()["smallest"]
		s.Machine = machine
		s.Disks = map[string]Disk{"a": {Source: DiskSource{File: "/a"}}, "b": {Source: DiskSource{File: "/b"}, Bus: "ide"}}
		_, err := New(s, testUUID)
		problem, _ := errors.AsType[Problem](err)
		if (problem.Path == "disks.b.bus") != refused || refused && !strings.Contains(problem.Message, `"sata"`) {
			t.Errorf("machine type %q: %v", machine, err)
		}
		problems := s.Validate()
		if named := slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == "disks.b.bus" }); machine != "" &&
			named != refused {
			t.Errorf("machine type %q: %v", machine, problems)
		}
	}
}

// A new VM with a screen by SPICE has the backend for sound that is declared. libvirt chooses only one that isn't.
func TestNew_declaredAudio(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{"": "", None: None, "file": "file"} {
		s := newSpecs()["smallest"]
		s.Values = Values{"devices.graphics.type": "spice", "devices.sound.model": "ich9"}
		if declared != "" {
			s.Values[audioType] = declared
		}
		if declared == "file" {
			s.Values["devices.audio.path"] = "/a.wav"
		}
		d, err := New(s, testUUID)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range d.devices("audio") {
			got += attr(e, "type")
		}
		if got != want {
			t.Errorf("declared is %q: the definition has %q, want %q", declared, got, want)
		}
	}
}

// TestNew_bootsNoEmptyDisk: without a boot order, libvirt boots the first disk. A new VM's first disk is one with data,
// if there is one. A declared order counts for an empty disk too, which may be installed from the network.
func TestNew_bootsNoEmptyDisk(t *testing.T) {
	t.Parallel()
	file := func(order *int) Disk { return Disk{Source: DiskSource{File: "/disk"}, BootOrder: order} }
	for name, tt := range map[string]struct {
		disks map[string]Disk
		empty []string
		first string
	}{
		"one is empty":  {map[string]Disk{"data": file(nil), "root": file(nil)}, []string{"data"}, "root"},
		"none is empty": {map[string]Disk{"data": file(nil), "root": file(nil)}, nil, "data"},
		"all are empty": {map[string]Disk{"data": file(nil), "root": file(nil)}, []string{"data", "root"}, "data"},
		"an order":      {map[string]Disk{"data": file(nil), "root": file(new(1))}, []string{"root"}, "root"},
	} {
		d, err := New(Spec{Name: "vm", Type: "qemu", Memory: sizeOf(128), Disks: tt.disks}, testUUID, tt.empty...)
		if err != nil {
			t.Fatal(err)
		}
		first := d.elements(diskKind)[0]
		if diskKind.alias(first) != tt.first || attr(child(first, "target"), "dev") != "vda" {
			t.Errorf("%s: the first disk is %q", name, diskKind.alias(first))
		}
	}
}

// TestNew_channelAndConsole: a new VM has a channel for the agent and a serial console, unless it is declared that
// there is none, or what there is instead.
func TestNew_channelAndConsole(t *testing.T) {
	t.Parallel()
	const channel, serial, virtio = `name="org.qemu.guest_agent.0"`, "<serial", `type="virtio"/></console>`
	ports := func(kind string) map[string]Row { return map[string]Row{"a": {"type": kind}} }
	no := []string{serial, "<console"}
	for name, test := range map[string]struct {
		spec       Spec
		has, lacks []string
	}{
		"nothing":           {has: []string{channel, serial, `<console type="pty">`}, lacks: []string{virtio}},
		"no agent":          {spec: Spec{GuestAgent: new(false)}, has: []string{serial}, lacks: []string{channel}},
		"no console":        {spec: Spec{SerialConsole: new(false)}, has: []string{channel}, lacks: no},
		"no serial port":    {spec: Spec{Serials: map[string]Row{}}, has: []string{channel}, lacks: no},
		"no virtio console": {spec: Spec{Consoles: map[string]Row{}}, lacks: no},
		"a virtio console":  {spec: Spec{Consoles: ports("pty")}, has: []string{"ua-console-a"}, lacks: []string{serial}},
		"another port":      {spec: Spec{Serials: ports("null")}, has: []string{`"null"`}, lacks: []string{`"pty"`}},
		"both": {
			spec: Spec{SerialConsole: new(true), Consoles: ports("pty")}, has: []string{serial, "ua-console-a"},
		},
		"other channels": {spec: Spec{Channels: map[string]Row{}}, has: []string{channel}},
	} {
		for _, arch := range []string{"x86_64", "aarch64", "s390x"} {
			s := test.spec
			s.Name, s.Type, s.Arch, s.Memory = "vm", "qemu", arch, sizeOf(64)
			d, err := New(s, testUUID)
			if err != nil {
				t.Fatal(err)
			}
			xml := output(t, d)
			for _, part := range test.has {
				if !strings.Contains(xml, part) {
					t.Errorf("%s, %s: no %s in\n%s", name, arch, part, xml)
				}
			}
			for _, part := range test.lacks {
				if strings.Contains(xml, part) {
					t.Errorf("%s, %s: %s is in\n%s", name, arch, part, xml)
				}
			}
		}
	}
}

func TestNew_whatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Spec{}, "")
	for _, path := range []string{"name:", "type:", "memory.size:", "id:"} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s isn't missed: %v", path, err)
		}
	}
	bad := newSpecs()["smallest"]
	bad.Disks = map[string]Disk{"x": {}}
	var problem Problem
	if _, err := New(bad, testUUID); !errors.As(err, &problem) || problem.Path != "disks.x" {
		t.Errorf("a disk without a source: %v", err)
	}
}

// TestNew_fiveSerialPorts: what a port of a new VM is by default follows from its architecture, also from the default
// one. libvirt would define the fifth port of a PC, and not start it.
func TestNew_fiveSerialPorts(t *testing.T) {
	t.Parallel()
	ports := map[string]Row{"a": {}, "b": {}, "c": {}, "d": {}, "e": {}}
	spec := Spec{Name: "vm", Type: "qemu", Memory: sizeOf(64), Serials: ports}
	_, err := New(spec, testUUID)
	if p, ok := errors.AsType[Problem](err); !ok || p.Path != "devices.serials.e.target_type" {
		t.Errorf("five ports of a PC: %v", err)
	}
	ports["e"] = Row{"type": "pty", "target_type": "pci-serial"}
	if _, err = New(spec, testUUID); err != nil {
		t.Errorf("the fifth on PCI: %v", err)
	}
}

// libvirt's own schema judges what is made and what is patched, where its tools are installed.
func TestNew_isValidBySchema(t *testing.T) {
	t.Parallel()
	lint, err := exec.LookPath("xmllint")
	schema := "/usr/share/libvirt/schemas/domain.rng"
	if _, statErr := os.Stat(schema); err != nil || statErr != nil {
		t.Skip("xmllint or libvirt's schemas aren't installed")
	}
	for name, spec := range newSpecs() {
		d, err := New(spec, testUUID)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetMetadata(allMetadata()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "domain.xml")
		if err := os.WriteFile(file, []byte(output(t, d)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), lint, "--noout", "--relaxng", schema, file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestParse_refusesWhatIsNoDomain(t *testing.T) {
	t.Parallel()
	for _, xml := range []string{"", "text", "<domain", "<network/>", `<x:domain xmlns:x="u"/>`, "<domain></other>"} {
		if _, err := Parse(xml); err == nil {
			t.Errorf("%q is taken for a domain", xml)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		amount, unit string
		want         uint64
		ok           bool
	}{
		{"1", "", kib, true},
		{"1", "KiB", kib, true},
		{"1", "k", kib, true},
		{"1", "KB", kib, true}, // 1000 bytes, rounded up.
		{"2048", "b", 2048, true},
		{"1", "bytes", kib, true},
		{"1", "MiB", mib, true},
		{"1", "M", mib, true},
		{"1", "MB", 1_000_448, true},
		{"2", "GiB", 2 << 30, true},
		{"1", "TiB", 1 << 40, true},
		{"1", "PiB", 1 << 50, true},
		{"1", "EiB", 1 << 60, true},
		{"99", "EiB", 0, false},
		{"1", "furlong", 0, false},
		{"1", "MiBi", 0, false},
		{"-1", "", 0, false},
		{"", "", 0, false},
	} {
		got, ok := parseSize(test.amount, test.unit)
		if got != test.want || ok != test.ok {
			t.Errorf("%s %s: %d %v", test.amount, test.unit, got, ok)
		}
	}
}

func TestParseSet(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0-3": "0-3", "3,1,2": "1-3", "0-7,^4": "0-3,5-7", "0,2,4": "0,2,4", "": "", "x": "bad", "1-": "bad", "5-3": "",
		"0-99999999": "bad",
	} {
		set, ok := parseSet(text)
		got := "bad"
		if ok {
			got = formatSet(set)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestAgentConnected(t *testing.T) {
	t.Parallel()
	if !sample(t, "kubevirt").AgentConnected() || sample(t, "virt-install-q35").AgentConnected() {
		t.Error("an agent's channel is misread")
	}
}

// TestParse_unknownFile: a definition that was given the path that only stands for that of a disk has lost the disk,
// and is to be defined again.
func TestParse_unknownFile(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain type="kvm"><name>a</name><devices>
<disk type="file" device="disk"><source file="`+UnknownFile+`"/><target dev="vda" bus="virtio"/>
<alias name="ua-disk-a"/></disk>
<disk type="file" device="disk"><source file="/b"/><target dev="vdb" bus="virtio"/><alias name="ua-disk-b"/></disk>
</devices></domain>`)
	if disks := d.Spec().Disks; len(disks) != 1 || disks["b"].Source.File != "/b" || !d.Mended() || !d.Clone().Mended() {
		t.Errorf("mended %t, with the disks %+v", d.Mended(), disks)
	}
	xml, err := d.XML()
	if err != nil || strings.Contains(xml, UnknownFile) || parse(t, xml).Mended() {
		t.Errorf("%v:\n%s", err, xml)
	}
}
