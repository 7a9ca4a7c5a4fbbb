package domain

import (
	"cmp"
	"errors"
	"maps"
	"strings"

	"github.com/beevik/etree"
)

// balloonPeriod is how often the guest reports its memory, in seconds. It is KubeVirt's default.
const balloonPeriod = "10"

// New returns a definition for a new VM: what s declares, and defaults for the rest. Name, Type, Memory.Size and uuid
// are required. An empty Arch means x86_64. empty are the keys of the disks that are created without data: without a
// boot order, the VM boots from another one.
func New(s Spec, uuid string, empty ...string) (*Definition, error) {
	var problems []error
	for _, required := range []struct {
		missing bool
		path    string
	}{
		{s.Name == "", "name"},
		{s.Type == "", "type"},
		{s.Memory.Size == nil, "memory.size"},
		{uuid == "", "id"},
	} {
		if required.missing {
			problems = append(problems, Problem{required.path, "A new VM needs it."})
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	s.UUID = uuid
	s.Arch = cmp.Or(s.Arch, "x86_64")
	s.Machine = cmp.Or(s.Machine, DefaultMachineType(s.Arch))
	var known checker // What a port is by default, and whether there is IDE, depends on architecture and machine type.
	checkSerials(s, &known)
	if checkIDE(s, &known); len(known.problems) > 0 {
		return nil, known.problems[0]
	}
	s.CPU = newCPU(s.CPU)
	s.Firmware = s.Firmware.WithType()
	if pick(s.Firmware.Type, nil, "bios") == "efi" && s.Firmware.SecureBoot == nil {
		// If libvirt chose, the host's order of firmware files would decide, which differs between hosts.
		s.Firmware.SecureBoot = new(false)
	}
	s.GuestAgent, s.SerialConsole = new(pick(s.GuestAgent, nil, true)), newSerialConsole(s)
	d := skeleton(s)
	d.empty = empty
	ports, declared := s.Values[hotplugPorts]
	s.Values = maps.Clone(s.Values)
	delete(s.Values, hotplugPorts) // The spare ports follow those of the VM's own devices.
	if err := d.Apply(s); err != nil {
		return nil, err
	}
	d.empty = nil // A later change isn't a new VM's.
	if err := d.addPorts(s.Machine, ports, declared); err != nil {
		return nil, err
	}
	d.doc.Indent(2)
	return d, nil
}

// DefaultMachineType returns the machine type of a new VM that declares none: KubeVirt's default. libvirt's own default
// for x86_64 is the machine type of 1996.
func DefaultMachineType(arch string) string {
	switch arch {
	case "x86_64", "i686":
		return "q35"
	case "aarch64", "armv7l", "riscv64", "riscv32", "loongarch64":
		return "virt"
	case "s390x":
		return "s390-ccw-virtio"
	case "ppc64", "ppc64le":
		return "pseries"
	default:
		return "" // libvirt's default.
	}
}

// newCPU completes a declared topology with one socket, one core and one thread, unless the number of virtual CPUs says
// otherwise.
func newCPU(c CPU) CPU {
	c.Cores = new(pick(c.Cores, nil, 1))
	c.Threads = new(pick(c.Threads, nil, 1))
	if c.Sockets == nil && c.VCPUs == nil {
		c.Sockets = new(1)
	}
	return c
}

// newSerialConsole gives a new VM a serial console, unless its ports or consoles are declared.
func newSerialConsole(s Spec) *bool {
	if s.SerialConsole == nil && s.Serials == nil && s.Consoles == nil {
		return new(true)
	}
	return s.SerialConsole
}

// skeleton returns a VM without anything that is declared.
func skeleton(s Spec) *Definition {
	pc := s.Arch == "x86_64" || s.Arch == "i686"
	doc := newDocument()
	root := doc.CreateElement("domain")
	root.CreateAttr("type", s.Type)
	add(root, "name").SetText(s.Name)
	add(root, "uuid").SetText(s.UUID)
	add(root, "memory", "unit", "KiB").SetText("0")
	add(root, "currentMemory", "unit", "KiB").SetText("0")
	add(root, "vcpu", "placement", "static").SetText("1")
	add(add(root, "os"), "type", "arch", s.Arch, "machine", s.Machine).SetText("hvm")
	features := add(root, "features")
	if pc || s.Arch == "aarch64" && pick(s.Firmware.Type, nil, "") == "efi" {
		add(features, "acpi") // ARM has ACPI only with UEFI.
	}
	cpu := add(root, "cpu")
	if s.Type == "kvm" && s.CPU.Mode == nil && s.CPU.Model == nil {
		// Emulation has no host CPU as a model: libvirt chooses the CPU.
		cpu.CreateAttr("mode", "host-model")
		if s.Arch == "aarch64" || s.Arch == "armv7l" {
			cpu.CreateAttr("mode", "host-passthrough") // KVM on ARM supports only this mode.
		}
	}
	add(cpu, "topology", "sockets", "1", "cores", "1", "threads", "1")
	clock := add(root, "clock", "offset", "utc")
	if pc {
		add(features, "apic")
		add(features, "vmport", "state", "off")
		add(clock, "timer", "name", "rtc", "tickpolicy", "catchup")
		add(clock, "timer", "name", "pit", "tickpolicy", "delay")
		add(clock, "timer", "name", "hpet", "present", "no")
	}
	add(root, "on_poweroff").SetText("destroy")
	add(root, "on_reboot").SetText("restart")
	// A crashed VM is off with the reason "crashed". Run strategies tell it from a VM that was shut down.
	add(root, "on_crash").SetText("destroy")
	addBaseDevices(add(root, "devices"), s, pc)
	return &Definition{doc: doc}
}

// addBaseDevices adds the devices that every new VM gets.
func addBaseDevices(devices *etree.Element, s Spec, pc bool) {
	// Disks can be plugged into this controller later, as in KubeVirt.
	insert(devices, scsiController())
	if s.Arch != "s390x" {
		add(devices, "controller", "type", "usb", "index", "0", "model", "qemu-xhci")
	}
	// The screen is reached through libvirt: a socket opens no port on the host.
	add(add(devices, "graphics", "type", "vnc"), "listen", "type", "socket")
	model := "virtio"
	if pc {
		model = "vga"
		if pick(s.Firmware.Type, nil, "bios") == "efi" {
			model = "bochs"
		}
	}
	add(add(devices, "video"), "model", "type", model)
	add(add(devices, "memballoon", "model", "virtio"), "stats", "period", balloonPeriod)
	rng := add(devices, "rng", "model", "virtio")
	add(rng, "backend", "model", "random").SetText("/dev/urandom")
}

// addPorts gives a VM with PCI Express ports for its own devices and spare ports for later ones. Ports can't be added
// while the VM runs.
func (d *Definition) addPorts(machine, spare string, declared bool) error {
	switch family := machineFamily(machine); {
	case family == "q35" || family == "virt":
	case declared && spare != "" && spare != "0":
		return Problem{hotplugPorts, "The machine type " + machine + " has no PCI Express ports."}
	default:
		return nil
	}
	needed := len(d.devices("memballoon")) + len(d.controllers("scsi")) + len(d.controllers("usb"))
	places := map[bus]int{}
	for _, b := range blocks {
		if b.bus == nil {
			continue
		}
		for _, e := range b.elements(d) {
			places[b.bus(e)]++
		}
	}
	needed += places[busPCI]
	if places[busConventional] > 0 {
		needed++ // The bridge to their bus.
	}
	if d.usesVirtioSerial() {
		needed++
	}
	d.addDevice(element("controller", "type", "pci", "index", "0", "model", "pcie-root"))
	for i := range needed {
		d.addDevice(rootPort(i + 1))
	}
	if !declared {
		spare = usualPorts
	}
	return d.Apply(Spec{Values: Values{hotplugPorts: spare}})
}

// SameMachineType reports whether two machine types mean the same: they are equal, or one is an alias of the other
// (q35, pc-q35-7.2). An empty machine type equals all.
func SameMachineType(a, b string) bool {
	if a == "" || b == "" || a == b {
		return true
	}
	isAlias := a == machineFamily(a) || b == machineFamily(b)
	return isAlias && machineFamily(a) == machineFamily(b)
}

// machineFamily returns the alias of a versioned machine type: q35 for pc-q35-7.2, pc for pc-i440fx-rhel7.6.0.
func machineFamily(machine string) string {
	for _, known := range []struct{ prefix, alias string }{
		{"pc-q35-", "q35"}, {"pc-i440fx-", "pc"}, {"pc-0.", "pc"}, {"pc-1.", "pc"},
	} {
		if strings.HasPrefix(machine, known.prefix) {
			return known.alias
		}
	}
	// A dash and a version follow the alias: virt-7.2, pseries-rhel9.2.0, s390-ccw-virtio-jammy.
	for _, alias := range []string{"virt", "pseries", "s390-ccw-virtio", "microvm"} {
		if strings.HasPrefix(machine, alias+"-") {
			return alias
		}
	}
	return machine
}
