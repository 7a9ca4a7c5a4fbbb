package domain

// featureWhy is why a feature of the VM can't change while it runs.
const featureWhy = "The VM is built with it when it starts."

// present is a feature that an element says by being there.
func present(name, doc string) Attribute {
	return Attribute{Name: name, Place: "features/" + name, Kind: Flag, Why: featureWhy, Doc: doc}
}

// toggle is a feature that has a state in the definition.
func toggle(name, place, doc string) Attribute {
	return Attribute{
		Name: name, Place: "features/" + place + "@state", Kind: Switch, On: "on", Off: "off", Why: featureWhy,
		Doc: doc,
	}
}

// featuresGroup is what the VM has besides devices.
var featuresGroup = Group{
	Path: "platform.features",
	Doc:  "Features of the virtual hardware. What isn't set is left alone.",
	Attributes: []Attribute{
		present("acpi", "ACPI. New VMs on x86 have it; without it a guest can't be shut down by a button."),
		present("apic", "APIC. New VMs on x86 have it."),
		present("pae", "Physical address extension, for guests of 32 bits."),
		toggle("pmu", "pmu", "Performance counters of the CPU."),
		toggle("vmport", "vmport", "VMware's port, through which some guests find a mouse. New VMs have it off."),
		toggle("vmcoreinfo", "vmcoreinfo", "Whether the guest can say where its crash information is, for dumps."),
		toggle("kvm_hidden", "kvm/hidden", "Whether KVM is hidden from the guest: some drivers refuse to work in a VM."),
	},
}
