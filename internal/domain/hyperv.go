package domain

import (
	"errors"
	"strings"

	"github.com/beevik/etree"
)

// enlightenment returns an attribute for a feature of Hyper-V. QEMU supports the feature if libvirt lists its name.
func enlightenment(name, place, doc string) Attribute {
	a := featureState(name, "hyperv/"+place, doc, "")
	a.Capability, a.Listed = "hyperv/features", place
	return a
}

// since sets the version of libvirt that has the attribute.
func since(version string, a Attribute) Attribute {
	a.Since = version
	return a
}

// hypervGroup are the features of Hyper-V that the guest sees. Windows runs faster with them.
var hypervGroup = Group{
	Path: "platform.hyperv",
	Doc:  "Hyper-V enlightenments, which make Windows run faster. Default for new VMs: none, unless `profile` sets them.",
	Attributes: []Attribute{
		{
			Name: "mode", Place: "features/hyperv@mode", Values: []string{"custom", "passthrough"}, Why: featureWhy,
			Doc: "`custom`: the features that are set here. `passthrough`: all features that the host has; such a VM " +
				"can't be moved while it runs.",
		},
		featureState("relaxed", "hyperv/relaxed", "Whether Windows tolerates timers that come late.", ""),
		featureState("vapic", "hyperv/vapic", "Whether the guest can use the virtual APIC.", ""),
		withState("features/hyperv/spinlocks", "retries", Attribute{
			Name: "spinlocks", Kind: Count, Why: featureWhy, Zero: true, Capability: "hyperv/features", Listed: "spinlocks",
			Check: func(value string) string {
				if n, ok := number(value); ok && n > 0 && n < minSpinlocks {
					return "Hyper-V has at least 4095 retries; 8191 is usual, 0 is off."
				}
				return ""
			},
			Doc: "How often the guest tries to get a spinlock before it tells the host, usually `8191`; `0`: off.",
		}),
		enlightenment("vpindex", "vpindex", "Whether the guest can read the number of each virtual CPU."),
		enlightenment("runtime", "runtime", "Whether the guest can read how long each virtual CPU has run."),
		enlightenment("synic", "synic", "Whether the guest can use the synthetic interrupt controller."),
		enlightenment("stimer", "stimer", "Whether the guest can use synthetic timers."),
		partOf("stimer", featureState("stimer_direct", "hyperv/stimer/direct", "Whether synthetic timers have interrupts "+
			"of their own. Requires `stimer`.", "")),
		enlightenment("reset", "reset", "Whether the guest can reset itself through the hypervisor."),
		withState("features/hyperv/vendor_id", "value", Attribute{
			Name: "vendor_id", Why: featureWhy, Capability: "hyperv/features", Listed: "vendor_id",
			Check: func(value string) string {
				if len(value) > maxVendorID || strings.ContainsAny(value, ",\n\r\t") || strings.TrimSpace(value) != value {
					return "It has at most 12 characters in one line, no comma, and no space around it."
				}
				return ""
			},
			Doc: "Name of the hypervisor that the guest sees, at most 12 characters. `\"\"`: none.",
		}),
		enlightenment("frequencies", "frequencies", "Whether the guest can read the frequencies of its clocks."),
		enlightenment("reenlightenment", "reenlightenment", "Whether the guest is told when its clock's frequency "+
			"changes."),
		enlightenment("tlbflush", "tlbflush", "Whether the hypervisor flushes other CPUs' address caches for the guest."),
		since("11.0.0", featureState("tlbflush_direct", "hyperv/tlbflush/direct", "Whether the host itself flushes a "+
			"nested guest's address caches, if `tlbflush` is on.", "")),
		since("11.0.0", featureState("tlbflush_extended", "hyperv/tlbflush/extended", "Whether the guest can have "+
			"single address ranges flushed, if `tlbflush` is on.", "")),
		enlightenment("ipi", "ipi", "Whether the hypervisor sends interrupts between CPUs for the guest."),
		enlightenment("evmcs", "evmcs", "Whether nested virtualization on Intel is faster by enlightened VMCS."),
		since("8.10.0", enlightenment("avic", "avic", "Whether the host's hardware APIC is used.")),
		since("10.7.0", enlightenment("emsr_bitmap", "emsr_bitmap", "Whether nested virtualization is faster because "+
			"changes of MSR bitmaps are announced.")),
		since("10.7.0", enlightenment("xmm_input", "xmm_input", "Whether the guest can call the hypervisor with arguments "+
			"in XMM registers.")),
	},
}

const (
	// minSpinlocks is libvirt's least number of retries.
	minSpinlocks = 4095
	// maxVendorID is the maximum length of a vendor's name in libvirt.
	maxVendorID = 12
)

// partOf completes an attribute that is a part of a feature. libvirt refuses the part without the feature.
func partOf(feature string, a Attribute) Attribute {
	place, on := a.Place, "features/hyperv/"+feature+"@state"
	a.Write = func(e *etree.Element, value string) error {
		if value != "" && textAt(e, on) == "" {
			return errors.New("it requires " + feature)
		}
		state := map[string]string{"yes": "on", "no": "off"}[value]
		setTextAt(e, place, state)
		return nil
	}
	return a
}

// withState completes an attribute whose element has a state in addition to that attribute. Without a value the state
// is off.
func withState(element, name string, a Attribute) Attribute {
	value, state := element+"@"+name, element+"@state"
	a.Read = func(e *etree.Element) string {
		if textAt(e, state) != "on" {
			return ""
		}
		return textAt(e, value)
	}
	a.Write = func(e *etree.Element, wanted string) error {
		on := ""
		if wanted != "" {
			on = "on"
		}
		setTextAt(e, value, wanted)
		setTextAt(e, state, on)
		return nil
	}
	return a
}
