package domain

import "github.com/beevik/etree"

const inputWhy = "The device is another one."

// inputFamily are pointers and keyboards, except those on ps2, which libvirt adds by itself.
var inputFamily = Family{
	Path: "devices.inputs", Tag: "input", in: func(s *Spec) *map[string]Row { return &s.Inputs },
	Doc: "Tablets, mice and keyboards, and input devices of the host, by a key. A `tablet` makes the pointer of the " +
		"graphical console follow the client's. If you set the map, list every one.",
	Added:   Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The device is unplugged from the running VM."},
	Buses:   []bus{busPCI, busUSB},
	BusOf: func(row Row) bus {
		switch {
		case row["bus"] == "virtio" || row["type"] == "passthrough":
			return busPCI
		case row["type"] == "evdev":
			return busNone
		default:
			return busUSB
		}
	},
	Fixed:    func(row Row) bool { return row["type"] == "evdev" },
	FixedWhy: "`evdev` is set up when the VM starts.",
	Skip: func(e *etree.Element) bool {
		bus := attr(e, "bus")
		return bus == "ps2" || bus == "xen" || bus == "parallels"
	},
	Attributes: []Attribute{
		{
			Name: "type", Place: "@type", Values: []string{"tablet", "mouse", "keyboard", "passthrough", "evdev"},
			SinceOf: map[string]string{"evdev": "7.4.0"},
			Filled:  true, Why: inputWhy, Write: writeInputType,
			Doc: "Required: kind of device. `passthrough` gives the guest an input device of the host, and `evdev` " +
				"(libvirt 7.4) what is typed or moved on one. With both, the VM can't be moved while it runs.",
		},
		{
			Name: "bus", Place: "@bus", Values: []string{"usb", "virtio"}, Kept: []string{"none"}, Default: "usb", Filled: true,
			Why: inputWhy, DefaultDoc: "`usb`; `virtio` for `passthrough`; none for `evdev`", Write: writeInputBus,
			Doc: "Bus of the device.",
		},
		{
			Name: "device", Why: inputWhy, Check: absolute,
			Read: func(e *etree.Element) string { return attr(child(e, "source"), inputSource(e)) },
			Write: func(e *etree.Element, value string) error {
				if key := inputSource(e); key != "" && value != "" {
					setAttr(ensure(e, "source"), key, value)
				}
				return nil
			},
			Doc: "Input device of the host, such as `/dev/input/by-id/usb-...-event-kbd`. For `passthrough` and `evdev`, " +
				"which require it.",
		},
		{
			Name: "grab", Place: "source@grab", Values: []string{"all"}, Unset: None, Why: inputWhy,
			Doc: "Whether the keyboard takes the VM's other `evdev` devices along when it changes sides. For `evdev`.",
		},
		{
			Name: "grab_toggle", Place: "source@grabToggle", Since: "7.6.0", Why: inputWhy,
			Values:     []string{"ctrl-ctrl", "alt-alt", "shift-shift", "meta-meta", "scrolllock", "ctrl-scrolllock"},
			DefaultDoc: "`ctrl-ctrl`",
			Doc:        "Keys that give the device to the guest and back to the host. For `evdev`.",
		},
		{
			Name: "repeat", Place: "source@repeat", Kind: Switch, On: "on", Off: "off", Why: inputWhy,
			DefaultDoc: "`false`",
			Doc:        "Whether a key that is held down repeats. For `evdev`.",
		},
	},
	Check: checkInput,
}

// inputSource returns the attribute of <source> that names the host's device, "" if such an input has none.
func inputSource(e *etree.Element) string {
	return map[string]string{"passthrough": "evdev", "evdev": "dev"}[attr(e, "type")]
}

// writeInputType sets the kind of a device. What an input device of the host says belongs to its kind.
func writeInputType(e *etree.Element, value string) error {
	setAttr(e, "type", value)
	dropChildren(e, "source")
	return writeInputBus(e, attr(e, "bus"))
}

// writeInputBus sets the bus. A device of the host has only one that is possible.
func writeInputBus(e *etree.Element, value string) error {
	switch {
	case attr(e, "type") == "evdev":
		value = ""
	case attr(e, "type") == "passthrough":
		value = "virtio"
	case value == "":
		value = "usb"
	}
	if attr(e, "bus") != value {
		dropChildren(e, "address") // It belongs to the old bus.
	}
	setAttr(e, "bus", value)
	return nil
}

func checkInput(value func(string) string) (attribute, problem string) {
	kind := value("type")
	ofHost := kind == "passthrough" || kind == "evdev"
	switch {
	case ofHost && value("device") == "":
		return "device", "The type " + kind + " needs one."
	case !ofHost && value("device") != "":
		return "device", `Only the types "passthrough" and "evdev" have one.`
	case kind == "passthrough" && value("bus") != "" && value("bus") != "virtio":
		return "bus", `The type "passthrough" is on virtio only.`
	case kind == "evdev" && value("bus") != "" && value("bus") != None:
		return "bus", `The type "evdev" has none.`
	}
	for _, name := range []string{"grab", "grab_toggle", "repeat"} {
		if kind != "evdev" && value(name) != "" && value(name) != None {
			return name, `Only the type "evdev" has it.`
		}
	}
	return needs("type")(value)
}

// needs returns a check that these attributes are declared.
func needs(names ...string) func(func(string) string) (attribute, problem string) {
	return func(value func(string) string) (string, string) {
		for _, name := range names {
			if value(name) == "" {
				return name, "It must be declared."
			}
		}
		return "", ""
	}
}
