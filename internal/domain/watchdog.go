package domain

import "github.com/beevik/etree"

// watchdogGroup is the watchdog. The watchdog that is part of every q35, which libvirt 9.1 and later list, is not
// included. Its action is set together with this one's, because libvirt refuses two watchdogs with different actions.
var watchdogGroup = Group{
	Path: "devices.watchdog", Device: "watchdog", Bus: busConventional,
	Doc: "Watchdog, which acts when the guest stops feeding it. This is not the one that is built into machine " +
		"type `q35`.",
	Added:           Transition{Live: true, Why: "The watchdog is plugged into the running VM."},
	Removed:         Transition{Live: true, Why: "The watchdog is unplugged from the running VM."},
	Skip:            isBuiltInWatchdog,
	RestartRequired: coldWatchdog,
	RestartWhy:      "Only an `i6300esb` with the action of the built-in watchdog can be plugged.",
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{watchdogOnPCI, "diag288"}, Kept: []string{"ib700"},
			Default: watchdogOnPCI, Defaults: map[string]string{"s390x": "diag288"}, Filled: true,
			Why:        "A device of another model can't replace one in use.",
			DefaultDoc: "`diag288` on s390x, otherwise `i6300esb`",
			Doc:        "Watchdog model: `i6300esb` on PCI, `diag288` on s390x.",
		},
		{
			Name: "action", Filled: true, Default: "reset",
			Values: []string{"reset", "shutdown", "poweroff", "pause", "none", "dump", "inject-nmi"},
			Read:   func(e *etree.Element) string { return attr(e, "action") },
			Write: func(e *etree.Element, value string) error {
				setAttr(e, "action", value)
				for _, other := range children(e.Parent(), "watchdog") {
					if isBuiltInWatchdog(other) && value != "" {
						setAttr(other, "action", value)
					}
				}
				return nil
			},
			Why: "The action is set when the watchdog is plugged in.",
			Doc: "What to do when the guest stops feeding the watchdog.",
		},
	},
}

// watchdogOnPCI is the only model that libvirt plugs into running VMs and unplugs.
const watchdogOnPCI = "i6300esb"

// isBuiltInWatchdog reports whether a watchdog is the one that is part of machine type q35.
func isBuiltInWatchdog(e *etree.Element) bool { return attr(e, "model") == "itco" }

// builtInWatchdog returns the action of the watchdog that is part of machine type q35, and "" if none is listed.
func (d *Definition) builtInWatchdog() string {
	for _, e := range d.devices("watchdog") {
		if isBuiltInWatchdog(e) {
			return attr(e, "action")
		}
	}
	return ""
}

// coldWatchdog reports whether libvirt refuses to plug the watchdog in or to unplug it.
func coldWatchdog(device Values, vm Spec) bool {
	action := device["devices.watchdog.action"]
	return device["devices.watchdog.model"] != watchdogOnPCI ||
		vm.BuiltInWatchdog != "" && vm.BuiltInWatchdog != action
}
