package domain

// panicGroup is the device by which a guest tells that its kernel has crashed.
var panicGroup = Group{
	Path: "devices.panic", Device: "panic",
	Doc: "Panic device: the guest tells of a crash of its kernel, and `platform.events.on_crash` is done. Linux has the driver " +
		"(`pvpanic`).",
	Added:   Transition{Why: "A panic device is there from the start of the VM."},
	Removed: Transition{Why: "A panic device can't be taken from a running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"isa", "pvpanic", "hyperv", "s390", "pseries"}, Default: "isa",
			Defaults: map[string]string{
				"s390x": "s390", "ppc64": "pseries", "ppc64le": "pseries", "aarch64": "pvpanic", "riscv64": "pvpanic",
			},
			Filled: true,
			Why:    "A device of another model can't take the place of one in use.",
			Doc: "`isa` on x86, `pvpanic` on PCI, `hyperv` for Windows, `s390` and `pseries` on those machines, which always " +
				"have one.",
		},
	},
}
