package domain

// featureWhy says why a feature can't change while the VM runs.
const featureWhy = "The VM is built with it when it starts."

// featureElement returns a feature that is on if its element exists.
func featureElement(name, doc, byDefault string) Attribute {
	return Attribute{
		Name: name, Place: "features/" + name, Kind: Flag, Why: featureWhy, Doc: doc, DefaultDoc: byDefault,
	}
}

// featureState returns a feature that has a state attribute in the definition.
func featureState(name, place, doc, byDefault string) Attribute {
	return Attribute{
		Name: name, Place: "features/" + place + "@state", Kind: Switch, On: "on", Off: "off", Why: featureWhy,
		Doc: doc, DefaultDoc: byDefault,
	}
}

// acpi is the attribute for ACPI.
const acpi = "platform.features.acpi"

// featuresGroup are the VM's features that aren't devices.
var featuresGroup = Group{
	Path: "platform.features",
	Doc:  "Features of the virtual hardware.",
	Attributes: []Attribute{
		featureElement("acpi", "Whether the VM has ACPI. Without it, the guest can't be shut down by a button.",
			"`true` on x86, and on ARM with UEFI"),
		featureElement("apic", "Whether the VM has an APIC.", "`true` on x86"),
		featureElement("pae", "Whether the VM has physical address extension, for guests of 32 bits.", "`false`"),
		featureState("pmu", "pmu", "Whether the guest can use performance counters of the CPU.", "QEMU decides"),
		featureState("vmport", "vmport", "Whether the VM has VMware's port, through which some guests find a mouse.",
			"`false` on x86"),
		featureState("vmcoreinfo", "vmcoreinfo", "Whether the guest can say where its crash information is, for dumps.",
			"`false`"),
		featureState("kvm_hidden", "kvm/hidden", "Whether KVM is hidden from the guest: some drivers refuse to work in a VM.",
			"`false`"),
	},
}
