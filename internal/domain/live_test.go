package domain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pairs are the live and persistent definitions of running VMs, as libvirt 9.0 gave them, by name.
func livePairs(t *testing.T) map[string][2]*Definition {
	t.Helper()
	files, err := filepath.Glob("testdata/live/*.live.xml")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	found := map[string][2]*Definition{}
	for _, file := range files {
		var both [2]*Definition
		for i, name := range []string{file, strings.Replace(file, ".live.", ".persistent.", 1)} {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = parse(t, string(data))
		}
		found[strings.TrimSuffix(filepath.Base(file), ".live.xml")] = both
	}
	var without [2]*Definition
	for i, d := range found["host-model"] {
		without[i] = d.Clone()
		if err := without[i].Apply(Spec{GuestAgent: new(false)}); err != nil {
			t.Fatal(err)
		}
	}
	found["without-agent"] = without
	return found
}

func TestSpec_bothDefinitionsOfAVMSayTheSame(t *testing.T) {
	t.Parallel()
	for name, pair := range livePairs(t) {
		live, persistent := pair[0].Spec(), pair[1].Spec()
		if !pair[0].Live() || pair[1].Live() {
			t.Errorf("%s: live isn't told from persistent", name)
		}
		if diff := cmp.Diff(persistent, alignLive(live, persistent)); diff != "" && name != "efi-by-libvirt" {
			t.Errorf("%s: -persistent +live:\n%s", name, diff)
		}
		if pending := Pending(live, persistent); len(pending) > 0 {
			t.Errorf("%s: pending: %v", name, pending)
		}
		if changes := Changes(live, persistent); len(changes) > 0 {
			t.Errorf("%s: changes: %v", name, changes)
		}
		steps, err := LiveSteps(pair[0], pair[1], pair[1], persistent)
		if err != nil || len(steps) > 0 {
			t.Errorf("%s: steps: %v %v", name, steps, err)
		}
		merged := Merge(&persistent, &live, nil, nil)
		merged.Firmware.SecureBoot = persistent.Firmware.SecureBoot
		if diff := cmp.Diff(persistent, merged); diff != "" {
			t.Errorf("%s: -persistent +merged:\n%s", name, diff)
		}
	}
}

// A running VM has its memory in whole MiB, whatever its definition says, and so has each of its NUMA cells. That is
// nothing that a restart changes, nor drift.
func TestPending_memoryOfAnOddSize(t *testing.T) {
	t.Parallel()
	for name, xml := range map[string]string{
		"plain": `<domain type="kvm"><name>a</name><memory>SIZE</memory><vcpu>1</vcpu></domain>`,
		"with room to grow": `<domain type="kvm"><name>a</name><maxMemory slots="16">1048577</maxMemory>
			<memory>SIZE</memory><vcpu>1</vcpu><cpu><numa><cell id="0" cpus="0" memory="SIZE"/></numa></cpu></domain>`,
	} {
		of := func(kib string) Spec { return parse(t, strings.ReplaceAll(xml, "SIZE", kib)).Spec() }
		persistent, live, larger := of("131073"), of("132096"), of("133120")
		if pending := Pending(live, persistent); len(pending) > 0 {
			t.Errorf("%s: pending: %v", name, pending)
		}
		state := persistent
		merged := Merge(&persistent, &live, &state, nil)
		merged.Memory.Installed = persistent.Memory.Installed // It is for the classification of changes.
		if diff := cmp.Diff(persistent, merged); diff != "" {
			t.Errorf("%s: drift: %s", name, diff)
		}
		if pending := Pending(larger, persistent); len(pending) == 0 {
			t.Errorf("%s: another MiB isn't seen", name)
		}
	}
}

// What is left to libvirt is unknown until it has chosen.
func TestMerge_tellsWhatLibvirtHasChosen(t *testing.T) {
	t.Parallel()
	pair := livePairs(t)["efi-by-libvirt"]
	live, persistent := pair[0].Spec(), pair[1].Spec()
	if persistent.Firmware.SecureBoot != nil {
		t.Fatal("the persistent definition can't know")
	}
	merged := Merge(&persistent, &live, nil, nil)
	if got := merged.Firmware.SecureBoot; got == nil || !*got {
		t.Errorf("secure boot: %v", got)
	}
}

// expectedStep is a call and what has to be in its XML.
type expectedStep struct {
	kind  StepKind
	path  string
	parts []string
}

// Each row is a change of a running VM, and the calls that make it.
var liveTable = []struct {
	name, sample string
	change       func(*Spec)
	want         []expectedStep
}{
	{
		"sockets", "custom-numa", func(s *Spec) { s.CPU = CPU{Sockets: new(2)} },
		[]expectedStep{{SetVcpus, "cpu.sockets", nil}},
	},
	{
		"sockets and vcpus take one call", "custom-numa",
		func(s *Spec) { s.CPU = CPU{Sockets: new(2), VCPUs: new(8)} },
		[]expectedStep{{SetVcpus, "cpu.vcpus", nil}},
	},
	{
		"memory above what is installed", "custom-numa",
		func(s *Spec) { s.Memory = Memory{Size: new(uint64(512 * mib))} },
		[]expectedStep{{Attach, "memory.size", []string{`model="dimm"`, ">262144<", "<node>0</node>"}}},
	},
	{
		"memory by balloon", "custom-numa",
		func(s *Spec) { s.Memory = Memory{Size: new(uint64(128 * mib))} },
		[]expectedStep{{SetMemory, "memory.size", nil}},
	},
	{
		"agent's channel comes", "without-agent", func(s *Spec) { s.GuestAgent = new(true) },
		[]expectedStep{{Attach, "guest_agent", []string{`type="virtio"`, agentChannel}}},
	},
	{
		"agent's channel goes", "host-model", func(s *Spec) { s.GuestAgent = new(false) },
		[]expectedStep{{Detach, "guest_agent", []string{`type="virtio"`, agentChannel, "virtio-serial"}}},
	},
	{
		"disk comes", "host-model",
		func(s *Spec) { s.Disks["data"] = Disk{Source: DiskSource{File: "/srv/data.qcow2"}} },
		[]expectedStep{{Attach, "disks.data", []string{`dev="vdb"`, `name="ua-disk-data"`, `type="qcow2"`}}},
	},
	{
		"disk goes before another comes", "host-model",
		func(s *Spec) {
			delete(s.Disks, "root")
			s.Disks["data"] = Disk{Source: DiskSource{Block: "/dev/vg/data"}, Bus: "scsi"}
		},
		[]expectedStep{
			{Detach, "disks.root", []string{`dev="vda"`, "<address"}},
			{Attach, "disks.data", []string{`bus="scsi"`}},
		},
	},
	{
		"media change", "host-model",
		func(s *Spec) {
			s.Disks["iso"] = Disk{Device: "cdrom"}
			s.Disks["empty"] = Disk{Device: "cdrom", Source: DiskSource{File: "/srv/b.iso"}}
		},
		[]expectedStep{
			{ChangeMedium, "disks.empty", []string{`file="/srv/b.iso"`, `dev="sdb"`, `type="raw"`}},
			{ChangeMedium, "disks.iso", []string{`dev="sda"`, "<address"}},
		},
	},
	{
		"interface moves and is plugged, in one call", "host-model",
		func(s *Spec) { s.Interfaces["br"] = Interface{Network: "default", LinkUp: new(true)} },
		[]expectedStep{{Update, "interfaces.br", []string{`network="default"`, `state="up"`, `type="network"`, "<mac"}}},
	},
	{
		"only what is live of one interface's changes", "host-model",
		func(s *Spec) { s.Interfaces["br"] = Interface{Bridge: "br0", LinkUp: new(true), Model: "e1000e"} },
		[]expectedStep{{Update, "interfaces.br", []string{`state="up"`, `type="virtio"`}}},
	},
	{
		"interface comes and goes", "host-model",
		func(s *Spec) {
			delete(s.Interfaces, "u")
			s.Interfaces["v"] = Interface{Bridge: "br1", MAC: "52:54:00:00:00:99"}
		},
		[]expectedStep{
			{Detach, "interfaces.u", []string{"<mac"}},
			{Attach, "interfaces.v", []string{`bridge="br1"`, `address="52:54:00:00:00:99"`, "ua-net-v"}},
		},
	},
	{
		"foreign devices are named, not exchanged", "foreign-i440fx",
		func(s *Spec) {
			s.Disks = map[string]Disk{
				"root": {Source: DiskSource{File: "/srv/vm/d.raw"}}, "cd": {Device: "cdrom"},
			}
			s.Interfaces = map[string]Interface{"lan": {Network: "default"}, "wan": {Network: "default"}}
		},
		nil,
	},
	{
		"what needs a restart is no step", "host-model",
		func(s *Spec) {
			s.Name, s.CPU.Cores, s.Kernel = "other", new(2), &Kernel{Path: "/k"}
			s.Disks["sata"] = Disk{Source: DiskSource{File: "/x"}, Bus: "sata"}
		},
		nil,
	},
}

func TestLiveSteps(t *testing.T) {
	t.Parallel()
	for _, test := range liveTable {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := livePairs(t)[test.sample]
			live, persistent := pair[0], pair[1]
			want := Spec{Disks: live.Spec().Disks, Interfaces: live.Spec().Interfaces}
			test.change(&want)
			if err := persistent.Apply(want); err != nil {
				t.Fatal(err)
			}
			steps, err := LiveSteps(live, persistent, persistent, want)
			if err != nil {
				t.Fatal(err)
			}
			if len(steps) != len(test.want) {
				t.Fatalf("steps: %v", steps)
			}
			for i, step := range steps {
				if step.Kind != test.want[i].kind || step.Path != test.want[i].path {
					t.Errorf("step %d: %v %s", i, step.Kind, step.Path)
				}
				for _, part := range test.want[i].parts {
					if !strings.Contains(step.XML, part) {
						t.Errorf("step %d: no %s in %s", i, part, step.XML)
					}
				}
			}
		})
	}
}

// What a rule calls live, and no call is made for, would be planned and never be done.
func TestLiveSteps_everyLiveRuleIsACall(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for _, test := range liveTable {
		pair := livePairs(t)[test.sample]
		want := Spec{Disks: pair[0].Spec().Disks, Interfaces: pair[0].Spec().Interfaces}
		test.change(&want)
		for _, c := range classify(pair[0].Spec(), want) {
			for _, step := range test.want {
				if step.kind == c.step && strings.HasPrefix(c.Path+".", strings.SplitN(step.path, ".", 2)[0]+".") {
					made[c.Why] = true
				}
			}
		}
	}
	for row, r := range rules {
		if r.step != 0 && !made[r.why] {
			t.Errorf("no case for the live rule %q in liveTable: maybe LiveSteps makes no call for it", row)
		}
	}
}

func TestLiveSteps_transientDomain(t *testing.T) {
	t.Parallel()
	live := livePairs(t)["host-model"][0]
	steps, err := LiveSteps(live, nil, nil, Spec{Interfaces: map[string]Interface{"lan": {Network: "default"}}})
	if err != nil || len(steps) != 2 || steps[0].Kind != Detach {
		t.Errorf("steps: %v, %v", steps, err)
	}
}

// Without a controller in the running VM libvirt would add its oldest one.
func TestLiveSteps_bringsTheControllerFirst(t *testing.T) {
	t.Parallel()
	pair := livePairs(t)["host-model"]
	drop(pair[0].controllers("scsi")[0])
	want := Spec{Disks: pair[0].Spec().Disks}
	want.Disks["s"] = Disk{Source: DiskSource{File: "/s"}, Bus: "scsi"}
	if err := pair[1].Apply(want); err != nil {
		t.Fatal(err)
	}
	steps, err := LiveSteps(pair[0], pair[1], pair[1], want)
	if err != nil || len(steps) != 2 || !strings.Contains(steps[0].XML, `model="virtio-scsi"`) {
		t.Errorf("steps: %v, %v", steps, err)
	}
}

func TestStepKind_String(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range append(stepOrder, 0) {
		seen[kind.String()] = true
	}
	if len(seen) != len(stepOrder)+1 {
		t.Errorf("kinds have %d names", len(seen))
	}
}

// A disk was renamed while the VM runs, and another disk gets its old key. The running disk keeps its old alias until
// the next start, and libvirt refuses a second device with it.
func TestLiveSteps_keyIsUsedAgain(t *testing.T) {
	t.Parallel()
	const before = `<domain type="qemu"ID><name>v</name><uuid>6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10</uuid>
  <memory>65536</memory><os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os><devices>
  <controller type="pci" index="0" model="pcie-root"/><controller type="pci" index="1" model="pcie-root-port"/>
  <controller type="pci" index="2" model="pcie-root-port"/><controller type="pci" index="3" model="pcie-root-port"/>
  <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/a"/><target dev="vda" bus="virtio"/>
  <alias name="ua-disk-a"/></disk></devices></domain>`
	live := parse(t, strings.Replace(before, "ID", ` id="1"`, 1))
	persistent := parse(t, strings.Replace(before, "ID", "", 1))
	want := Spec{Disks: map[string]Disk{
		"b": {Source: DiskSource{File: "/a"}, Format: "raw", Bus: "virtio"},
		"a": {Source: DiskSource{File: "/b"}, Format: "raw", Bus: "virtio"},
	}}
	renamed := Spec{Disks: map[string]Disk{"b": want.Disks["b"]}}
	for _, applied := range []Spec{renamed, want} {
		if err := persistent.Apply(applied); err != nil {
			t.Fatal(err)
		}
	}
	if have := persistent.Spec().Disks; have["b"].Source.File != "/a" || have["a"].Source.File != "/b" {
		t.Errorf("the definition has %+v", have)
	}
	steps, err := LiveSteps(live, persistent, persistent, want)
	if err != nil {
		t.Fatal(err)
	}
	var attached []string
	for _, s := range steps {
		if s.Kind == Attach {
			attached = append(attached, s.XML)
		}
		if s.Kind == Detach {
			t.Errorf("a disk that is only renamed is detached: %s", s.XML)
		}
	}
	if len(attached) != 1 || !strings.Contains(attached[0], `"/b"`) || strings.Contains(attached[0], `"ua-disk-a"`) {
		t.Errorf("attached is %q, with the alias of a running disk", attached)
	}
}

// A device that a host refused to plug in is taken out of the definition again, whatever its kind; others stay.
func TestSpec_WithoutDevice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path  string
		keyed bool
	}{
		{"disks.root", true},
		{"interfaces.lan", true},
		{"devices.inputs.0", true},
		{"guest_agent", false},
		{"devices.rng", false},
	} {
		s := full()
		s.Values, s.GuestAgent = Values{"devices.rng.model": "virtio"}, new(true)
		s.Inputs = map[string]Row{"0": {}, "1": {}}
		without, ok := s.WithoutDevice(test.path)
		if !ok || s.HasDevice(test.path) != test.keyed || without.HasDevice(test.path) {
			t.Errorf("%s: %t, before %t, afterwards %t", test.path, ok, s.HasDevice(test.path), without.HasDevice(test.path))
		}
		if cmp.Diff(s, without) == "" {
			t.Errorf("%s: the spec is the same", test.path)
		}
	}
	for _, path := range []string{"memory.size", "disks.root.io_tune", "cpu.vcpus", ExtraDevices + ".a"} {
		if _, ok := full().WithoutDevice(path); ok || full().HasDevice(path) {
			t.Errorf("%s is a device", path)
		}
	}
}
