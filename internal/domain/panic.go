package domain

// panicGroup is the device through which a guest reports that its kernel has crashed.
var panicGroup = Group{
	Path: "devices.panic", Device: "panic", Bus: busNone,
	Doc: "Panic device, through which the guest reports a crash of its kernel. libvirt then does what " +
		"`platform.events.on_crash` tells it. Linux and Windows have drivers.",
	Added:   Transition{Why: "A panic device can be added only when the VM starts."},
	Removed: Transition{Why: "A panic device can't be removed from a running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"isa", "pvpanic", "hyperv", "s390", "pseries"}, Default: "isa",
			Defaults: map[string]string{
				"s390x": "s390", "ppc64": "pseries", "ppc64le": "pseries", "aarch64": "pvpanic", "riscv64": "pvpanic",
			},
			SinceOf:    map[string]string{"pvpanic": "9.1.0"},
			Filled:     true,
			Why:        "A device of another model can't replace one in use.",
			DefaultDoc: "`isa` on x86, `pvpanic` on ARM and RISC-V",
			Doc: "Model: `isa` for x86, `pvpanic` on PCI (libvirt 9.1), `hyperv` for Windows. `s390` and `pseries` are part " +
				"of these architectures.",
		},
	},
}
