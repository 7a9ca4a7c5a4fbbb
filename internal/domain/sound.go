package domain

// soundGroup is the sound card.
var soundGroup = Group{
	Path: "devices.sound", Device: "sound", Bus: busNone,
	Doc:     "Sound card. `audio` says where it is heard; without that, only through SPICE.",
	Added:   Transition{Why: "A sound card can be added only when the VM starts."},
	Removed: Transition{Why: "A sound card can't be removed from a running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"ich9", "ich6", "ac97", "es1370", "usb", "virtio"},
			Kept: []string{"sb16", "pcspk", "ich7"}, Default: "ich9", Filled: true,
			SinceOf: map[string]string{"virtio": "10.4.0"},
			Why:     "A device of another model can't replace one in use.",
			Doc: "Model: `ich9` and `ich6` are Intel HD Audio. `virtio` requires libvirt 10.4 and QEMU 8.2. With `usb`, " +
				"and in most versions of QEMU with `virtio`, the VM can't be moved while it runs.",
		},
	},
}
