package domain

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/beevik/etree"
)

const (
	hostDeviceWhy = "The device is another one."
	romWhy        = "The guest finds a device's ROM when the device is plugged in."
)

// hostAddressPatterns match the addresses of the host's devices, by type.
var hostAddressPatterns = map[string]*regexp.Regexp{
	"pci":  regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`),
	"usb":  regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{4})$`),
	"mdev": regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
	"scsi": regexp.MustCompile(`^([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,18})$`),
}

// hostAddressForms are examples of the addresses, by type.
var hostAddressForms = map[string]string{
	"pci": "0000:65:00.0", "usb": "1234:abcd", "mdev": "5a9fc181-957e-5c32-9e5a-2de5e9673531", "scsi": "0:0:1:0",
}

// hostDeviceFamily are the host's devices that are passed through to the VM.
var hostDeviceFamily = Family{
	Path: "devices.host_devices", Tag: "hostdev", in: func(s *Spec) *map[string]Row { return &s.HostDevices },
	Doc: "Devices of the host by a key, for the exclusive use of the VM. Such a VM can't be moved while it runs. If " +
		"you set the map, list every one.",
	Added:   Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The device is unplugged from the running VM."},
	Buses:   []bus{busPCI, busUSB},
	BusOf: func(row Row) bus {
		switch row["type"] {
		case "usb":
			return busUSB
		case "":
			return busNone // Unknown until a device of the class is chosen.
		case "scsi":
			return busNone // libvirt adds a missing controller.
		default:
			return busPCI
		}
	},
	recall: func(m Metadata, all map[string]Row) {
		for key, class := range m.DeviceClasses {
			if row := all[key]; row != nil {
				row["class"] = class
			}
		}
	},
	Skip: func(e *etree.Element) bool {
		return attr(e, "mode") == "capabilities" || child(e, "teaming") != nil
	},
	begin: func(e *etree.Element) { setAttr(e, "mode", "subsystem") },
	Attributes: []Attribute{
		{
			Name: "class", Recorded: true, Check: func(class string) string {
				if !keyPattern.MatchString(class) {
					return `Classes consist of letters, digits, "-" and "_".`
				}
				return ""
			},
			Doc: "Class of devices, one of `hosts.<name>.devices` of the provider, instead of `type` and `address`. The VM " +
				"gets a free device and keeps it, until it moves while it is off. An imported VM keeps its device if you " +
				"replace these by it. See [Devices](../guides/host-capacity.md#huge-pages-and-devices).",
		},
		{
			Name: "type", Place: "@type", Values: []string{"pci", "usb", "mdev", "scsi"}, Kept: []string{"scsi_host"},
			Filled: true, Why: hostDeviceWhy, Doc: "Kind of device. Required without `class`.",
			Write: func(e *etree.Element, value string) error {
				setAttr(e, "type", value)
				managed, model := "", ""
				if value == "pci" {
					managed = "yes"
				}
				if value == "mdev" {
					model = "vfio-pci"
				}
				setAttr(e, "managed", managed)
				setAttr(e, "model", model)
				return nil
			},
		},
		{
			Name: "address", Why: hostDeviceWhy, Filled: true,
			Read:  func(e *etree.Element) string { return hostAddress(child(e, "source")) },
			Write: writeHostAddress,
			Doc: "Address of a `pci` device (`0000:65:00.0`), vendor and product of `usb` (`1234:abcd`), UUID of `mdev`, or " +
				"address of `scsi` as in `lsscsi` (`0:0:1:0`). Required without `class`, otherwise chosen.",
		},
		{
			Name: "rom_file", Place: "rom@file", Why: romWhy, Check: absolute, DefaultDoc: "the device's own",
			Doc: "File on the host with the firmware (ROM) that the guest finds in a `pci` device, as some GPUs need. Each " +
				"host that the VM may run on must have it. `\"\"` removes it.",
		},
		{
			Name: "rom_bar", Place: "rom@bar", Kind: Switch, On: "on", Off: "off", Why: romWhy, DefaultDoc: "`true`",
			Doc: "Whether the guest sees the firmware (ROM) of a `pci` device.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		pattern, kind, address := hostAddressPatterns[value("type")], value("type"), value("address")
		switch {
		case value("class") != "" && kind+address != "":
			return "class", "A device is declared by its class, or by type and address, not by both."
		case value("class") != "":
			return "", ""
		case address == unknownHostDevice, kind == "":
		case pattern == nil && kind != scsiAdapter: // The type is refused.
			return "", ""
		case pattern == nil:
			return "address", "The address of a " + kind + ` device can't be changed. Keep "` + unknownHostDevice + `".`
		case !pattern.MatchString(address):
			return "address", fmt.Sprintf("%q isn't an address of a %s device, such as %s.", address, kind,
				hostAddressForms[kind])
		}
		if name, problem := strayROM(value); problem != "" {
			return name, problem
		}
		return needs("type", "address")(value)
	},
}

// strayROM returns the attribute and the problem if a device that isn't a PCI device has a ROM.
func strayROM(value func(string) string) (attribute, problem string) {
	for _, name := range []string{"rom_file", "rom_bar"} {
		if kind := value("type"); value(name) != "" && kind != "pci" && kind != "" {
			return name, "Only a pci device has a ROM."
		}
	}
	return "", ""
}

// StrayROM returns the attribute and the problem if the row has a ROM, and the device that was chosen for its class is
// no PCI device.
func (r Row) StrayROM() (attribute, problem string) {
	return strayROM(func(name string) string { return r[name] })
}

// ParseHostDevice parses a host's device as a device class lists it: "pci:0000:65:00.0".
func ParseHostDevice(listed string) (HostPart, bool) {
	kind, address, _ := strings.Cut(listed, ":")
	pattern := hostAddressPatterns[kind]
	return HostPart{kind + " device", address}, pattern != nil && pattern.MatchString(address)
}

// scsiAdapter is libvirt's name of a SCSI host adapter, without the number.
const scsiAdapter = "scsi_host"

// unknownHostDevice is the address of a device that isn't identified by an address.
const unknownHostDevice = "device"

func writeHostAddress(e *etree.Element, value string) error {
	kind := attr(e, "type")
	pattern := hostAddressPatterns[kind]
	if pattern == nil || value != "" && !pattern.MatchString(value) {
		return nil // Check has refused the address.
	}
	dropChildren(e, "source")
	source := add(e, "source")
	found := pattern.FindStringSubmatch(value)
	switch {
	case found == nil:
	case kind == "pci":
		addPCIAddress(source, value)
	case kind == "scsi":
		add(source, "adapter", "name", scsiAdapter+found[1])
		add(source, "address", "bus", found[2], "target", found[3], "unit", found[4])
	case kind == "usb":
		add(source, "vendor", "id", "0x"+found[1])
		add(source, "product", "id", "0x"+found[2])
	default:
		add(source, "address", "uuid", strings.ToLower(value))
	}
	return nil
}

// addPCIAddress adds the address of the host's PCI device.
func addPCIAddress(source *etree.Element, address string) {
	part := hostAddressPatterns["pci"].FindStringSubmatch(address)
	if part == nil {
		return
	}
	e := add(source, "address", "domain", "0x"+part[1], "bus", "0x"+part[2], "slot", "0x"+part[3],
		"function", "0x"+part[4])
	if attr(source.Parent(), "type") == "hostdev" {
		setAttr(e, "type", "pci") // The type of a <hostdev> implies pci; that of an <interface> doesn't.
	}
}

// HostDevicePath returns the path of a host device.
func HostDevicePath(key string) string { return join(hostDeviceFamily.Path, key) }

// Assign returns a row with the host's device set.
func (p HostPart) Assign(row Row) Row {
	assigned := Row{}
	maps.Copy(assigned, row)
	assigned["type"], assigned["address"] = strings.TrimSuffix(p.Kind, " device"), p.ID
	return assigned
}

// HostDevice returns the host's device that a row names, and the zero value if it names none.
func (r Row) HostDevice() HostPart {
	if r["address"] == "" {
		return HostPart{}
	}
	return HostPart{r["type"] + " device", r["address"]}
}

// DeviceClasses returns the device classes of the host devices that are declared by class, by key.
func (s Spec) DeviceClasses() map[string]string {
	var classes map[string]string
	for key, row := range s.HostDevices {
		if class := row["class"]; class != "" {
			if classes == nil {
				classes = map[string]string{}
			}
			classes[key] = class
		}
	}
	return classes
}

// Unassigned returns the spec as the user declared it, without the devices that were chosen for classes.
func (s Spec) Unassigned() Spec {
	s.HostDevices = maps.Clone(s.HostDevices)
	for key := range s.DeviceClasses() {
		row := maps.Clone(s.HostDevices[key])
		delete(row, "type")
		delete(row, "address")
		s.HostDevices[key] = row
	}
	return s
}
