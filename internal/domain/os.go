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

// ACPI says whether the VM has a power button for its guest to react to.
func (d *Definition) ACPI() bool { return child(d.root(), "features", "acpi") != nil }

// readFirmware reads <os firmware>, <firmware> and <loader>. A live definition names the loader only, whoever chose it.
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

// secureBootFeature returns yes or no as the firmware was asked for, "" when it wasn't.
func secureBootFeature(root *etree.Element) string {
	for _, feature := range children(child(root, "os", "firmware"), "feature") {
		if attr(feature, "name") == "secure-boot" {
			return attr(feature, "enabled")
		}
	}
	return ""
}

// applyFirmware lets libvirt choose the firmware for what is declared. A loader that was chosen by hand stays as long
// as it is what is declared.
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
	ensure(ensure(root, "features", "os"), "acpi") // UEFI has no other way to describe the VM.
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

// Outdates says whether the variables that the firmware has kept for the guest are of no use to the one that is wanted:
// they lack the keys that secure boot needs, or are laid out in another way.
func (f Firmware) Outdates(want Firmware) bool {
	if pick(want.Type, f.Type, "bios") != "efi" {
		return false
	}
	return differs(f.Type, want.Type) || want.SecureBoot != nil && *want.SecureBoot != pick(f.SecureBoot, nil, false)
}

// forgetFirmware removes every choice of a firmware and its variables.
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

// applyKernel sets the kernel of direct boot, all of it: a part that isn't declared isn't there.
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
