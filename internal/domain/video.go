package domain

import (
	"cmp"
	"slices"
	"strings"
)

const videoWhy = "The graphics card is set up when the VM starts."

// cardNumber returns an attribute of the graphics card that is a number.
func cardNumber(name, doc string) Attribute {
	return Attribute{
		Name: name, Place: "model@" + name, Kind: Count, Follows: "model", Filled: true, Why: videoWhy, Doc: doc,
	}
}

// cardMemory returns an attribute of the graphics card that is an amount of memory. It must be a power of two, because
// libvirt would round it up.
func cardMemory(name, doc string) Attribute {
	a := cardNumber(name, doc+" A power of two.")
	a.Check = func(value string) string {
		if n, ok := number(value); ok && n&(n-1) != 0 {
			return "It isn't a power of two: libvirt would round it up."
		}
		return ""
	}
	return a
}

// videoGroup is the first graphics card. libvirt adds one to every VM with a screen.
var videoGroup = Group{
	Path: "devices.video", Device: "video", Bus: busNone, Explicit: true,
	Doc: "First graphics card. Further cards aren't changed. Default for new VMs: `vga` on x86 with BIOS, `bochs` " +
		"on x86 with UEFI, otherwise `virtio`.",
	Added:   Transition{Why: videoWhy},
	Removed: Transition{Why: videoWhy},
	Attributes: []Attribute{
		{
			Name: "model", Place: "model@type", Values: []string{"virtio", "vga", "qxl", "bochs", "cirrus", "ramfb"},
			Kept: []string{"vmvga", "xen", "vbox", "parallels", "gop"}, Default: "virtio", Filled: true,
			Capability: "video/modelType", Why: videoWhy,
			Doc: "Model. `virtio` for Linux, `vga` or `bochs` for anything else, `qxl` with SPICE. In a new VM, it is that " +
				"of `devices.video`.",
		},
		cardMemory("vram", "Video memory in KiB; of `qxl`, its secondary memory."),
		cardMemory("ram", "Primary memory of `qxl` in KiB."),
		cardMemory("vgamem", "Memory of `qxl` for the VGA mode in KiB."),
		cardNumber("heads", "Number of screens that it can have."),
		{
			Name: "primary", Place: "model@primary", Kind: Switch, Filled: true, Why: videoWhy,
			Check: func(value string) string {
				if value == "no" {
					return "libvirt makes the first graphics card the one that the firmware uses."
				}
				return ""
			},
			Doc: "Whether the firmware uses this card. libvirt sets it to `true` for the first card; no other value is " +
				"accepted.",
		},
		{
			Name: "accel3d", Place: "model/acceleration@accel3d", Kind: Switch,
			Follows: "model", Why: videoWhy,
			Doc: "3D acceleration of `virtio`, which needs a graphics card of the host. Such a VM can't be moved while it runs.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		model := value("model")
		if model != "" && model != "qxl" {
			for _, name := range []string{"ram", "vgamem"} {
				if value(name) != "" {
					return name, "Only qxl has it."
				}
			}
		}
		if slices.Contains([]string{"vga", "bochs", "cirrus", "ramfb"}, model) && cmp.Or(value("heads"), "1") != "1" {
			return "heads", "The model " + model + " has one screen."
		}
		if value("accel3d") == "yes" && model != "" && !strings.HasPrefix(model, "virtio") {
			return "accel3d", "Only virtio has it."
		}
		return "", ""
	},
}
