package domain

import (
	"cmp"
	"strings"

	"github.com/beevik/etree"
)

// firmwareBlock is what boots the guest.
var firmwareBlock = block{
	rules: firmwareRules,
	read:  func(d *Definition, s *Spec) { s.Firmware = readFirmware(d.root()) },
	apply: func(d *Definition, want Spec) error { return applyFirmware(d.root(), want.Firmware) },
	classify: func(c *classifier) {
		if differs(c.have.Firmware.Type, c.want.Firmware.Type) {
			c.add("firmware.type", "firmware.type", "")
		}
		if differs(c.have.Firmware.SecureBoot, c.want.Firmware.SecureBoot) {
			c.add("firmware.secure_boot", "firmware.secure_boot", "")
		}
	},
	validate: validateFirmware,
	align: func(live *Spec, persistent Spec) {
		live.Firmware.SecureBoot = cmp.Or(live.Firmware.SecureBoot, persistent.Firmware.SecureBoot)
	},
}

var firmwareRules = map[string]rule{
	"firmware.type": {
		effect: restart, why: "The firmware is loaded when the VM starts, and begins with variables of its own.",
	},
	"firmware.secure_boot": {
		effect: restart, why: "The firmware is loaded when the VM starts, and begins with variables of its own.",
	},
}

// kernelBlock is the kernel of direct boot.
var kernelBlock = block{
	rules: kernelRules,
	texts: map[string]func(a, b string) bool{"kernel.cmdline": sameTrimmed},
	read:  func(d *Definition, s *Spec) { s.Kernel = d.readKernel() },
	apply: func(d *Definition, want Spec) error { return d.applyKernel(want.Kernel) },
	classify: func(c *classifier) {
		if c.want.Kernel != nil && *c.want.Kernel != pick(c.have.Kernel, nil, Kernel{}) {
			c.add("kernel", "kernel", "")
		}
	},
	validate: validateKernel,
	normal: func(s *Spec) {
		if s.Kernel != nil {
			k := *s.Kernel
			k.Cmdline = strings.TrimSpace(k.Cmdline)
			s.Kernel = &k
		}
	},
	complete: func(persistent *Spec, _ Spec) {
		if persistent.Kernel == nil {
			persistent.Kernel = &Kernel{}
		}
	},
}

var kernelRules = map[string]rule{
	"kernel": {effect: restart, why: "The kernel is loaded when the VM starts."},
}

// ACPI reports whether the VM has ACPI, and so a power button to which the guest can react.
func (d *Definition) ACPI() bool { return child(d.root(), "features", "acpi") != nil }

// readFirmware reads <os firmware>, <firmware> and <loader>. A live definition has only the loader, even if libvirt
// chose it.
func readFirmware(root *etree.Element) Firmware {
	osElement := child(root, "os")
	loader := child(osElement, "loader")
	auto := attr(osElement, "firmware")
	if auto != "efi" && attr(loader, "type") != "pflash" {
		return Firmware{Type: new("bios"), SecureBoot: new(false)}
	}
	read := Firmware{Type: new("efi")}
	if feature := secureBootFeature(root); feature != "" {
		read.SecureBoot = new(feature == "yes")
		return read
	}
	switch secure := attr(loader, "secure"); {
	case secure != "":
		read.SecureBoot = new(secure == "yes")
	case auto != "efi":
		read.SecureBoot = new(false)
	}
	return read
}

// secureBootFeature returns "yes" or "no" as it was requested of the firmware, "" if it wasn't requested.
func secureBootFeature(root *etree.Element) string {
	for _, feature := range children(child(root, "os", "firmware"), "feature") {
		if attr(feature, "name") == "secure-boot" {
			return attr(feature, "enabled")
		}
	}
	return ""
}

// applyFirmware lets libvirt choose the firmware for what is declared. A loader that a user chose stays while it
// matches what is declared.
func applyFirmware(root *etree.Element, want Firmware) error {
	have := readFirmware(root)
	kind := pick(want.Type, have.Type, "bios")
	if kind == "bios" {
		if pick(want.SecureBoot, nil, false) {
			return Problem{"firmware.secure_boot", `Secure boot needs the firmware type "efi".`}
		}
		if differs(have.Type, want.Type) {
			forgetFirmware(root)
		}
		return nil
	}
	if !differs(have.Type, want.Type) && !differs(have.SecureBoot, want.SecureBoot) {
		return nil
	}
	forgetFirmware(root)
	osElement := ensure(root, "os")
	setAttr(osElement, "firmware", "efi")
	ensure(ensure(root, "features", "os"), "acpi") // UEFI can't describe the VM to its guest without it.
	if want.SecureBoot == nil {
		return nil
	}
	enabled := "no"
	if *want.SecureBoot {
		enabled = "yes"
		// The firmware keeps its keys in system management mode.
		setAttr(ensure(ensure(root, "features", "os"), "smm"), "state", "on")
	}
	add(ensure(osElement, "firmware", "type"), "feature", "enabled", enabled, "name", "secure-boot")
	return nil
}

// RequiresNVRAMReset reports whether the wanted firmware can't use the variables that the current firmware has kept for
// the guest: they lack the keys for secure boot, or have another layout.
func (f Firmware) RequiresNVRAMReset(want Firmware) bool {
	if pick(want.Type, f.Type, "bios") != "efi" {
		return false
	}
	return differs(f.Type, want.Type) || want.SecureBoot != nil && *want.SecureBoot != pick(f.SecureBoot, nil, false)
}

// The values of Metadata.VariablesOf.
const (
	variablesOfEFI        = "efi"
	variablesOfSecureBoot = "secure-boot"
)

// WithFirmware returns the metadata of a definition that gets another firmware, with whether the next start needs new
// variables. If the firmware that wrote the existing ones comes back before it, they fit again. before is the
// definition's firmware until now, running that of the running VM; nil if it is off.
func (m Metadata) WithFirmware(before, want Firmware, running *Firmware) Metadata {
	wrote := before
	switch {
	case running != nil:
		wrote = *running
	case m.FreshNVRAM && m.VariablesOf == "":
		return m
	case m.FreshNVRAM:
		wrote = Firmware{Type: new("efi"), SecureBoot: new(m.VariablesOf == variablesOfSecureBoot)}
	}
	m.FreshNVRAM, m.VariablesOf = wrote.RequiresNVRAMReset(want), ""
	switch {
	case pick(wrote.Type, nil, "bios") != "efi":
	case pick(wrote.SecureBoot, nil, false):
		m.VariablesOf = variablesOfSecureBoot
	default:
		m.VariablesOf = variablesOfEFI
	}
	return m
}

// WithType returns the firmware with the type that follows from the rest of what is declared: only efi has secure boot.
func (f Firmware) WithType() Firmware {
	if f.Type == nil && pick(f.SecureBoot, nil, false) {
		f.Type = new("efi")
	}
	return f
}

// Differs reports whether the firmware declares something other than what the VM has.
func (f Firmware) Differs(have Firmware) bool {
	return differs(have.Type, f.Type) || differs(have.SecureBoot, f.SecureBoot)
}

// forgetFirmware removes the choice of a firmware and its variables.
func forgetFirmware(root *etree.Element) {
	osElement := ensure(root, "os")
	setAttr(osElement, "firmware", "")
	dropChildren(osElement, "firmware", "loader", "nvram")
}

// readKernel reads the kernel of direct boot.
func (d *Definition) readKernel() *Kernel {
	osElement := child(d.root(), "os")
	read := Kernel{
		Path:    text(child(osElement, "kernel")),
		Initrd:  text(child(osElement, "initrd")),
		Cmdline: text(child(osElement, "cmdline")),
	}
	if read == (Kernel{}) {
		return nil
	}
	return &read
}

// applyKernel sets all parts of the kernel of direct boot. A part that isn't declared is removed.
func (d *Definition) applyKernel(want *Kernel) error {
	if want == nil || *want == pick(d.readKernel(), nil, Kernel{}) {
		return nil
	}
	if want.Path == "" && *want != (Kernel{}) {
		return Problem{"kernel.path", "An initrd or a command line needs a kernel."}
	}
	osElement := ensure(d.root(), "os")
	setChild(osElement, "kernel", want.Path, "nvram", "loader", "firmware", "type")
	setChild(osElement, "initrd", want.Initrd, "kernel")
	setChild(osElement, "cmdline", want.Cmdline, "initrd", "kernel")
	return nil
}
