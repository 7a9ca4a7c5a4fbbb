package domain

import (
	"cmp"
	"strconv"

	"github.com/beevik/etree"
)

const graphicsWhy = "The screen's server is set up when the VM starts."

// keymaps are the keyboard layouts of QEMU. libvirt accepts any text, and QEMU doesn't start with another one.
var keymaps = []string{
	"ar", "bepo", "cz", "da", "de", "de-ch", "en-gb", "en-us", "es", "et", "fi", "fo", "fr", "fr-be", "fr-ca", "fr-ch",
	"hr", "hu", "is", "it", "ja", "lt", "lv", "mk", "nl", "no", "pl", "pt", "pt-br", "ru", "sl", "sv", "th", "tr",
}

const (
	// minVNCPort is the port of VNC's display 0.
	minVNCPort = 5900
	maxPort    = 65535
)

// graphicsGroup is the VM's first screen over VNC or SPICE. Without it, the VM has neither.
var graphicsGroup = Group{
	Path: "devices.graphics", Device: "graphics", Bus: busNone,
	Doc: "Graphical console by VNC or SPICE. Its password is set by `graphics_access`. Connect with `virt-viewer -c " +
		"<the host's URI> <VM>`. Default for new VMs: VNC on a socket of the host, which opens no port.",
	Added:      Transition{Why: graphicsWhy},
	Removed:    Transition{Why: graphicsWhy},
	Skip:       func(e *etree.Element) bool { return !isScreen(e) },
	Attributes: screenAttributes("vnc", "Protocol."),
	Check:      checkGraphics,
}

// secondGraphicsGroup is the VM's second screen. QEMU has one by VNC and one by SPICE at the same time.
var secondGraphicsGroup = Group{
	Path: secondGraphics, Device: "graphics", Bus: busNone, After: graphicsGroup.Path,
	Doc: "Second graphical console, by the protocol that `graphics` doesn't use. It has no password: `graphics_access` " +
		"sets that of `graphics`. So let others not reach it: by default, it listens on a socket of the host.",
	Added:      Transition{Why: graphicsWhy},
	Removed:    Transition{Why: graphicsWhy},
	Skip:       func(e *etree.Element) bool { return !isScreen(e) || isFirstScreen(e) },
	Attributes: screenAttributes("spice", "Protocol, not that of `graphics`."),
	Check:      checkGraphics,
	Beside: func(all Values) (attribute, problem string) {
		switch first := all["devices.graphics.type"]; {
		case first == None:
			return "type", "It needs devices.graphics, which is declared not to be there."
		case first != "" && first == all[secondGraphics+".type"]:
			return "type", "It is that of devices.graphics, and QEMU has one screen of each protocol."
		default:
			return "", ""
		}
	},
}

const secondGraphics = "devices.second_graphics"

// eglGroup draws what the guest shows with the host's card, for a screen that can't do that itself.
var eglGroup = Group{
	Path: "devices.egl_headless", Device: "graphics", Bus: busNone,
	Doc: "OpenGL on a graphics card of the host without a screen of its own: what `accel3d` of `video` needs with VNC. " +
		"`type = \"none\"` removes it.",
	Added:   Transition{Why: graphicsWhy},
	Removed: Transition{Why: graphicsWhy},
	Skip:    func(e *etree.Element) bool { return attr(e, "type") != eglHeadless },
	Attributes: []Attribute{
		{
			Name: "type", Place: "@type", Values: []string{eglHeadless}, Default: eglHeadless, Filled: true,
			Capability: "graphics/type", Why: graphicsWhy,
			Needs: map[string]string{
				eglHeadless: "a QEMU with OpenGL (Debian: qemu-system-modules-opengl, in Debian 12 qemu-system-common; " +
					"Fedora: qemu-ui-egl-headless)",
			},
			Doc: "What libvirt calls it.",
		},
		renderNode("type", ""),
	},
	Beside: func(all Values) (attribute, problem string) {
		for _, screen := range []string{graphicsGroup.Path, secondGraphics} {
			if all[screen+".gl"] == "yes" {
				return "type", "QEMU draws with one card: " + screen + " has gl already."
			}
		}
		return "", ""
	},
}

const eglHeadless = "egl-headless"

// renderNode is the card of the host that draws. libvirt chooses one when the VM starts.
func renderNode(follows, doc string) Attribute {
	return Attribute{
		Name: "rendernode", Place: "gl@rendernode", Follows: follows, Echo: true, Why: graphicsWhy, Check: absolute,
		DefaultDoc: "the host's first one",
		Doc: "Render node of the host's graphics card, such as `/dev/dri/renderD128`" + doc + ". Each host of the VM " +
			"must have it.",
	}
}

// isScreen reports whether a client can connect to a graphics device. There are other kinds as well.
func isScreen(e *etree.Element) bool { return attr(e, "type") == "vnc" || attr(e, "type") == "spice" }

// isFirstScreen reports whether no other screen is listed before this one.
func isFirstScreen(e *etree.Element) bool {
	for _, other := range children(e.Parent(), "graphics") {
		if isScreen(other) {
			return other == e
		}
	}
	return true
}

// screenAttributes are the attributes of a screen by VNC or SPICE.
func screenAttributes(protocol, doc string) []Attribute {
	return append([]Attribute{
		{
			Name: "type", Place: "@type", Values: []string{"vnc", "spice"}, Default: protocol, Filled: true,
			Capability: "graphics/type", Why: graphicsWhy,
			Needs: map[string]string{
				"spice": "a QEMU with SPICE (Debian 12: qemu-system-common, Debian 13: qemu-system-modules-spice, " +
					"Fedora: qemu-ui-spice-core)",
			},
			Doc: doc,
		},
	}, append(listenAttributes(), drawAttributes()...)...)
}

// listenAttributes say where a screen is reached.
func listenAttributes() []Attribute {
	return []Attribute{
		{
			Name: "listen", Values: []string{"socket", "address", "network", "none"}, Default: "socket", Filled: true,
			Why:  graphicsWhy,
			Read: listensAt,
			Write: func(e *etree.Element, value string) error {
				for _, key := range []string{"listen", "socket"} {
					setAttr(e, key, "")
					setTextAt(e, "listen@"+key, "")
				}
				setTextAt(e, "listen@type", value)
				if value == "socket" || value == "none" {
					setAttr(e, "websocket", "") // A browser connects to a port.
				}
				if (value == "address" || value == "network") && attr(e, "port") == "" {
					setAttr(e, "autoport", "yes")
				}
				return nil
			},
			Doc: "Where the console listens: a `socket` of the host, an `address`, the host's address in a `network`, or " +
				"nowhere (`none`).",
		},
		{
			Name: "address", Follows: "listen", Echo: true, Why: graphicsWhy,
			Read: func(e *etree.Element) string {
				if listensAt(e) != "address" {
					return ""
				}
				return textAt(e, "listen@address")
			},
			Write: func(e *etree.Element, value string) error {
				setAttr(e, "listen", "")
				setTextAt(e, "listen@address", value)
				return nil
			},
			DefaultDoc: "`vnc_listen` or `spice_listen` of the host's `qemu.conf`, usually `127.0.0.1`",
			Doc:        "Address for `listen = \"address\"`, which each host of the VM must have, or `0.0.0.0` for all.",
		},
		{
			Name: "network", Place: "listen@network", Follows: "listen", Why: graphicsWhy,
			Doc: "libvirt network, for `listen = \"network\"`.",
		},
		{
			Name: "port", Follows: "listen", Filled: true, Echo: true, Why: graphicsWhy,
			Read: readPort, Write: writePort, Check: checkPort,
			DefaultDoc: "`auto`",
			Doc:        "Port, or `auto` for one that is free on the host when the VM starts.",
		},
		{
			Name: "websocket", Place: "@websocket", Follows: "type", Echo: true, Why: graphicsWhy,
			Read: func(e *etree.Element) string {
				if port := attr(e, "websocket"); port != "-1" {
					return port
				}
				return Auto
			},
			Write: func(e *etree.Element, value string) error {
				if value == Auto {
					value = "-1"
				}
				setAttr(e, "websocket", value)
				return nil
			},
			Check: checkPort,
			Doc:   "Port for VNC in web browsers, or `auto`.",
		},
	}
}

// drawAttributes say how clients are served.
func drawAttributes() []Attribute {
	return []Attribute{
		{
			Name: "keymap", Place: "@keymap", Why: graphicsWhy, Values: keymaps, Kept: []string{"nl-be"},
			Doc: "Keyboard layout. Only for clients that don't send key codes.",
		},
		{
			Name: "share_policy", Place: "@sharePolicy", Follows: "type", Why: graphicsWhy,
			Values: []string{"allow-exclusive", "force-shared", "ignore"},
			Doc:    "What a VNC client may do to others: with `allow-exclusive`, it may disconnect them.",
		},
		{
			Name: "gl", Place: "gl@enable", Kind: Switch, Follows: "type", Why: graphicsWhy, DefaultDoc: "`false`",
			Doc: "Whether SPICE draws with a graphics card of the host. QEMU, at least until 7.2, then accepts no clients " +
				"over the network: `listen` must be `socket` or `none`. For VNC, see `egl_headless`.",
		},
		renderNode("gl", ", for `gl`"),
	}
}

// listensAt reads where the server listens. libvirt starts a SPICE server without a port as one that doesn't listen,
// unlike a VNC server, which it gives one.
func listensAt(e *etree.Element) string {
	if attr(e, "type") == "spice" && attr(e, "autoport") != "yes" && attr(e, "port") == "" && attr(e, "tlsPort") == "" &&
		textAt(e, "listen@type") == "address" {
		return "none"
	}
	return textAt(e, "listen@type")
}

// readPort reads a port. It returns "" for a server without a port.
func readPort(e *etree.Element) string {
	port := attr(e, "port")
	switch listen := listensAt(e); {
	case listen == "socket", listen == "none":
		return ""
	case attr(e, "autoport") == "yes", port == "-1":
		return Auto
	default:
		return port
	}
}

func writePort(e *etree.Element, value string) error {
	automatic := ""
	switch value {
	case "":
		if attr(e, "type") == "spice" {
			automatic = "yes"
		}
	case Auto:
		value, automatic = "", "yes"
	default:
		automatic = "no"
	}
	setAttr(e, "port", value)
	setAttr(e, "autoport", automatic)
	return nil
}

func checkPort(value string) string {
	if n, err := strconv.Atoi(value); value != Auto && (err != nil || n < 1 || n > maxPort) {
		return strconv.Quote(value) + ` is neither a port nor "auto".`
	}
	return ""
}

func checkGraphics(value func(string) string) (attribute, problem string) {
	listen := value("listen")
	port, err := strconv.Atoi(value("port"))
	switch {
	case value("address") != "" && listen != "address":
		return "address", `It needs listen = "address".`
	case value("network") != "" && listen != "network", listen == "network" && value("network") == "":
		return "network", `It goes with listen = "network".`
	case value("port") != "" && listen != "address" && listen != "network":
		return "port", `A port needs listen = "address" or "network".`
	case value("websocket") != "" && listen != "address" && listen != "network":
		return "websocket", `It needs listen = "address" or "network": libvirt leaves it out otherwise.`
	case value("type") == "spice" && cmp.Or(value("websocket"), value("share_policy")) != "":
		return "type", "Only VNC has websocket and share_policy."
	case value("type") == "vnc" && cmp.Or(value("gl"), value("rendernode")) != "":
		return "type", "Only SPICE has gl and rendernode. VNC draws with devices.egl_headless."
	case value("rendernode") != "" && value("gl") != "yes":
		return "rendernode", "It needs gl = true."
	case err == nil && value("type") != "spice" && port < minVNCPort:
		return "port", "Ports of VNC begin at 5900."
	default:
		return "", ""
	}
}

// HasGraphicsPassword reports whether the screen has a password. Only a definition that was read with its secrets has
// it.
func (d *Definition) HasGraphicsPassword() bool {
	return attr(graphicsGroup.element(d), "passwd") != ""
}

// SetGraphicsPassword sets the password of the screen; "" removes it. It returns the device as a document, and "" if
// there is no screen. The password isn't part of a Spec, because a Spec is recorded and compared.
func (d *Definition) SetGraphicsPassword(password string) string {
	e := graphicsGroup.element(d)
	if e == nil {
		return ""
	}
	setAttr(e, "passwd", password)
	return render(e)
}
