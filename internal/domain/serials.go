package domain

import (
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

const (
	serialWhy = "Serial ports are set up when the VM starts."
	// The kinds of ports that are devices on a bus, which a running VM can be given.
	pciSerial = "pci-serial"
	usbSerial = "usb-serial"
)

// charSource returns the attributes that say what a character device is connected to on the host.
func charSource(why string, kinds []string, path string) []Attribute {
	kept := slices.DeleteFunc([]string{"dev", "pipe", "stdio", "tcp", "udp", "vc", "spiceport", "dbus", "nmdm"},
		func(kind string) bool { return slices.Contains(kinds, kind) })
	return []Attribute{
		{
			Name: "type", Place: "@type", Values: kinds, Filled: true, Why: why,
			Kept: kept, Doc: "Required: what it is connected to on the host.",
		},
		{
			Name: "path", Follows: "type", Why: why, Check: absolute, Doc: path,
			Read: func(e *etree.Element) string {
				path := textAt(e, "source@path")
				if attr(e, "type") == "pty" || strings.Contains(path, "/channel/target/") ||
					strings.Contains(path, "/run/libvirt/qemu/channel/") {
					return "" // libvirt chose it.
				}
				return path
			},
			Write: func(e *etree.Element, value string) error {
				setTextAt(e, "source@path", value)
				mode := ""
				if value != "" && attr(e, "type") == "unix" {
					mode = "bind"
				}
				if textAt(e, "source@mode") == "" || value == "" {
					setTextAt(e, "source@mode", mode)
				}
				return nil
			},
		},
		{
			Name: "log_file", Place: "log@file", Why: why, Check: absolute,
			Doc: "File on the host to which everything that the guest writes is also logged.",
		},
		{
			Name: "log_append", Place: "log@append", Kind: Switch, On: "on", Off: "off", Why: why,
			DefaultDoc: "`false`",
			Doc:        "Whether a start of the VM appends to the log file instead of replacing it.",
		},
	}
}

// charsWithPath are the types of character devices that have a path. libvirt drops the path of other types.
var charsWithPath = []string{"dev", "file", "pipe", "unix"}

func absolute(value string) string {
	if !strings.HasPrefix(value, "/") {
		return "It isn't an absolute path on the host."
	}
	return ""
}

// serialFamily are serial ports.
var serialFamily = Family{
	Path: "devices.serials", Tag: "serial", in: func(s *Spec) *map[string]Row { return &s.Serials },
	Doc: "Serial ports by a key, numbered in the order of the keys. The VM has no other serial console then. If " +
		"you set the map, list every port.",
	Added:   Transition{Live: true, Why: "The port is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The port is unplugged from the running VM."},
	Buses:   []bus{busConventional, busUSB},
	BusOf: func(row Row) bus {
		switch row["target_type"] {
		case pciSerial:
			return busConventional
		case usbSerial:
			return busUSB
		default:
			return busNone
		}
	},
	Fixed:      func(row Row) bool { return row["target_type"] != pciSerial && row["target_type"] != usbSerial },
	FixedWhy:   "Only ports of kind `pci-serial` and `usb-serial` can be plugged.",
	Attributes: slices.Concat(serialSource(), serialAddresses, serialTargets),
	// libvirt derives the console from the first port.
	around: func(d *Definition, change func() error) error {
		before := d.Canonical()
		err := change()
		if d.Canonical() == before {
			return err
		}
		for _, e := range d.devices("console") {
			if kind := attr(child(e, "target"), "type"); kind == "" || kind == "serial" {
				drop(e)
			}
		}
		return err
	},
	Check: checkSerial,
	fits: func(s Spec, c *checker) {
		checkSerials(s, c)
		interactive := slices.ContainsFunc(slices.Collect(maps.Values(s.Serials)), func(row Row) bool {
			return IsInteractive(row["type"])
		})
		c.require(len(s.Serials) == 0 || s.SerialConsole == nil || *s.SerialConsole == interactive, "serial_console",
			"It contradicts devices.serials, which lists every serial port. Leave it out.")
	},
}

// serialSource are the attributes that say what a serial port is connected to.
func serialSource() []Attribute {
	all := charSource(serialWhy, serialKinds, "File, socket or serial device (`dev`) on the host, for the types `file`, "+
		"`unix` and `dev`. Each host of the VM must have the device: after a move, the guest talks to that one.")
	all[0].Write = writeSerialType
	return all
}

// serialTypes are the kinds of serial ports by model, of the kinds that have several models.
var serialTypes = map[string]string{
	"pl011": "system-serial", "16550a": "system-serial", "sclpconsole": "sclp-serial", "sclplmconsole": "sclp-serial",
}

// serialTargets are the attributes of what the guest sees of a serial port.
var serialTargets = []Attribute{
	{
		Name: "target_type", Place: "target@type", Filled: true, Why: serialWhy,
		Values: []string{
			"isa-serial", pciSerial, usbSerial, "isa-debug", "system-serial", "spapr-vio-serial", "sclp-serial",
		},
		SinceOf: map[string]string{"isa-debug": "8.1.0"},
		Write: func(e *etree.Element, value string) error {
			dropChildren(e, "address") // It belongs to the old kind.
			dropChildren(child(e, "target"), "model")
			setTextAt(e, "target@type", value)
			return nil
		},
		Doc: "Kind of port that the guest sees. `pci-serial` and `usb-serial` add ports to those of the machine type; with " +
			"`usb-serial` the VM can't be moved while it runs. `isa-debug`: libvirt 8.1.",
	},
	{
		Name: "target_model", Place: "target/model@name", Follows: "target_type", Filled: true, Why: serialWhy,
		Values: slices.Sorted(maps.Keys(serialTypes)),
		Read: func(e *etree.Element) string {
			if model := textAt(e, "target/model@name"); serialTypes[model] != "" {
				return model
			}
			return ""
		},
		Doc: "Model. Of `system-serial`: `pl011` (Arm) or `16550a` (RISC-V). Of `sclp-serial` (s390x): `sclpconsole` or " +
			"`sclplmconsole`.",
	},
}

func checkSerial(value func(string) string) (attribute, problem string) {
	kind, model := value("target_type"), value("target_model")
	switch {
	case model != "" && serialTypes[model] != kind:
		return "target_model", "The model " + model + " is of the type " + serialTypes[model] + "."
	case value("type") == "dev" && value("path") == "":
		return "path", `The type "dev" needs one: the serial device of the host.`
	}
	if attribute, problem = checkSerialAddress(value); problem != "" {
		return attribute, problem
	}
	return checkPortOnHost(value)
}

// checkPortOnHost is checkChar for ports for which libvirt doesn't choose a socket.
func checkPortOnHost(value func(string) string) (attribute, problem string) {
	if value("type") == "unix" && value("path") == "" {
		return "path", `The type "unix" needs one: the socket on the host.`
	}
	return checkChar(value)
}

func checkChar(value func(string) string) (attribute, problem string) {
	switch kind := value("type"); {
	case kind == "":
		return "type", "It must be declared."
	case kind == "file" && value("path") == "":
		return "path", `The type "file" needs one.`
	case value("path") != "" && !slices.Contains(charsWithPath, kind):
		return "path", "The type " + kind + " has none."
	case value("log_append") != "" && value("log_file") == "":
		return "log_append", "It goes with log_file."
	default:
		return "", ""
	}
}
