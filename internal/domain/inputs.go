package domain

import "github.com/beevik/etree"

const inputWhy = "The device is another one."

// inputFamily are pointers and keyboards, except those on ps2, which libvirt adds by itself.
var inputFamily = Family{
	Path: "devices.inputs", Tag: "input", in: func(s *Spec) *map[string]Row { return &s.Inputs },
	Doc: "Tablets, mice and keyboards on USB or virtio by a key. A `tablet` makes the pointer of the graphical " +
		"console follow the client's. If you set the map, list every one.",
	Added:   Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The device is unplugged from the running VM."},
	BusOf: func(row Row) string {
		if row["bus"] == "virtio" {
			return busPCI
		}
		return busUSB
	},
	Skip: func(e *etree.Element) bool {
		bus := attr(e, "bus")
		return bus == "ps2" || bus == "xen" || bus == "parallels"
	},
	Attributes: []Attribute{
		{
			Name: "type", Place: "@type", Values: []string{"tablet", "mouse", "keyboard"},
			Kept: []string{"passthrough", "evdev"}, Filled: true, Why: inputWhy, Doc: "Required: kind of device.",
		},
		{
			Name: "bus", Place: "@bus", Values: []string{"usb", "virtio"}, Kept: []string{"none"}, Default: "usb", Filled: true,
			Why: inputWhy, Doc: "Bus of the device.",
		},
	},
	Check: needs("type"),
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
