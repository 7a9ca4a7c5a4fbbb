package domain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// bus is what a device is plugged into, and needs a place on. Those of USB and of serial ports are named as the
// controllers of them.
type bus string

// The buses.
const (
	busUSB    bus = "usb"
	busSerial bus = "virtio-serial"
	busPCI    bus = "pci"
	// busConventional is for devices on PCI that can't use PCI Express.
	busConventional bus = "conventional-pci"
	// busNone is for devices that need no port: a part of the board, a device on the root bus, which has room, one on a
	// bus that gets another controller when it is full, or one that only the host has.
	busNone bus = "none"
)

// isPCI reports whether a device on the bus needs a PCI slot.
func (b bus) isPCI() bool { return b == busPCI || b == busConventional }

// busPrefix maps a bus to the prefix of the names of its disks.
var busPrefix = map[string]string{
	"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd", "fdc": "fd", "sd": "sd", "xen": "xvd",
}

// busOf returns the bus that libvirt guesses from the name.
func busOf(dev string) string {
	for _, guess := range []struct{ prefix, bus string }{
		{"vd", "virtio"}, {"sd", "scsi"}, {"hd", "ide"}, {"fd", "fdc"}, {"xvd", "xen"},
	} {
		if strings.HasPrefix(dev, guess.prefix) {
			return guess.bus
		}
	}
	return ""
}

// places is how many disks a bus can have; 0: libvirt adds controllers as needed.
var places = map[string]int{"ide": 4, "fdc": 2, "sd": 1}

// freeTarget returns the first free name on the bus: no other disk and no disk that is being removed has it, and the
// place on the bus that libvirt derives from the name is free. It returns "" if the bus is full.
func (d *Definition) freeTarget(bus string, gone map[string]bool, except *etree.Element) string {
	limit := places[bus]
	if limit == 0 {
		limit = 1 << 12
	}
	// Names of removed disks are tried last, because a running VM may still hold such a disk.
	for _, avoid := range []map[string]bool{gone, nil} {
		for i := range limit {
			dev := busPrefix[bus] + diskLetters(i)
			if busPrefix[bus] == "" || avoid[dev] || d.targetTaken(dev) || d.placeTaken(bus, i, except) {
				continue
			}
			return dev
		}
	}
	return ""
}

// diskLetters returns the letters for an index: a, b, ..., z, aa, ab.
func diskLetters(i int) string {
	s := ""
	for ; i >= 0; i = i/26 - 1 {
		s = string(rune('a'+i%26)) + s
	}
	return s
}

func (d *Definition) targetTaken(dev string) bool {
	return slices.ContainsFunc(d.devices("disk", "filesystem"), func(e *etree.Element) bool {
		return attr(child(e, "target"), "dev") == dev
	})
}

// placeTaken reports whether a disk of the bus has the address that libvirt derives from the name with that index.
func (d *Definition) placeTaken(bus string, index int, except *etree.Element) bool {
	var want [3]int
	switch bus {
	case "scsi":
		unit := index % 15
		if unit >= 7 {
			unit++ // Unit 7 is the controller itself.
		}
		want = [3]int{index / 15, 0, unit}
	case "sata":
		want = [3]int{index / 6, 0, index % 6}
	case "ide":
		want = [3]int{index / 4, index % 4 / 2, index % 2}
	default:
		return false
	}
	return slices.ContainsFunc(d.devices("disk", "hostdev"), func(e *etree.Element) bool {
		address := child(e, "address")
		if e == except || attr(address, "type") != "drive" || e.Tag == "disk" && readDisk(e).Bus != bus {
			return false
		}
		var have [3]int
		for i, key := range []string{"controller", "bus", "unit"} {
			have[i], _ = number(attr(address, key))
		}
		return have == want
	})
}

// ensureBus adds a controller of our choice. libvirt would otherwise add an old model.
func (d *Definition) ensureBus(bus string) {
	switch bus {
	case "scsi":
		if len(d.controllers("scsi")) == 0 {
			d.addDevice(scsiController())
		}
	case "usb":
		if found := d.controllers("usb"); len(found) == 1 && attr(found[0], "model") == "none" {
			setAttr(found[0], "model", "qemu-xhci")
		}
	}
}

func scsiController() *etree.Element {
	return element("controller", "type", "scsi", "index", "0", "model", "virtio-scsi")
}

func (d *Definition) controllers(kind string) []*etree.Element {
	return slices.DeleteFunc(d.devices("controller"), func(e *etree.Element) bool { return attr(e, "type") != kind })
}

// defaultBus returns the bus of a new disk: virtio, and for drives the bus that the VM's firmware boots from.
func (d *Definition) defaultBus(device string) string {
	osType := child(d.root(), "os", "type")
	arch := attr(osType, "arch")
	pc := arch == "" || arch == "x86_64" || arch == "i686"
	switch {
	case device == "floppy":
		return "fdc"
	case device == "lun":
		return "scsi"
	case device != "cdrom":
		return "virtio"
	case !pc:
		return "scsi"
	case machineFamily(attr(osType, "machine")) == "pc":
		return "ide"
	default:
		return "sata"
	}
}

// buses returns the kinds of controllers that the VM has.
func (d *Definition) buses() []string {
	found := []string{}
	for _, e := range d.devices("controller") {
		if kind := attr(e, "type"); kind != "" && attr(e, "model") != None && !slices.Contains(found, kind) {
			found = append(found, kind)
		}
	}
	slices.Sort(found)
	return found
}

// noConventionalSlot says why a device that can't use PCI Express can't be plugged in. A VM with PCI Express has a
// conventional bus only if it was started with such a device.
const noConventionalSlot = "The running VM has no conventional PCI bus with a free slot."

// expressFamily reports whether a machine type has PCI Express.
func expressFamily(machine string) bool {
	return slices.Contains([]string{"q35", "virt"}, machineFamily(machine))
}

// freeSlots returns the number of PCI Express ports, or of PCI slots on older machine types, that have no device. It
// returns nil if the VM has no PCI.
func (d *Definition) freeSlots() *int {
	const ports = 1 // A port has room for one device.
	express := d.hasExpress()
	return d.freePlaces(func(controller *etree.Element) int {
		switch attr(controller, "model") {
		case "pcie-root-port", "pcie-switch-downstream-port":
			if attr(child(controller, "target"), "hotplug") != "off" {
				return ports
			}
		case "pci-root", "pci-bridge":
			if !express { // libvirt plugs no virtio device into a bridge of a VM that has ports.
				return conventionalSlots
			}
		}
		return 0
	})
}

// hasExpress reports whether the VM has PCI Express.
func (d *Definition) hasExpress() bool {
	return expressFamily(attr(child(d.root(), "os", "type"), "machine"))
}

// conventionalSlots is the number of slots of a conventional bus. Slot 0 belongs to the bridge.
const conventionalSlots = 31

// conventionalSlots returns the number of slots without a device on the conventional buses of a VM with PCI Express.
// libvirt plugs nothing into the bus of a dmi-to-pci-bridge.
func (d *Definition) conventionalSlots() int {
	if !d.hasExpress() {
		return 0
	}
	return pick(d.freePlaces(func(controller *etree.Element) int {
		if model := attr(controller, "model"); model == "pcie-to-pci-bridge" || model == "pci-bridge" {
			return conventionalSlots
		}
		return 0
	}), nil, 0)
}

// freePlaces returns the number of places without a device on the buses of the PCI controllers. places returns the
// number of places of a controller. It returns nil if there are no controllers.
func (d *Definition) freePlaces(places func(controller *etree.Element) int) *int {
	room := map[int]int{}
	for _, controller := range d.controllers("pci") {
		if index, ok := number(attr(controller, "index")); ok && places(controller) > 0 {
			room[index] = places(controller)
		}
	}
	if len(d.controllers("pci")) == 0 {
		return nil
	}
	used := map[string]bool{}
	for _, e := range d.devices() {
		address := child(e, "address")
		place := attr(address, "bus") + "/" + attr(address, "slot")
		bus, ok := pciNumber(attr(address, "bus"))
		if !ok || attr(address, "type") != "pci" || used[place] || room[bus] == 0 {
			continue
		}
		used[place] = true // The functions of one slot share a key.
		room[bus]--
	}
	free := 0
	for _, n := range room {
		free += n
	}
	return new(free)
}

// placedOnPCI reports whether a device needs a PCI slot when it is added.
func placedOnPCI(bus string) bool {
	return bus == "virtio"
}

// rootPort returns a PCI Express port, which has room for one device.
func rootPort(index int) *etree.Element {
	return element("controller", "type", "pci", "index", strconv.Itoa(index), "model", "pcie-root-port")
}
