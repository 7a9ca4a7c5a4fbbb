package domain

import (
	"strings"

	"github.com/beevik/etree"
)

// rngGroup is the source of random numbers. New VMs have one.
var rngGroup = Group{
	Path: "devices.rng", Device: "rng", Bus: busPCI,
	Doc:     "Random number generator. Default for new VMs: the model `virtio`, which reads `/dev/urandom`.",
	Added:   Transition{Live: true, Why: "The device is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The device is unplugged from the running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"virtio", "virtio-transitional", "virtio-non-transitional"},
			Default: "virtio", Filled: true, Capability: "rng/model",
			Why: "A device of another model can't replace one in use.",
			Doc: "Model.",
		},
		{
			Name: "backend", Place: "backend@model", Values: []string{"random", "builtin"}, Kept: []string{"egd"},
			Default: "random", Filled: true, Capability: "rng/backendModel", SinceOf: map[string]string{"builtin": "6.1.0"},
			Renews: true, // An egd has a source below the element, and a protocol.
			Why:    "The device is connected when it is plugged in.",
			Doc:    "Source of the numbers: `random` reads `source`, `builtin` is QEMU's own (libvirt 6.1).",
		},
		{
			Name: "source", Place: "backend", Follows: "backend", Default: "/dev/urandom", Filled: true,
			Why: "The device is connected when it is plugged in.",
			Check: func(value string) string {
				if !strings.HasPrefix(value, "/") {
					return "It isn't an absolute path on the host."
				}
				return ""
			},
			Doc: "File on the host that the backend `random` reads: `/dev/urandom`, `/dev/random` or `/dev/hwrng`. Each " +
				"host that the VM may run on must have it.",
		},
		{
			Name: "rate_bytes", Place: "rate@bytes", Kind: Count,
			Write: func(e *etree.Element, value string) error {
				if value == "" { // Without a number of bytes, the period has no meaning.
					dropChildren(e, "rate")
					return nil
				}
				setTextAt(e, "rate@bytes", value)
				return nil
			},
			Why:        "The rate is set when the device is plugged in.",
			DefaultDoc: "no limit",
			Doc:        "Bytes that the guest can read in each `rate_period`.",
		},
		{
			Name: "rate_period", Place: "rate@period", Kind: Count,
			Why:        "The rate is set when the device is plugged in.",
			DefaultDoc: "`1000`",
			Doc:        "Period of `rate_bytes` in milliseconds.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		switch {
		case value("backend") == "builtin" && value("source") != "":
			return "source", `Only the backend "random" has a source.`
		case value("rate_period") != "" && value("rate_bytes") == "":
			return "rate_period", "A period needs rate_bytes."
		default:
			return "", ""
		}
	},
}
