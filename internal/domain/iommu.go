package domain

// iommuWhy says why an IOMMU can't change while the VM runs.
const iommuWhy = "The IOMMU is set up when the VM starts."

func iommuDriver(name, doc string) Attribute {
	return Attribute{
		Name: name, Place: "driver@" + name, Kind: Switch, On: "on", Off: "off", Follows: "model", Why: iommuWhy,
		Doc: doc,
	}
}

// iommuGroup is the IOMMU.
var iommuGroup = Group{
	Path: "devices.iommu", Device: "iommu", Bus: busNone,
	Doc:     "IOMMU, for guests that pass devices through to nested guests.",
	Added:   Transition{Why: iommuWhy},
	Removed: Transition{Why: iommuWhy},
	Check: func(value func(string) string) (attribute, problem string) {
		if bits := value("aw_bits"); value("model") == "intel" && bits != "" && bits != "39" && bits != "48" {
			return "aw_bits", `The model "intel" has 39 or 48.`
		}
		if model := value("model"); model == "virtio" || model == "smmuv3" {
			for _, name := range []string{"intremap", "caching_mode", "iotlb", "eim", "aw_bits"} {
				if value(name) != "" {
					return name, "The model " + model + " has none."
				}
			}
		}
		if value("eim") == "yes" && value("intremap") == "no" {
			return "eim", "Extended interrupts need intremap."
		}
		return "", ""
	},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"intel", "virtio", "smmuv3", "amd"}, Default: "virtio",
			Defaults: map[string]string{"x86_64": "intel", "aarch64": "smmuv3"}, Filled: true, Why: iommuWhy,
			SinceOf:    map[string]string{"virtio": "8.3.0", "amd": "11.5.0"},
			DefaultDoc: "`intel` on x86, `smmuv3` on ARM, otherwise `virtio`",
			Doc: "Model. For the machine type `q35`: `intel`, `amd` (libvirt 11.5) or `virtio` (libvirt 8.3). For ARM: " +
				"`smmuv3` or `virtio`.",
		},
		iommuDriver("intremap", "Whether `intel` remaps interrupts. Required for more than 255 virtual CPUs."),
		iommuDriver("caching_mode", "Whether `intel` uses its caching mode. Required if the VM also has `host_devices`."),
		iommuDriver("iotlb", "Whether `intel` caches addresses in the host's devices."),
		iommuDriver("eim", "Whether `intel` has extended interrupts. Required for more than 255 virtual CPUs."),
		{
			Name: "aw_bits", Place: "driver@aw_bits", Kind: Count, Follows: "model", Why: iommuWhy, Check: between(32, 64),
			Doc: "Width of the addresses of `intel`: 39 or 48.",
		},
	},
}
