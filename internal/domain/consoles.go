package domain

import "github.com/beevik/etree"

const (
	consoleWhy  = "The console is another one."
	redirdevWhy = "The redirected device is another one."
)

// onVirtio reports whether a <console> is a port of its own. Other consoles repeat a serial port under another name.
func onVirtio(console *etree.Element) bool { return attr(child(console, "target"), "type") == "virtio" }

// consoleFamily are the consoles on virtio, without those that libvirt derives from the first serial port.
var consoleFamily = Family{
	Path: "devices.consoles", Tag: "console", in: func(s *Spec) *map[string]Row { return &s.Consoles },
	Doc: "Consoles on virtio by a key (`/dev/hvc0` and so on in the guest). A new VM with them has a serial console " +
		"only if you set it. If you set the map, list every one.",
	Added:   Transition{Live: true, Why: "The port is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The port is unplugged from the running VM."},
	Bus:     busSerial,
	Skip:    func(e *etree.Element) bool { return !onVirtio(e) },
	begin:   func(e *etree.Element) { add(e, "target", "type", "virtio") },
	Attributes: charSource(consoleWhy, []string{"pty", "file", "unix", "null"},
		"File or socket on the host, for the types `file` and `unix`."),
	Check: checkPortOnHost,
}

// redirdevSource are the attributes that say which program redirects a device.
func redirdevSource() []Attribute {
	all := charSource(redirdevWhy, []string{"spicevmc", "tcp", "unix"}, "Socket on the host, for the type `unix`.")[:2]
	all[0].Write = writeSerialType
	return append(all,
		Attribute{
			Name: "host", Place: "source@host", Follows: "type", Why: redirdevWhy,
			Write: func(e *etree.Element, value string) error {
				mode := ""
				if value != "" {
					mode = "connect"
				}
				setTextAt(e, "source@host", value)
				setTextAt(e, "source@mode", mode)
				return nil
			},
			Doc: "Address of the USB redirection server (`usbredirserver`) that QEMU connects to, for the type `tcp`.",
		},
		Attribute{
			Name: "service", Place: "source@service", Follows: "type", Why: redirdevWhy,
			Doc: "Port or service of that server, for the type `tcp`.",
		},
	)
}

// redirdevFamily are USB devices that a client of the screen or of a socket redirects to the guest.
var redirdevFamily = Family{
	Path: "devices.redirdevs", Tag: "redirdev", in: func(s *Spec) *map[string]Row { return &s.Redirdevs },
	Doc: "USB redirection ports by a key, each for one USB device of a client of the graphical console. They require a " +
		"USB controller, which VMs of this provider have, except on s390x. If you set the map, list every one.",
	Added:      Transition{Live: true, Why: "The port is plugged into the running VM."},
	Removed:    Transition{Live: true, Why: "The port is unplugged from the running VM."},
	Bus:        busUSB,
	begin:      func(e *etree.Element) { setAttr(e, "bus", "usb") },
	Attributes: redirdevSource(),
	Check: func(value func(string) string) (attribute, problem string) {
		tcp := value("type") == "tcp"
		switch {
		case tcp && value("host") == "":
			return "host", `The type "tcp" needs one.`
		case tcp && value("service") == "":
			return "service", `The type "tcp" needs one.`
		case tcp && value("path") != "":
			return "path", `The type "tcp" has none.`
		case !tcp && value("host")+value("service") != "":
			return "host", `Only the type "tcp" has host and service.`
		case value("type") == "unix" && value("path") == "":
			return "path", `The type "unix" needs one.`
		default:
			return checkChar(value)
		}
	},
}
