package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		spec func(*Spec)
		// path and a part of the message; "" where all is well.
		path, message string
	}{
		{"everything", func(*Spec) {}, "", ""},
		{"nothing", func(s *Spec) { *s = Spec{} }, "", ""},
		{"slash in the name", func(s *Spec) { s.Name = "a/b" }, "name", "slashes"},
		{"space around the name", func(s *Spec) { s.Name = " a" }, "name", "space"},
		{"dot", func(s *Spec) { s.Name = ".." }, "name", "file names"},
		{"long name", func(s *Spec) { s.Name = strings.Repeat("a", 201) }, "name", "200"},
		{"type", func(s *Spec) { s.Type = "vbox" }, "type", "kvm, qemu"},

		{"no cores", func(s *Spec) { s.CPU = CPU{Cores: new(0)} }, "cpu.cores", "from 1"},
		{"too many", func(s *Spec) { s.CPU = CPU{VCPUs: new(513)} }, "cpu.vcpus", "512"},
		{"too many together", func(s *Spec) { s.CPU = CPU{Sockets: new(30), Cores: new(30)} }, "cpu", "512"},
		{"vcpus that don't fit", func(s *Spec) { s.CPU.VCPUs = new(5) }, "cpu.vcpus", "sockets x cores"},
		{"vcpus with parts left out", func(s *Spec) { s.CPU = CPU{VCPUs: new(8), Sockets: new(2)} }, "", ""},
		{"less room than sockets", func(s *Spec) { s.CPU.MaxSockets = new(1) }, "cpu.max_sockets", "less"},
		{"mode", func(s *Spec) { s.CPU = CPU{Mode: new("best")} }, "cpu.mode", "host-model"},
		{"model without custom", func(s *Spec) { s.CPU.Mode = new("maximum") }, "cpu.model", "custom"},
		{"custom without model", func(s *Spec) { s.CPU.Model = nil }, "cpu.model", "needs"},

		{"no memory", func(s *Spec) { s.Memory.Size = new(uint64(0)) }, "memory.size", "1Mi"},
		{"no unit", func(s *Spec) { s.Memory.Size = new(uint64(2048)) }, "memory.size", "this is 2048 bytes"},
		{"odd memory", func(s *Spec) { s.Memory.Size = new(uint64(2_000_000_000)) }, "memory.size", "1907Mi and 1908Mi"},
		{"odd maximum", func(s *Spec) { s.Memory.MaxSize = new(uint64(5_000_000_000)) }, "memory.max_size", "Mi"},
		{"less maximum", func(s *Spec) { s.Memory.MaxSize = new(uint64(mib)) }, "memory.max_size", "less"},

		{
			"pages larger than the memory", hugePagesOf("8Ti"), "memory.huge_pages",
			"A page of 8192Gi doesn't fit into memory.size",
		},
		{"pages larger than a cell", func(s *Spec) {
			s.CPU, s.Memory = CPU{VCPUs: new(1)}, Memory{Size: new(uint64(3 << 29))}
			s.Values = Values{cpuNUMA: "0.cpus=0\n0.memory=1073741824\n1.memory=536870912\n", hugePages: "1Gi"}
		}, "memory.huge_pages", "the memory of cell 1 of 512Mi"},
		{"part of a page in a memfd", func(s *Spec) {
			s.Memory = Memory{Size: new(uint64(3 << 29))}
			s.Values = Values{hugePages: "1Gi", "memory.source": "memfd"}
		}, "memory.huge_pages", "whole pages of 1Gi"},
		{"part of a page in a file", func(s *Spec) {
			s.Memory, s.Values = Memory{Size: new(uint64(3 << 29))}, Values{hugePages: "1Gi"}
		}, "", ""},
		{"pages larger than their cell", func(s *Spec) {
			s.Values = Values{cpuNUMA: "0.cpus=0-7\n0.memory=1073741824\n1.memory=536870912\n", cellPages: "0=2Mi\n1=1Gi\n"}
		}, cellPages, "the memory of cell 1 of 512Mi"},
		{"pages of no cell", func(s *Spec) {
			s.Values = Values{cpuNUMA: "0.cpus=0-7\n0.memory=1073741824\n", cellPages: "1=2Mi\n"}
		}, cellPages, "cpu.numa has no cell 1."},
		{
			"pages of a cell without a number", func(s *Spec) { s.Values = Values{cellPages: "a=2Mi\n"} }, cellPages,
			"isn't the number of a cell",
		},
		{"no size of a page", hugePagesOf("3Mi"), "memory.huge_pages", "isn't the size of a page"},

		{"firmware", func(s *Spec) { s.Firmware.Type = new("uboot") }, "firmware.type", "bios, efi"},
		{"secure bios", func(s *Spec) { s.Firmware = Firmware{new("bios"), new(true)} }, "firmware.secure_boot", "efi"},
		{
			"secure boot on the old machine", func(s *Spec) { s.Machine, s.Firmware.SecureBoot = "pc", new(true) },
			"firmware.secure_boot", "q35",
		},
		{"initrd alone", func(s *Spec) { s.Kernel = &Kernel{Initrd: "/i"} }, "kernel.path", "kernel"},
		{"no kernel", func(s *Spec) { s.Kernel = &Kernel{} }, "", ""},

		{"key", func(s *Spec) { s.Disks["a.b"] = s.Disks["cd"]; delete(s.Disks, "cd") }, "disks.a.b", "letters"},
		{"empty key", func(s *Spec) { s.Interfaces[""] = Interface{User: true} }, "interfaces.", "letters"},
		{"device", disk("root", func(d *Disk) { d.Device = "tape" }), "disks.root.device", "cdrom"},
		{"bus", disk("root", func(d *Disk) { d.Bus = "nubus" }), "disks.root.bus", "virtio"},
		{"format", disk("root", func(d *Disk) { d.Format = "zip" }), "disks.root.format", "qcow2"},
		{"format of QEMU alone", disk("root", func(d *Disk) { d.Format = "vhdx" }), "disks.root.format", "qcow2"},
		{"rare network card", nic("lan", func(i *Interface) { i.Model = "ne2k_isa" }), "", ""},
		{"layout that QEMU had", func(s *Spec) {
			s.Values = Values{"devices.graphics.type": "vnc", "devices.graphics.keymap": "nl-be"}
		}, "", ""},
		{"TPM of the host", func(s *Spec) { s.Values = Values{"devices.tpm.model": "spapr-tpm-proxy"} }, "", ""},
		{"cache", disk("root", func(d *Disk) { d.Cache = "l2" }), "disks.root.cache", "writeback"},
		{"two sources", disk("root", func(d *Disk) { d.Source.Block = "/dev/a" }), "disks.root", "one source"},
		{"no source", disk("root", func(d *Disk) { d.Source = DiskSource{} }), "disks.root", "needs a source"},
		{"empty drive", disk("cd", func(d *Disk) { d.Source = DiskSource{} }), "", ""},
		{"foreign source", disk("root", func(d *Disk) { d.Source = DiskSource{Other: "nvme:x"} }), "", ""},
		{"relative path", disk("root", func(d *Disk) { d.Source.File = "disk.img" }), "disks.root.file", "absolute"},
		{"relative device", disk("root", func(d *Disk) { d.Source = DiskSource{Block: "sda"} }), "disks.root.block", "abs"},
		{"CD on virtio", disk("cd", func(d *Disk) { d.Bus = "virtio" }), "disks.cd.bus", "sata, scsi"},
		{"disk on fdc", disk("root", func(d *Disk) { d.Bus = "fdc" }), "disks.root.bus", "Floppy"},
		{"lun on sata", disk("root", func(d *Disk) {
			d.Device, d.Bus, d.Source = "lun", "sata", DiskSource{Block: "/dev/l"}
		}), "disks.root.bus", "lun"},
		{"lun in a file", disk("root", func(d *Disk) { d.Device = "lun" }), "disks.root.file", "block device"},
		{"writable CD", disk("cd", func(d *Disk) { d.ReadOnly = new(false) }), "disks.cd.read_only", "read-only"},
		{"read-only SATA", disk("cold", func(d *Disk) { d.ReadOnly = new(true) }), "disks.cold.read_only", "sata"},
		{
			"long serial", disk("root", func(d *Disk) { d.Serial = new(strings.Repeat("1", 21)) }),
			"disks.root.serial", "20 characters",
		},
		{
			"serial of an SD card", disk("root", func(d *Disk) { d.Bus, d.Serial = "sd", new("abc") }),
			"disks.root.serial", "SD cards",
		},
		{"model of a virtual switch's port", func(s *Spec) {
			s.Interfaces["lan"] = Interface{VHostUser: "/run/s", VHostUserMode: "client", Model: "e1000"}
		}, "interfaces.lan.model", "virtio"},
		{"CPU without a cell", func(s *Spec) {
			s.CPU, s.Memory.MaxSize = CPU{VCPUs: new(2)}, nil
			s.Values = Values{cpuNUMA: "0.cpus=0\n0.memory=68719476736\n"}
		}, "cpu.numa", "None has 1"},
		{
			"SMBIOS entry", func(s *Spec) { s.Values = Values{"platform.smbios.bios": "serial=1\n"} },
			"platform.smbios.bios", "vendor",
		},
		{
			"variables in a device", func(s *Spec) { s.Values = Values{"firmware.nvram": "/dev/urandom"} },
			"firmware.nvram", "removes it",
		},
		{"boot order -1", disk("root", func(d *Disk) { d.BootOrder = new(-1) }), "disks.root.boot_order", "from 1"},
		{"same boot order", disk("cd", func(d *Disk) { d.BootOrder = new(2) }), "interfaces.lan.boot_order", "disks.cd"},

		{"protocol", network("x", "n", "h:1"), "disks.root.network.protocol", "rbd"},
		{"no export", network("rbd", "", "h:1"), "disks.root.network.name", "declared"},
		{"no host", network("nbd", "n"), "disks.root.network.hosts", "host"},
		{"ceph finds hosts itself", network("rbd", "p/i"), "", ""},
		{"port", network("nbd", "n", "h:70000"), "disks.root.network.hosts", "host:port"},
		{"port 0", network("nbd", "n", "h:0"), "disks.root.network.hosts", "host:port"},
		{"no name", network("nbd", "n", ":10809"), "disks.root.network.hosts", "host:port"},
		{"too many colons", network("nbd", "n", "h:1:2"), "disks.root.network.hosts", "host:port"},
		{"all kinds of hosts", network("nbd", "n", "h", "h:1", "[fd00::1]:1", "fd00::1", "unix:/s"), "", ""},

		{"no connection", nic("lan", func(i *Interface) { i.Network = "" }), "interfaces.lan", "one of"},
		{"two connections", nic("lan", func(i *Interface) { i.Bridge = "b" }), "interfaces.lan", "one of"},
		{"model", nic("lan", func(i *Interface) { i.Model = "ne1000" }), "interfaces.lan.model", "e1000e"},
		{
			"long bridge", nic("lan", func(i *Interface) { i.Network, i.Bridge = "", "bridge0123456789" }),
			"interfaces.lan.bridge", "15",
		},
		{"MAC", nic("lan", func(i *Interface) { i.MAC = "52:54:00" }), "interfaces.lan.mac", "52:54:00:12:34:56"},
		{"MAC with dashes", nic("lan", func(i *Interface) { i.MAC = "52-54-00-00-00-01" }), "interfaces.lan.mac", "MAC"},
		{"group MAC", nic("lan", func(i *Interface) { i.MAC = "53:54:00:00:00:01" }), "interfaces.lan.mac", "groups"},
	} {
		spec := full()
		test.spec(&spec)
		problems := spec.Validate()
		switch {
		case test.path == "" && len(problems) > 0:
			t.Errorf("%s: %v", test.name, problems)
		case test.path == "":
		case len(problems) != 1 || problems[0].Path != test.path || !strings.Contains(problems[0].Message, test.message):
			t.Errorf("%s: %v", test.name, problems)
		case !strings.HasSuffix(problems[0].Message, "."):
			t.Errorf("%s: not a sentence: %s", test.name, problems[0].Message)
		}
	}
}

// TestValidate_oneProblemForOneMistake: what follows from a wrong value isn't a mistake of its own.
func TestValidate_oneProblemForOneMistake(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		spec func(*Spec)
		want string
	}{
		{"mtu", values("lan", "mtu", "-1"), "interfaces.lan.mtu"},
		{"mtu of QEMU's own network", nic("lan", func(i *Interface) {
			*i = Interface{User: true, Values: Values{"mtu": "10"}}
		}), "interfaces.lan.mtu"},
		{"queues", nic("lan", func(i *Interface) {
			i.Model, i.Values = "e1000", Values{"queues": "-1"}
		}), "interfaces.lan.queues"},
		{"port", func(s *Spec) {
			s.Values = Values{"devices.graphics.type": "vnc", "devices.graphics.port": "99999"}
		}, "devices.graphics.port"},
		{"keyboard layout", func(s *Spec) {
			s.Values = Values{"devices.graphics.type": "vnc", "devices.graphics.keymap": "en_US"}
		}, "devices.graphics.keymap"},
		{"model of a TPM", func(s *Spec) {
			s.Values = Values{"devices.tpm.model": "tpm-spapr-proxy"}
		}, "devices.tpm.model"},
		{"type of a host device", func(s *Spec) {
			s.HostDevices = map[string]Row{"a": {"type": "isa", "address": "x"}}
		}, "devices.host_devices.a.type"},
		{"sockets", func(s *Spec) { s.CPU = CPU{Sockets: new(600), MaxSockets: new(4)} }, "cpu.sockets"},
		{"maximum of sockets", func(s *Spec) { s.CPU = CPU{Sockets: new(2), MaxSockets: new(0)} }, "cpu.max_sockets"},
		{"mode", func(s *Spec) { s.CPU = CPU{Mode: new("best"), Model: new("Nehalem")} }, "cpu.mode"},
		{"set of a cell", func(s *Spec) {
			s.CPU, s.Memory = CPU{VCPUs: new(1)}, Memory{Size: new(uint64(1 << 30))}
			s.Values = Values{cpuNUMA: "0.cpus=0-x\n0.memory=1073741824\n"}
		}, "cpu.numa.0.cpus"},
		{"memory of a cell", func(s *Spec) {
			s.CPU, s.Memory = CPU{VCPUs: new(1)}, Memory{Size: new(uint64(1 << 30))}
			s.Values = Values{cpuNUMA: "0.cpus=0\n"}
		}, "cpu.numa.0.memory"},
		{"mode and device", nic("lan", func(i *Interface) {
			*i = Interface{Direct: "name-of-a-device-", DirectMode: "shared"}
		}), "interfaces.lan.direct.device interfaces.lan.direct.mode"},
	} {
		spec := full()
		test.spec(&spec)
		var got []string
		for _, p := range spec.Validate() {
			got = append(got, p.Path)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.name, spec.Validate(), test.want)
		}
	}
}

// hugePagesOf declares huge pages.
func hugePagesOf(size string) func(*Spec) {
	return func(s *Spec) { s.Values = Values{hugePages: size} }
}

// values declares a value of an interface.
func values(key, name, value string) func(*Spec) {
	return nic(key, func(i *Interface) { i.Values = Values{name: value} })
}

// TestSharedMACs: the interfaces are named, unless they are a pair as virtio's failover has it.
func TestSharedMACs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]Problem{
		"nics-share-a-mac": {{
			"interfaces.net1.mac", "The interfaces net0 and net1 have the same address 52:54:00:0a:0a:0a.",
		}},
		"nics-share-a-mac-three": {{
			"interfaces.net2.mac", "The interfaces net0 and net1 and net2 have the same address 52:54:00:0a:0a:0c.",
		}},
		"nics-share-a-mac-team": nil, "teaming-hostdev": nil, "bridge-two-nics": nil,
	} {
		got := parse(t, corpus(t)["testdata/corpus/"+name+".xml"]).Spec().SharedMACs()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func network(protocol, name string, hosts ...string) func(*Spec) {
	return disk("root", func(d *Disk) {
		d.Source = DiskSource{Network: &NetworkSource{Protocol: protocol, Name: name, Hosts: hosts}}
	})
}

// A configuration that is generated for a VM that came from anywhere must be accepted.
func TestValidate_acceptsWhatIsRead(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		if name == "minimal" || name == "strange" || name == "controllers" {
			continue // These aren't as libvirt gives them.
		}
		if problems := parse(t, xml).Spec().Validate(); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
