package domain

import (
	"slices"

	"github.com/beevik/etree"
)

// egdRows are the attributes of the daemon that the backend "egd" reads random numbers from.
var egdRows = []Attribute{
	{
		Name: "egd_type", Place: "backend@type", Values: []string{"tcp", "udp", "unix"},
		Kept: []string{"dev", "file", "pipe", "pty", "stdio", "null", "vc", "spicevmc", "spiceport", "nmdm"},
		Why:  rngWhy, Write: writeEGDType,
		Doc: "How QEMU reaches the daemon, for the backend `egd`. Each host that the VM may run on must reach it.",
	},
	{
		Name: "egd_mode", Values: []string{"connect", "bind"}, Why: rngWhy, Follows: "egd_type",
		Read: func(e *etree.Element) string {
			if kind := textAt(e, "backend@type"); kind != "tcp" && kind != "unix" {
				return ""
			}
			return textAt(e, "backend/source@mode")
		},
		Write: func(e *etree.Element, value string) error {
			if source := child(e, "backend", "source"); source != nil && value != "" {
				setAttr(source, "mode", value)
			}
			return nil
		},
		DefaultDoc: "`connect`",
		Doc:        "Whether QEMU connects to the daemon, or listens until the daemon connects. For `tcp` and `unix`.",
	},
	egdSource("egd_host", "connect", "host", "Address of the daemon, or that on which QEMU listens. For `tcp` and `udp`."),
	egdSource("egd_service", "connect", "service", "Port or service of the daemon. For `tcp` and `udp`."),
	egdSource("egd_bind_host", "bind", "host", "Address on the host to which QEMU binds its own end. For `udp`."),
	egdSource("egd_bind_service", "bind", "service", "Port on the host to which QEMU binds its own end. For `udp`."),
	{
		Name: "egd_path", Place: "backend/source@path", Why: rngWhy, Follows: "egd_type", Check: absolute,
		Read: func(e *etree.Element) string {
			if textAt(e, "backend@type") != "unix" {
				return ""
			}
			return textAt(e, "backend/source@path")
		},
		Doc: "Socket on the host. For `unix`.",
	},
}

// writeEGDType replaces the connection to the daemon.
func writeEGDType(e *etree.Element, value string) error {
	backend := child(e, "backend")
	if backend == nil {
		return nil
	}
	dropChildren(backend, "source", "protocol")
	switch setAttr(backend, "type", value); value {
	case "tcp":
		add(backend, "source", "mode", "connect")
		add(backend, "protocol", "type", "raw")
	case "unix":
		add(backend, "source", "mode", "connect")
	}
	return nil
}

// egdSource returns an attribute of the end of a connection to the daemon with that mode. TCP has one end.
func egdSource(name, mode, key, doc string) Attribute {
	end := func(e *etree.Element) *etree.Element {
		backend := child(e, "backend")
		for _, source := range children(backend, "source") {
			kind := attr(backend, "type")
			if kind == "tcp" && mode == "connect" || kind == "udp" && attr(source, "mode") == mode {
				return source
			}
		}
		return nil
	}
	return Attribute{
		Name: name, Why: rngWhy, Follows: "egd_type", Doc: doc,
		Read: func(e *etree.Element) string { return attr(end(e), key) },
		Write: func(e *etree.Element, value string) error {
			source := end(e)
			if source == nil && value != "" {
				source = add(child(e, "backend"), "source", "mode", mode)
			}
			if source == nil {
				return nil
			}
			if setAttr(source, key, value); attr(source, "host")+attr(source, "service") == "" && mode == "bind" {
				drop(source)
			}
			return nil
		},
	}
}

// checkEGD returns the attribute of the daemon that doesn't fit the others, and why.
func checkEGD(value func(string) string) (attribute, problem string) {
	kind := value("egd_type")
	for _, a := range egdRows {
		if value(a.Name) != "" && value("backend") != "egd" && value("backend") != "" {
			return a.Name, `It requires backend = "egd".`
		}
	}
	for name, kinds := range map[string][]string{
		"egd_mode": {"tcp", "unix"}, "egd_host": {"tcp", "udp"}, "egd_service": {"tcp", "udp"},
		"egd_bind_host": {"udp"}, "egd_bind_service": {"udp"}, "egd_path": {"unix"},
	} {
		if value(name) != "" && !slices.Contains(kinds, kind) {
			return name, "The type of the daemon has none."
		}
	}
	switch {
	case value("backend") != "egd":
		return "", ""
	case kind == "unix" && value("egd_path") == "":
		return "egd_path", `The type "unix" needs it.`
	case (kind == "tcp" || kind == "udp") && value("egd_service") == "":
		return "egd_service", "The type " + kind + " needs it."
	case kind == "tcp" && value("egd_host") == "":
		return "egd_host", `The type "tcp" needs it.`
	default:
		return "", ""
	}
}
