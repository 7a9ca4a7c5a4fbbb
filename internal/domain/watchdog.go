package domain

import "github.com/beevik/etree"

// watchdogGroup is the watchdog. The watchdog that is part of every q35, which libvirt 9.1 and later list, is not
// included.
var watchdogGroup = Group{
	Path: "devices.watchdog", Device: "watchdog", PCI: true, Conventional: true,
	Doc: "Watchdog, which acts when the guest stops feeding it. This is not the one that is built into machine " +
		"type `q35`.",
	Added:   Transition{Live: true, Why: "The watchdog is plugged into the running VM."},
	Removed: Transition{Live: true, Why: "The watchdog is unplugged from the running VM."},
	Skip:    func(e *etree.Element) bool { return attr(e, "model") == "itco" },
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"i6300esb", "diag288"}, Kept: []string{"ib700"},
			Default: "i6300esb", Defaults: map[string]string{"s390x": "diag288"}, Filled: true,
			Why:        "A device of another model can't replace one in use.",
			DefaultDoc: "`diag288` on s390x, otherwise `i6300esb`",
			Doc:        "Watchdog model: `i6300esb` on PCI, `diag288` on s390x.",
		},
		{
			Name: "action", Place: "@action", Filled: true, Default: "reset",
			Values: []string{"reset", "shutdown", "poweroff", "pause", "none", "dump", "inject-nmi"},
			Why:    "The action is set when the watchdog is plugged in.",
			Doc:    "What to do when the guest stops feeding the watchdog.",
		},
	},
}
