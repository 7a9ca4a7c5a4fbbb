package domain

import (
	"slices"

	"github.com/beevik/etree"
)

const (
	smartcardWhy = "The smartcard reader is set up when the VM starts."
	// smartcardService is the port where a VM listens for a card.
	smartcardService = "devices.smartcard.service"
	// fromCertificates is the mode of a card whose certificates are in a database of the host.
	fromCertificates = "host-certificates"
	// cardCertificates is the number of certificates that a card has in QEMU.
	cardCertificates = 3
)

// smartcardGroup is the smartcard reader, of which QEMU has one.
var smartcardGroup = Group{
	Path: "devices.smartcard", Device: "smartcard", Bus: busUSB,
	Doc: "Smartcard reader on USB. `mode = \"none\"` removes it. With `host` and `host-certificates` the VM can't be " +
		"moved while it runs.",
	Added:   Transition{Why: "A smartcard reader is there from the start of the VM."},
	Removed: Transition{Why: "The smartcard reader is removed when the VM starts the next time."},
	Attributes: []Attribute{
		{
			Name: "mode", Place: "@mode", Values: []string{"passthrough", "host", fromCertificates},
			Default: "passthrough", Filled: true, Write: writeSmartcardMode, Why: smartcardWhy,
			Doc: "`passthrough`: a client of the graphical console lends its card. `host`: the reader of the host. " +
				"`host-certificates`: a card made of `certificates` on the host.",
		},
		{
			Name: "type", Place: "@type", Values: []string{"spicevmc", "tcp", "unix"}, Default: "spicevmc",
			Follows: "mode", Filled: true, Why: smartcardWhy,
			Kept: []string{"pty", "file", "dev", "pipe", "null", "stdio", "udp", "vc", "spiceport", "dbus"},
			Write: func(e *etree.Element, value string) error {
				dropChildren(e, "source", "protocol") // They belong to the old type.
				setAttr(e, "type", value)
				return addressLast(e)
			},
			Doc: "Where the card of mode `passthrough` comes from: a client of SPICE, or a program on a socket (`vscclient`).",
		},
		{
			Name: "path", Follows: "type", Why: smartcardWhy, Check: absolute,
			Read:  func(e *etree.Element) string { return textAt(e, "source@path") },
			Write: func(e *etree.Element, value string) error { return writeSmartcardSource(e, "path", value) },
			Doc:   "Socket on the host, for the type `unix`.",
		},
		{
			Name: "host", Follows: "type", Why: smartcardWhy,
			Read:  func(e *etree.Element) string { return textAt(e, "source@host") },
			Write: func(e *etree.Element, value string) error { return writeSmartcardSource(e, "host", value) },
			Doc:   "Address of the host where the VM listens, for the type `tcp`.",
		},
		{
			Name: "service", Follows: "type", Why: smartcardWhy,
			Read:  func(e *etree.Element) string { return textAt(e, "source@service") },
			Write: func(e *etree.Element, value string) error { return writeSmartcardSource(e, "service", value) },
			Doc:   "Port where the VM listens, for the type `tcp`.",
		},
		{
			Name: "certificates", Kind: Words, Follows: "mode", Why: smartcardWhy,
			Check: func(value string) string {
				if names := ParseWords(value); len(names) != cardCertificates || slices.Contains(names, "") {
					return "It isn't a list of three names."
				}
				return ""
			},
			Read: func(e *etree.Element) string {
				var names []string
				for _, certificate := range children(e, "certificate") {
					names = append(names, text(certificate))
				}
				return FormatWords(names)
			},
			Write: func(e *etree.Element, value string) error {
				dropChildren(e, "certificate")
				for _, name := range ParseWords(value) {
					add(e, "certificate").SetText(name)
				}
				return addressLast(e)
			},
			Doc: "Names of the card's three certificates, for the mode `host-certificates`.",
		},
		{
			Name: "database", Follows: "mode", Why: smartcardWhy, Check: absolute,
			Read: func(e *etree.Element) string { return text(child(e, "database")) },
			Write: func(e *etree.Element, value string) error {
				setTextAt(e, "database", value)
				return addressLast(e)
			},
			DefaultDoc: "`/etc/pki/nssdb`", Doc: "NSS database of the host with the certificates.",
		},
	},
	Check: checkSmartcard,
}

// writeSmartcardMode sets where the card is. What a card is made of belongs to its mode.
func writeSmartcardMode(e *etree.Element, value string) error {
	setAttr(e, "type", "")
	dropChildren(e, "source", "protocol", "certificate", "database")
	if setAttr(e, "mode", value); value == "passthrough" {
		setAttr(e, "type", "spicevmc") // libvirt has no default type.
	}
	return nil
}

// writeSmartcardSource sets a part of the address of a socket, on which the VM listens.
func writeSmartcardSource(e *etree.Element, key, value string) error {
	if setTextAt(e, "source@"+key, value); value != "" && textAt(e, "source@mode") == "" {
		setTextAt(e, "source@mode", "bind")
	}
	return addressLast(e)
}

// addressLast moves the address of a smartcard reader to where libvirt's schema wants it.
func addressLast(e *etree.Element) error {
	if address := child(e, "address"); address != nil {
		e.RemoveChild(address)
		e.AddChild(address)
	}
	return nil
}

func checkSmartcard(value func(string) string) (attribute, problem string) {
	mode, kind := value("mode"), value("type")
	switch {
	case mode != "" && mode != "passthrough" && kind != "":
		return "type", `Only the mode "passthrough" has one.`
	case (kind == "unix") != (value("path") != ""):
		return "path", `The type "unix" needs one, and only that type has one.`
	}
	for _, name := range []string{"host", "service"} {
		if (kind == "tcp") != (value(name) != "") {
			return name, `The type "tcp" needs one, and only that type has one.`
		}
	}
	switch {
	case mode == fromCertificates && value("certificates") == "":
		return "certificates", `The mode "host-certificates" needs three names.`
	case mode != fromCertificates && value("certificates") != "":
		return "certificates", `Only the mode "host-certificates" has them.`
	case mode != fromCertificates && value("database") != "":
		return "database", `Only the mode "host-certificates" has one.`
	default:
		return "", ""
	}
}
