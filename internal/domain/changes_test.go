package domain

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// full is a spec with a value for every field that can be declared; of the groups in Values, a few.
func full() Spec {
	return Spec{
		Name: "vm", UUID: "u", Type: "kvm", Arch: "x86_64", Machine: "pc-q35-7.2",
		CPU: CPU{
			VCPUs: new(4), Sockets: new(2), Cores: new(2), Threads: new(1), MaxSockets: new(4),
			Mode: new("custom"), Model: new("Nehalem"),
		},
		Memory: Memory{
			Size: new(uint64(1 << 30)), MaxSize: new(uint64(4 << 30)), Installed: new(uint64(1 << 30)),
		},
		Firmware: Firmware{Type: new("efi"), SecureBoot: new(false)},
		Kernel:   &Kernel{Path: "/k", Initrd: "/i", Cmdline: "c"},
		Ignition: new("/ignition"),
		Disks: map[string]Disk{
			"root": {
				Source: DiskSource{File: "/root"}, Device: "disk", Bus: "virtio", Format: "raw", Cache: "none", Serial: new("s"),
				ReadOnly: new(false), BootOrder: new(1), Target: "vda",
			},
			"cd":   {Source: DiskSource{File: "/iso"}, Device: "cdrom", Bus: "sata", Format: "raw", Target: "sda"},
			"cold": {Source: DiskSource{File: "/cold"}, Device: "disk", Bus: "sata", Format: "raw", Target: "sdb"},
		},
		Interfaces: map[string]Interface{
			"lan": {
				Network: "default", Model: "virtio", MAC: "52:54:00:00:00:01", LinkUp: new(true), BootOrder: new(2),
			},
			"user": {User: true, Model: "virtio", MAC: "52:54:00:00:00:02"},
		},
		GuestAgent: new(true), SerialConsole: new(true), FreeSlots: new(2),
		Inputs:   map[string]Row{"tablet": {"type": "tablet", "bus": "usb"}},
		Serials:  map[string]Row{"log": {"type": "unix", "path": "/log", "log_file": "/l", "log_append": "yes"}},
		Channels: map[string]Row{"spice": {"type": "unix", "path": "/s", "name": "org.example"}},
		Filesystems: map[string]Row{"share": {
			"target": "share", "source": "/srv", "driver": "9p", "access_mode": "mapped", "read_only": "yes",
		}},
		Consoles:     map[string]Row{"log": {"type": "file", "path": "/c"}},
		VirtioMem:    map[string]Row{"more": {"size": "1073741824", "requested": "2097152"}},
		NVDIMMs:      map[string]Row{"log": {"path": "/n", "size": "1073741824"}},
		Redirdevs:    map[string]Row{"usb": {"type": "tcp", "host": "10.0.0.1", "service": "4000"}},
		HostDevices:  map[string]Row{"gpu": {"type": "pci", "address": "0000:65:00.0"}},
		ExtraDevices: map[string]string{"shared": `<shmem name="a"><size unit="M">4</size></shmem>`},
		Values: Values{
			"platform.hotplug_ports": "4", "qemu_commandline.args": `["-name","b"]`, "qemu_commandline.env": "A=b\n",
			"devices.smartcard.mode": "passthrough", "devices.smartcard.type": "spicevmc",
			"title": "A VM", "description": "What it is for", "platform.events.on_crash": "restart",
			"platform.events.on_reboot": "restart", "platform.events.on_poweroff": "destroy",
			"devices.tpm.model": "tpm-crb", "devices.tpm.backend": "emulator",
			"devices.tpm.version": "2.0", "devices.rng.model": "virtio", "devices.rng.backend": "random",
			"devices.rng.source": "/dev/urandom", "devices.rng.rate_bytes": "1024", "devices.rng.rate_period": "1000",
			"devices.watchdog.model": "i6300esb", "devices.watchdog.action": "reset",
		},
	}
}

// addSerials adds a serial port of each kind that differs in how it comes.
func addSerials(s *Spec) {
	for key, kind := range map[string]string{"isa": "isa-serial", "pci": "pci-serial", "usb": "usb-serial"} {
		s.Serials[key] = Row{"type": "null", "target_type": kind}
	}
}

func addNVDIMM(s *Spec) {
	s.NVDIMMs = map[string]Row{"log": full().NVDIMMs["log"], "more": {"path": "/m", "size": "1073741824"}}
}

func disk(key string, change func(*Disk)) func(*Spec) {
	return func(s *Spec) {
		d := s.Disks[key]
		change(&d)
		s.Disks[key] = d
	}
}

func nic(key string, change func(*Interface)) func(*Spec) {
	return func(s *Spec) {
		i := s.Interfaces[key]
		change(&i)
		s.Interfaces[key] = i
	}
}

// Each row is one way to change a VM: what is there, what is declared, and what becomes of it.
var changeTable = []struct {
	name string
	have func(*Spec)
	want func(*Spec)
	// result is path and live, restart or replace, separated by spaces; several by commas.
	result string
}{
	{
		"extra devices", nil, func(s *Spec) { s.ExtraDevices = map[string]string{"hub": "<hub type='usb'/>"} },
		"extra_device_xml.shared restart, extra_device_xml.hub restart",
	},
	{
		"extra device", nil, func(s *Spec) { s.ExtraDevices = map[string]string{"shared": "<shmem name='b'/>"} },
		"extra_device_xml.shared restart",
	},
	{
		"extra device in other notation", nil, func(s *Spec) {
			s.ExtraDevices = map[string]string{
				"shared": "<shmem name='a'>\n  <!-- 4 MB -->\n  <size unit='KiB'>4096</size>\n</shmem>\n",
			}
		}, "",
	},
	{"name", nil, func(s *Spec) { s.Name = "other" }, "name restart"},
	{"type", nil, func(s *Spec) { s.Type = "qemu" }, "type restart"},
	{"arch", nil, func(s *Spec) { s.Arch = "aarch64" }, "arch replace"},
	{"machine", nil, func(s *Spec) { s.Machine = "pc" }, "machine_type replace"},
	{"machine alias", nil, func(s *Spec) { s.Machine = "q35" }, ""},
	{"machine version", nil, func(s *Spec) { s.Machine = "pc-q35-8.0" }, "machine_type restart"},

	{"more sockets", nil, func(s *Spec) { s.CPU = CPU{Sockets: new(4)} }, "cpu.sockets live"},
	{"more vcpus", nil, func(s *Spec) { s.CPU = CPU{VCPUs: new(6)} }, "cpu.vcpus live"},
	{
		"more sockets on ARM", func(s *Spec) { s.Arch = "aarch64" },
		func(s *Spec) { s.Arch, s.CPU = "aarch64", CPU{Sockets: new(4)} }, "cpu.sockets restart",
	},
	{"fewer sockets", nil, func(s *Spec) { s.CPU = CPU{Sockets: new(1)} }, "cpu.sockets restart"},
	{"too many sockets", nil, func(s *Spec) { s.CPU = CPU{Sockets: new(5)} }, "cpu.sockets restart"},
	{
		"more sockets and room for more", nil,
		func(s *Spec) { s.CPU = CPU{Sockets: new(3), MaxSockets: new(8)} }, "cpu.sockets live, cpu.max_sockets restart",
	},
	{
		"more sockets of other cores", nil,
		func(s *Spec) { s.CPU = CPU{Sockets: new(4), Cores: new(4)} }, "cpu.sockets restart, cpu.cores restart",
	},
	{"threads", nil, func(s *Spec) { s.CPU = CPU{Threads: new(2)} }, "cpu.threads restart"},
	{"mode", nil, func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("maximum"), nil }, "cpu.mode restart"},
	{"model", nil, func(s *Spec) { s.CPU.Model = new("Haswell") }, "cpu.model restart"},
	{
		"expanded host-model is host-model", expanded("EPYC", "AMD"),
		func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("host-model"), nil }, "",
	},
	{"expanded model is that model", expanded("Nehalem", ""), func(*Spec) {}, ""},
	{
		"expanded host-model isn't host-passthrough", expanded("EPYC", "AMD"),
		func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("host-passthrough"), nil }, "cpu.mode restart",
	},
	{
		"expanded model isn't host-model", expanded("Nehalem", ""),
		func(s *Spec) { s.CPU.Mode, s.CPU.Model = new("host-model"), nil }, "cpu.mode restart",
	},
	{
		"expanded model isn't another", expanded("Nehalem", ""),
		func(s *Spec) { s.CPU.Model = new("Haswell") }, "cpu.model restart",
	},

	{"balloon down", nil, func(s *Spec) { s.Memory.Size = new(uint64(1 << 29)) }, "memory.size live"},
	{
		"balloon up", func(s *Spec) { s.Memory.Size = new(uint64(1 << 29)) },
		func(*Spec) {}, "memory.size live",
	},
	{
		"no balloon", func(s *Spec) { s.Memory.Fixed = true },
		func(s *Spec) { s.Memory.Size = new(uint64(1 << 29)) }, "memory.size restart",
	},
	{"plug memory", nil, func(s *Spec) { s.Memory.Size = new(uint64(2 << 30)) }, "memory.size live"},
	{
		"plug less than a huge page", pages(0),
		pages(1<<30 + 512*mib), "memory.size restart",
	},
	{
		"plug a huge page", pages(0),
		pages(2 << 30), "memory.size live",
	},
	{"plug odd memory", nil, func(s *Spec) { s.Memory.Size = new(uint64(1<<30 + mib)) }, "memory.size restart"},
	{
		"memory beyond the maximum", nil,
		func(s *Spec) { s.Memory = Memory{Size: new(uint64(8 << 30))} }, "memory.size restart",
	},
	{"room for memory", nil, func(s *Spec) { s.Memory.MaxSize = new(uint64(8 << 30)) }, "memory.max_size restart"},

	{"firmware", nil, func(s *Spec) { s.Firmware = Firmware{Type: new("bios")} }, "firmware.type restart"},
	{"secure boot", nil, func(s *Spec) { s.Firmware.SecureBoot = new(true) }, "firmware.secure_boot restart"},
	{"kernel", nil, func(s *Spec) { s.Kernel = &Kernel{Path: "/other"} }, "kernel restart"},
	{"ignition", nil, func(s *Spec) { s.Ignition = new("/other") }, "ignition restart"},
	{"no ignition", nil, func(s *Spec) { s.Ignition = new("") }, "ignition restart"},
	{"no kernel", nil, func(s *Spec) { s.Kernel = &Kernel{} }, "kernel restart"},
	{"agent goes", nil, func(s *Spec) { s.GuestAgent = new(false) }, "guest_agent live"},
	{"agent comes", func(s *Spec) { s.GuestAgent = new(false) }, func(*Spec) {}, "guest_agent live"},
	{
		"agent comes without a controller", func(s *Spec) { s.GuestAgent, s.Buses = new(false), []string{"usb"} },
		func(*Spec) {}, "guest_agent restart",
	},
	{
		"USB disk comes without a controller", func(s *Spec) { s.Buses = []string{string(busSerial)} },
		addDisk(Disk{Bus: "usb"}),
		"disks.new restart",
	},
	{
		"channel comes without a controller", func(s *Spec) { s.Buses = []string{"usb"} },
		func(s *Spec) { s.Channels = map[string]Row{"b": {"type": "unix", "name": "b"}} },
		"devices.channels.spice live, devices.channels.b restart",
	},
	{
		"consoles come and go", nil, func(s *Spec) { s.Consoles = map[string]Row{"b": {"type": "null"}} },
		"devices.consoles.log live, devices.consoles.b live",
	},
	{
		"console comes without a controller", func(s *Spec) { s.Buses = []string{"usb"} },
		func(s *Spec) { s.Consoles = map[string]Row{"b": {"type": "null"}} },
		"devices.consoles.log live, devices.consoles.b restart",
	},
	{
		"host device comes without a slot", func(s *Spec) { s.FreeSlots, s.HostDevices = new(0), nil }, func(*Spec) {},
		"devices.host_devices.gpu restart",
	},
	{
		"no slot for memory", func(s *Spec) { s.Memory.Full = true }, func(s *Spec) { s.Memory.Size = new(uint64(2 << 30)) },
		"memory.size restart",
	},
	{"console", nil, func(s *Spec) { s.SerialConsole = new(false) }, "serial_console restart"},

	{"disk comes", nil, addDisk(Disk{}), "disks.new live"},
	{"SCSI disk comes", nil, addDisk(Disk{Bus: "scsi"}), "disks.new live"},
	{"SATA disk comes", nil, addDisk(Disk{Bus: "sata"}), "disks.new restart"},
	{"drive comes", nil, addDisk(Disk{Device: "cdrom"}), "disks.new restart"},
	{"no slot left", func(s *Spec) { s.FreeSlots = new(0) }, addDisk(Disk{}), "disks.new restart"},
	{
		"a slot becomes free", func(s *Spec) { s.FreeSlots = new(0) },
		func(s *Spec) { delete(s.Disks, "root"); addDisk(Disk{})(s) }, "disks.root live, disks.new live",
	},
	{"disk comes into the boot order", nil, addDisk(Disk{BootOrder: new(3)}), "disks.new live"},
	{
		"disk takes another's place in the boot order", nil,
		addDisk(Disk{BootOrder: new(2)}), "disks.new restart",
	},
	{
		"a first boot order", func(s *Spec) {
			disk("root", func(d *Disk) { d.BootOrder = nil })(s)
			nic("lan", func(i *Interface) { i.BootOrder = nil })(s)
		},
		func(s *Spec) {
			disk("root", func(d *Disk) { d.BootOrder = nil })(s)
			nic("lan", func(i *Interface) { i.BootOrder = nil })(s)
			addDisk(Disk{BootOrder: new(1)})(s)
		}, "disks.new restart",
	},
	{"disk goes", nil, func(s *Spec) { delete(s.Disks, "root") }, "disks.root live"},
	{"SATA disk goes", nil, func(s *Spec) { delete(s.Disks, "cold") }, "disks.cold restart"},
	{"drive goes", nil, func(s *Spec) { delete(s.Disks, "cd") }, "disks.cd restart"},
	{
		"disk is renamed", nil,
		func(s *Spec) { s.Disks["sys"] = s.Disks["root"]; delete(s.Disks, "root") }, "disks.sys live",
	},
	{
		"the first disk of several goes", disksOf("/1", "/2", "/3"), disksOf("/2", "/3"),
		"disks.d2 restart, disks.d0.file restart, disks.d1.file restart",
	},
	{
		"a disk comes before others", disksOf("/1", "/2"), disksOf("/0", "/1", "/2"),
		"disks.d0.file restart, disks.d1.file restart, disks.d2 restart",
	},
	{"the last disk of several goes", disksOf("/1", "/2", "/3"), disksOf("/1", "/2"), "disks.d2 live"},
	{
		"a disk comes while another is exchanged", disksOf("/1", "/2"), disksOf("/1", "/4", "/3"),
		"disks.d1.file restart, disks.d2 live",
	},
	{"disks not declared", nil, func(s *Spec) { s.Disks = nil }, ""},
	{"medium", nil, disk("cd", func(d *Disk) { d.Source.File = "/other" }), "disks.cd.file live"},
	{
		"medium on usb", disk("cd", func(d *Disk) { d.Bus = "usb" }),
		disk("cd", func(d *Disk) { d.Bus, d.Source.File = "usb", "/other" }), "disks.cd.file restart",
	},
	{"medium of another format", nil, disk("cd", func(d *Disk) { d.Format = "qcow2" }), "disks.cd.format restart"},
	{
		"medium reached in another way", disk("cd", func(d *Disk) {
			d.Source = DiskSource{Network: &NetworkSource{Protocol: "https", Name: "a.iso", Hosts: []string{"h"}}}
		}), disk("cd", func(d *Disk) {
			d.Source = DiskSource{Network: &NetworkSource{
				Protocol: "https", Name: "a.iso", Hosts: []string{"h:443"}, Values: Values{"query": "v=2"},
			}}
		}), "disks.cd.network restart",
	},
	{
		"medium of another snapshot", disk("cd", func(d *Disk) {
			d.Source = DiskSource{Network: &NetworkSource{Protocol: "rbd", Name: "p/i"}}
		}), disk("cd", func(d *Disk) {
			d.Source = DiskSource{Network: &NetworkSource{Protocol: "rbd", Name: "p/i", Values: Values{"snapshot": "s"}}}
		}), "disks.cd.network live",
	},
	{
		"another medium of another format", nil, disk("cd", func(d *Disk) { d.Source.File, d.Format = "/other", "qcow2" }),
		"disks.cd.file live, disks.cd.format live",
	},
	{"eject", nil, disk("cd", func(d *Disk) { d.Source = DiskSource{} }), "disks.cd.file live"},
	{
		"source", nil,
		disk("root", func(d *Disk) { d.Source = DiskSource{Block: "/dev/x"} }), "disks.root.block restart",
	},
	{
		"network source", nil, disk("root", func(d *Disk) {
			d.Source = DiskSource{Network: &NetworkSource{Protocol: "nbd", Hosts: []string{"h:1"}}}
		}), "disks.root.network restart",
	},
	{"source not declared", nil, disk("root", func(d *Disk) { d.Source = DiskSource{} }), ""},
	{"device", nil, disk("cold", func(d *Disk) { d.Device = "cdrom" }), "disks.cold.device restart"},
	{
		"a disk becomes an empty drive", nil, disk("cold", func(d *Disk) { d.Device, d.Source = "cdrom", DiskSource{} }),
		"disks.cold.file restart, disks.cold.device restart",
	},
	{"bus", nil, disk("root", func(d *Disk) { d.Bus = "scsi" }), "disks.root.bus restart"},
	{"format", nil, disk("root", func(d *Disk) { d.Format = "qcow2" }), "disks.root.format restart"},
	{"cache", nil, disk("root", func(d *Disk) { d.Cache = "unsafe" }), "disks.root.cache restart"},
	{"default cache", nil, disk("cold", func(d *Disk) { d.Cache = "default" }), ""},
	{"serial", nil, disk("root", func(d *Disk) { d.Serial = new("t") }), "disks.root.serial restart"},
	{"read-only", nil, disk("root", func(d *Disk) { d.ReadOnly = new(true) }), "disks.root.read_only restart"},
	{"boot order", nil, disk("root", func(d *Disk) { d.BootOrder = new(7) }), "disks.root.boot_order restart"},

	{"interface comes", nil, func(s *Spec) { s.Interfaces["new"] = Interface{Bridge: "b"} }, "interfaces.new live"},
	{
		"no slot for an interface", func(s *Spec) { s.FreeSlots = new(0) },
		func(s *Spec) { s.Interfaces["new"] = Interface{Bridge: "b"} }, "interfaces.new restart",
	},
	{
		"an interface for conventional PCI, on PCI Express", nil,
		func(s *Spec) { s.Interfaces["new"] = Interface{Bridge: "b", Model: "e1000"} }, "interfaces.new restart",
	},
	{
		"an interface for conventional PCI, which is there with one slot",
		func(s *Spec) { s.ConventionalSlots, s.FreeSlots = 1, new(0) },
		func(s *Spec) {
			s.Interfaces["a"] = Interface{Bridge: "b", Model: "e1000"}
			s.Interfaces["b"] = Interface{Bridge: "b", Model: "e1000"}
		}, "interfaces.a live, interfaces.b restart",
	},
	{
		"serial ports on PCI and USB come, on PCI Express", nil, addSerials,
		"devices.serials.isa restart, devices.serials.pci restart, devices.serials.usb live",
	},
	{
		"serial ports on PCI and USB come, on a conventional bus",
		func(s *Spec) { s.ConventionalSlots, s.FreeSlots = 1, new(0) }, addSerials,
		"devices.serials.isa restart, devices.serials.pci live, devices.serials.usb live",
	},
	{
		"serial ports on PCI and USB come, on an old machine", func(s *Spec) { s.Machine = "pc-i440fx-7.2" },
		func(s *Spec) { s.Machine = "pc-i440fx-7.2"; addSerials(s) },
		"devices.serials.isa restart, devices.serials.pci live, devices.serials.usb live",
	},
	{
		"serial ports on PCI and USB come without places", func(s *Spec) {
			s.Machine, s.FreeSlots, s.Buses = "pc-i440fx-7.2", new(0), []string{"pci"}
		}, func(s *Spec) { s.Machine = "pc-i440fx-7.2"; addSerials(s) },
		"devices.serials.isa restart, devices.serials.pci restart, devices.serials.usb restart",
	},
	{
		"serial ports go", addSerials, func(s *Spec) { s.Serials = map[string]Row{} },
		"devices.serials.isa restart, devices.serials.log restart, devices.serials.pci live, devices.serials.usb live",
	},
	{"another NVDIMM comes", nil, addNVDIMM, "devices.nvdimms.more live"},
	{
		"a first NVDIMM comes", func(s *Spec) { s.NVDIMMs = nil }, addNVDIMM,
		"devices.nvdimms.log restart, devices.nvdimms.more restart",
	},
	{
		"another NVDIMM comes without room", func(s *Spec) { s.Memory.MaxSize = new(uint64(3 << 30)) },
		func(s *Spec) { addNVDIMM(s); s.Memory.MaxSize = nil }, "devices.nvdimms.more restart",
	},
	{"an NVDIMM goes", nil, func(s *Spec) { s.NVDIMMs = map[string]Row{} }, "devices.nvdimms.log restart"},
	{
		"a watchdog, on PCI Express", withoutWatchdog, func(*Spec) {}, "devices.watchdog restart",
	},
	{
		"a watchdog, on a conventional bus",
		func(s *Spec) { withoutWatchdog(s); s.ConventionalSlots, s.FreeSlots = 1, new(0) }, func(*Spec) {},
		"devices.watchdog live",
	},
	{
		"a watchdog goes", nil, func(s *Spec) {
			s.Values = Values{"devices.watchdog.model": None}
		}, "devices.watchdog live",
	},
	{
		"a watchdog that isn't on PCI goes", func(s *Spec) { s.Values["devices.watchdog.model"] = "ib700" },
		func(s *Spec) { s.Values = Values{"devices.watchdog.model": None} }, "devices.watchdog restart",
	},
	{
		"a watchdog of s390x", func(s *Spec) { withoutWatchdog(s); s.Arch, s.Machine = "s390x", "s390-ccw-virtio" },
		func(s *Spec) {
			s.Arch, s.Machine, s.Values["devices.watchdog.model"] = "s390x", "s390-ccw-virtio", "diag288"
		}, "devices.watchdog restart",
	},
	{
		"a watchdog with the action of the built-in one",
		func(s *Spec) { withoutWatchdog(s); s.ConventionalSlots, s.BuiltInWatchdog = 1, "reset" }, func(*Spec) {},
		"devices.watchdog live",
	},
	{
		"a watchdog with another action than the built-in one",
		func(s *Spec) { withoutWatchdog(s); s.ConventionalSlots, s.BuiltInWatchdog = 1, "pause" }, func(*Spec) {},
		"devices.watchdog restart",
	},
	{"I/O threads", nil, func(s *Spec) { s.Values["platform.iothreads"] = "2" }, "platform.iothreads live"},
	{
		"fewer I/O threads", func(s *Spec) { s.Values["platform.iothreads"], s.BusyIOThread = "3", 1 },
		func(s *Spec) { s.Values["platform.iothreads"] = "1" }, "platform.iothreads live",
	},
	{
		"a pinned I/O thread goes", func(s *Spec) {
			s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "2", "1=0\n2=1\n"
		},
		func(s *Spec) { s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "1", "1=0\n" },
		"platform.iothreads live",
	},
	{
		"all pinned I/O threads go", func(s *Spec) {
			s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "1", "1=0\n"
		},
		func(s *Spec) { s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "", "" }, "platform.iothreads live",
	},
	{
		"an I/O thread is unpinned", func(s *Spec) {
			s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "2", "1=0\n2=1\n"
		},
		func(s *Spec) { s.Values["platform.iothreads"], s.Values["cpu.iothread_pin"] = "2", "1=0\n" },
		"cpu.iothread_pin restart",
	},
	{
		"an I/O thread in use", func(s *Spec) { s.Values["platform.iothreads"], s.BusyIOThread = "3", 2 },
		func(s *Spec) { s.Values["platform.iothreads"] = "1" }, "platform.iothreads restart",
	},
	{
		"no I/O threads, and one in use", func(s *Spec) { s.Values["platform.iothreads"], s.BusyIOThread = "3", 1 },
		func(s *Spec) { s.Values["platform.iothreads"] = "" }, "platform.iothreads restart",
	},
	{
		"an interface for conventional PCI, which the machine has", func(s *Spec) { s.Machine = "pc-i440fx-7.2" },
		func(s *Spec) {
			s.Machine, s.Interfaces["new"] = "pc-i440fx-7.2", Interface{Bridge: "b", Model: "e1000"}
		}, "interfaces.new live",
	},
	{
		"the port of an interface for conventional PCI is none",
		func(s *Spec) { s.FreeSlots = new(0); nic("lan", func(i *Interface) { i.Model = "e1000" })(s) },
		func(s *Spec) { delete(s.Interfaces, "lan"); s.Interfaces["new"] = Interface{Bridge: "b"} },
		"interfaces.lan live, interfaces.new restart",
	},
	{
		"interface takes another's place in the boot order", nil,
		func(s *Spec) { s.Interfaces["new"] = Interface{Bridge: "b", BootOrder: new(1)} }, "interfaces.new restart",
	},
	{"interface goes", nil, func(s *Spec) { delete(s.Interfaces, "lan") }, "interfaces.lan live"},
	{
		"interface is renamed", nil,
		func(s *Spec) { s.Interfaces["wan"] = s.Interfaces["lan"]; delete(s.Interfaces, "lan") }, "interfaces.wan live",
	},
	{
		"interface moves", nil,
		nic("lan", func(i *Interface) { i.Network, i.Bridge = "", "b" }), "interfaces.lan.bridge live",
	},
	{"network", nil, nic("lan", func(i *Interface) { i.Network = "other" }), "interfaces.lan.network live"},
	{
		"network of a port group", nic("lan", func(i *Interface) { i.Values = Values{"port_group": "p"} }),
		nic("lan", func(i *Interface) { i.Network = "other" }), "interfaces.lan.network restart",
	},
	{
		"network with a virtual port", onSwitch(true),
		nic("lan", func(i *Interface) { i.Network = "other" }), "interfaces.lan.network restart",
	},
	{
		"network with a virtual port, which newer hosts can change", onSwitch(false),
		nic("lan", func(i *Interface) { i.Network = "other" }), "interfaces.lan.network live",
	},
	{
		"interface leaves the user network", nil,
		nic("user", func(i *Interface) { i.User, i.Network = false, "n" }), "interfaces.user.network restart",
	},
	{"link", nil, nic("lan", func(i *Interface) { i.LinkUp = new(false) }), "interfaces.lan.link_up live"},
	{"interface model", nil, nic("lan", func(i *Interface) { i.Model = "e1000e" }), "interfaces.lan.model restart"},
	{
		"MAC", nil, nic("lan", func(i *Interface) { i.MAC = "52:54:00:00:00:09" }), "interfaces.lan.mac restart",
	},
	{"MAC in capitals", nil, nic("lan", func(i *Interface) { i.MAC = strings.ToUpper(i.MAC) }), ""},
	{
		"interface boot order", nil,
		nic("lan", func(i *Interface) { i.BootOrder = new(7) }), "interfaces.lan.boot_order restart",
	},
}

func expanded(model, vendor string) func(*Spec) {
	return func(s *Spec) {
		s.CPU.Mode, s.CPU.Model, s.CPU.Expanded = nil, nil, &ExpandedCPU{Model: model, Vendor: vendor}
	}
}

// onSwitch connects the interface lan to Open vSwitch.
func onSwitch(fixed bool) func(*Spec) {
	return func(s *Spec) {
		s.FixedVirtualPorts = fixed
		nic("lan", func(i *Interface) { i.Values = Values{"virtual_port.type": "openvswitch"} })(s)
	}
}

func withoutWatchdog(s *Spec) {
	delete(s.Values, "devices.watchdog.model")
	delete(s.Values, "devices.watchdog.action")
}

// disksOf gives the VM disks with these sources, whose keys are their places.
func disksOf(sources ...string) func(*Spec) {
	return func(s *Spec) {
		s.Disks = map[string]Disk{}
		for i, source := range sources {
			s.Disks[fmt.Sprintf("d%d", i)] = Disk{Source: DiskSource{File: source}, Device: "disk", Bus: "virtio"}
		}
	}
}

func addDisk(d Disk) func(*Spec) {
	d.Source = DiskSource{File: "/new"}
	return func(s *Spec) {
		s.Disks["new"] = d
	}
}

func describeChanges(changes []Change) string {
	var parts []string
	for _, c := range changes {
		effect := "restart"
		if c.Live {
			effect = "live"
		}
		if c.Replace {
			effect = "replace"
		}
		parts = append(parts, c.Path+" "+effect)
	}
	return strings.Join(parts, ", ")
}

// pages has a VM consist of pages of 1 GiB, and have that much memory unless it is 0.
func pages(memory uint64) func(*Spec) {
	return func(s *Spec) {
		s.Values = maps.Clone(s.Values)
		s.Values[hugePages] = "1Gi"
		if memory > 0 {
			s.Memory.Size = &memory
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for _, test := range changeTable {
		have, want := full(), full()
		if test.have != nil {
			test.have(&have)
		}
		test.want(&want)
		if diff := cmp.Diff(test.result, describeChanges(Changes(have, want))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

func TestChanges_everyRuleIsShown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, test := range changeTable {
		have, want := full(), full()
		if test.have != nil {
			test.have(&have)
		}
		test.want(&want)
		for _, c := range Changes(have, want) {
			seen[c.Why] = true
			if !strings.HasSuffix(c.Why, ".") || strings.ToUpper(c.Why[:1]) != c.Why[:1] && c.Path != "name" {
				t.Errorf("not a sentence: %s", c.Why)
			}
		}
	}
	for row, r := range rules {
		if !seen[r.why] {
			t.Errorf("no case for the rule %q", row)
		}
		if (r.effect == live) != (r.step != 0) && !strings.HasSuffix(row, " renamed") {
			t.Errorf("the rule %q is live without a call, or has one for nothing", row)
		}
	}
}

// A new attribute that no rule knows would silently not be changed.
func TestChanges_everyAttributeIsClassified(t *testing.T) {
	t.Parallel()
	want := full()
	want.Disks = map[string]Disk{"root": want.Disks["root"]}
	want.Interfaces = map[string]Interface{"lan": want.Interfaces["lan"]}
	have := full()
	have.Disks = map[string]Disk{"root": have.Disks["root"]}
	have.Interfaces = map[string]Interface{"lan": have.Interfaces["lan"]}
	count := 0
	eachAttribute("", reflect.ValueOf(&want).Elem(), func() {}, func(path string, v reflect.Value, stored func()) {
		count++
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int:
			v.SetInt(v.Int() + 1)
		case reflect.Uint64:
			v.SetUint(v.Uint() + mib)
		default:
			t.Errorf("%s has the kind %v", path, v.Kind())
		}
		stored()
		if len(Changes(have, want)) == 0 {
			t.Errorf("a change of %s is not seen", path)
		}
	})
	if count < 30 {
		t.Errorf("only %d attributes were tried", count)
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	live, persistent := full(), full()
	if pending := Pending(live, persistent); len(pending) > 0 {
		t.Errorf("equal specs: %v", pending)
	}
	// What the persistent definition no longer has counts, although an undeclared fact wouldn't.
	persistent.Kernel, persistent.Memory.MaxSize = nil, nil
	root := persistent.Disks["root"]
	root.BootOrder, root.Cache = nil, ""
	persistent.Disks["root"] = root
	delete(persistent.Interfaces, "user")
	got := describeChanges(Pending(live, persistent))
	want := "memory.max_size restart, kernel restart, disks.root.cache restart, disks.root.boot_order restart, " +
		"interfaces.user live"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSameMachineType(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"q35", "pc-q35-7.2", true},
		{"pc-q35-rhel9.4.0", "q35", true},
		{"pc", "pc-i440fx-jammy", true},
		{"virt", "virt-7.2", true},
		{"s390-ccw-virtio", "s390-ccw-virtio-7.2", true},
		{"", "anything", true},
		{"pc-q35-7.2", "pc-q35-7.1", false},
		{"q35", "pc-i440fx-7.2", false},
		{"pc", "q35", false},
		{"virt", "microvm", false},
	} {
		if SameMachineType(test.a, test.b) != test.same || SameMachineType(test.b, test.a) != test.same {
			t.Errorf("%s and %s", test.a, test.b)
		}
	}
}

func ExampleChanges() {
	have := Spec{CPU: CPU{VCPUs: new(2), Sockets: new(1), Cores: new(2), Threads: new(1), MaxSockets: new(4)}}
	for _, c := range Changes(have, Spec{CPU: CPU{Sockets: new(2)}}) {
		fmt.Println(c.Path, c.Live, c.Why)
	}
	// Output: cpu.sockets true Virtual CPUs are plugged into the running VM.
}

// What libvirt itself changes when it starts a VM isn't a change that waits for a restart.
func TestPending_notWhatLibvirtChanges(t *testing.T) {
	t.Parallel()
	definition := func(id, memory, driver string) Spec {
		return parse(t, `<domain type="qemu"`+id+`><name>v</name><memory unit="KiB">`+memory+`</memory>
  <currentMemory unit="KiB">`+memory+`</currentMemory>
  <os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os><devices>
  <disk type="file" device="disk"><driver name="qemu" type="raw"`+driver+`/><source file="/a"/>
  <target dev="vda" bus="virtio"/><shareable/></disk></devices></domain>`).Spec()
	}
	const running, none = ` id="1"`, ` cache="none"`
	for name, tt := range map[string]struct {
		live, persistent Spec
		want             string
	}{
		"cache of a shareable disk": {definition(running, "131072", none), definition("", "131072", ""), ""},
		"memory of an odd size":     {definition(running, "132096", none), definition("", "131073", none), ""},
		"another cache": {
			definition(running, "131072", none), definition("", "131072", ` cache="writethrough"`), "disks.vda.cache",
		},
		"another size": {definition(running, "132096", none), definition("", "133120", none), "memory.size"},
	} {
		var paths []string
		for _, c := range Pending(tt.live, tt.persistent) {
			paths = append(paths, c.Path)
		}
		if got := strings.Join(paths, " "); got != tt.want {
			t.Errorf("%s: %q waits for a restart, want %q", name, got, tt.want)
		}
	}
}

// A place in the boot order, and the size to which memory may grow, can be removed again: the change is planned, comes
// out, and nothing is left to do.
func TestApply_noneAnyMore(t *testing.T) {
	t.Parallel()
	const document = `<domain type="qemu"><name>v</name><maxMemory slots="16" unit="KiB">262144</maxMemory>
  <memory unit="KiB">131072</memory><currentMemory unit="KiB">131072</currentMemory><vcpu>1</vcpu>
  <os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os>
  <cpu><numa><cell id="0" cpus="0" memory="131072" unit="KiB"/></numa></cpu><devices>
  <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/a"/><target dev="vda" bus="virtio"/>
  <boot order="1"/><alias name="ua-disk-root"/></disk>
  <interface type="user"><mac address="52:54:00:00:00:01"/><model type="virtio"/><boot order="2"/>
  <alias name="ua-net-lan"/></interface></devices></domain>`
	root := Disk{Source: DiskSource{File: "/a"}}
	for path, tt := range map[string]struct {
		want Spec
		gone string
	}{
		"memory.max_size": {Spec{Memory: Memory{MaxSize: new(uint64(0))}}, "maxMemory"},
		"disks.root.boot_order": {
			Spec{Disks: map[string]Disk{"root": {Source: root.Source, BootOrder: new(0)}}}, `<boot order="1"`,
		},
		"interfaces.lan.boot_order": {
			Spec{Interfaces: map[string]Interface{"lan": {User: true, BootOrder: new(0)}}}, `<boot order="2"`,
		},
	} {
		d := parse(t, document)
		if changes := Changes(d.Spec(), tt.want); len(changes) != 1 || changes[0].Path != path {
			t.Errorf("%s: planned is %+v", path, changes)
		}
		if err := d.Apply(tt.want); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		xml, err := d.XML()
		if err != nil || strings.Contains(xml, tt.gone) {
			t.Errorf("%s: %v: %s is in\n%s", path, err, tt.gone, xml)
		}
		if left := Changes(d.Spec(), tt.want); len(left) > 0 {
			t.Errorf("%s: left is %+v", path, left)
		}
	}
}
