package domain

// The paths of lifecycle actions.
const (
	OnPoweroff = "platform.events.on_poweroff"
	OnReboot   = "platform.events.on_reboot"
	OnCrash    = "platform.events.on_crash"
)

// eventsGroup sets what the hypervisor does when the guest shuts down, reboots or crashes.
var eventsGroup = Group{
	Path: "platform.events",
	Doc: "What libvirt does at once, without Terraform, when the guest shuts down, reboots or crashes. `run_strategy` " +
		"decides at the next apply.",
	Check: func(value func(string) string) (attribute, problem string) {
		if value("on_poweroff") == "restart" && value("on_reboot") == "destroy" {
			return "on_poweroff", "QEMU can't start a VM again that shuts down while it ends one that reboots."
		}
		return "", ""
	},
	Attributes: []Attribute{
		{
			Name: "on_poweroff", Place: "on_poweroff", Values: []string{"destroy", "restart"},
			Kept: []string{"preserve", "rename-restart"}, Filled: true, Live: SetLifecycle,
			Why:        "The action is set in the running VM.",
			DefaultDoc: "`destroy`",
			Doc: "When the guest shuts down: `destroy` leaves the VM off, `restart` starts it again. A VM that the provider " +
				"shuts down stays off.",
		},
		{
			Name: "on_reboot", Place: "on_reboot", Values: []string{"restart", "destroy"},
			Kept: []string{"preserve", "rename-restart"}, Filled: true, Live: SetLifecycle,
			Why:        "The action is set in the running VM.",
			DefaultDoc: "`restart`",
			Doc:        "When the guest reboots: `restart` lets it reboot, `destroy` leaves the VM off.",
		},
		{
			Name: "on_crash", Place: "on_crash",
			Values: []string{"destroy", "restart", "preserve", "coredump-destroy", "coredump-restart"},
			Kept:   []string{"rename-restart"}, Filled: true, Live: SetLifecycle,
			Why:        "The action is set in the running VM.",
			DefaultDoc: "`restart` with `run_strategy` `Always` or `RerunOnFailure`, otherwise `destroy`",
			Doc: "When the guest reports a crash: **requires `devices.panic`**. `preserve` keeps the memory, " +
				"`coredump-*` dumps it.",
		},
	},
}
