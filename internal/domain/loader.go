package domain

import (
	"errors"
	"path"
	"strings"

	"github.com/beevik/etree"
)

const (
	firmwareLoader = "firmware.loader"
	loaderWhy      = "The firmware is loaded when the VM starts."
)

// firmwareGroup are the attributes of the firmware that each have one place in the definition.
var firmwareGroup = Group{
	Path: "firmware", Block: true,
	Doc: "Firmware.",
	Attributes: []Attribute{
		{
			Name: "loader", Why: loaderWhy, Echo: true, Check: absolute, Read: readLoader, Write: writeLoader,
			Doc: "File on the host with the firmware: flash memory with the type `efi`, otherwise a ROM. `\"\"` lets libvirt " +
				"choose one for `type` and `secure_boot` again.",
		},
		{
			Name: "nvram_template", Why: loaderWhy, Echo: true, Check: absolute,
			Read: func(e *etree.Element) string {
				if readLoader(e) == "" {
					return "" // libvirt chose it together with the firmware.
				}
				return textAt(e, "os/nvram@template")
			},
			Write: func(e *etree.Element, value string) error { setTextAt(e, "os/nvram@template", value); return nil },
			Doc: "File on the host with the initial UEFI variables of a `loader`. Requires `loader`. It is read only " +
				"if the file `nvram` doesn't exist yet.",
		},
		{
			Name: "nvram", Why: loaderWhy, Echo: true,
			Check: func(value string) string {
				if strings.HasPrefix(path.Clean(value), "/dev/") {
					return "It must be a file of its own: libvirt removes it with the VM."
				}
				return absolute(value)
			},
			Read: func(e *etree.Element) string {
				if nvram := child(e, "os", "nvram"); attr(nvram, "type") == "" {
					return text(nvram)
				}
				return textAt(e, "os/nvram[type=file]/source@file")
			},
			Write: func(e *etree.Element, value string) error {
				nvram := child(e, "os", "nvram")
				if attr(nvram, "type") != "" {
					setAttr(nvram, "type", "")
					dropChildren(nvram, "source")
				}
				setTextAt(e, "os/nvram", value)
				return nil
			},
			DefaultDoc: "libvirt chooses one",
			Doc:        "File on the host that keeps the UEFI variables. A new VM starts with those of a file that exists.",
		},
		{
			Name: "stateless", Place: "os/loader@stateless", Kind: Switch, Since: "8.6.0", Why: loaderWhy,
			Doc: "Whether the firmware keeps no variables, as confidential VMs require.",
		},
		{
			Name: "boot_menu.enabled", Place: "os/bootmenu@enable", Kind: Switch, Why: loaderWhy,
			Doc: "Whether the firmware offers a choice of what to boot.",
		},
		{
			Name: "boot_menu.timeout", Place: "os/bootmenu@timeout", Kind: Count, Zero: true, Check: between(1, 65535),
			Why: loaderWhy, Write: func(e *etree.Element, value string) error {
				if value != "" && textAt(e, "os/bootmenu@enable") == "" {
					return errors.New("it requires enabled") // libvirt's schema requires enabled.
				}
				setTextAt(e, "os/bootmenu@timeout", value)
				return nil
			},
			Doc: "Milliseconds until the guest boots without a choice; `0`: the firmware's own time. Requires `enabled`.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		if value("nvram_template") != "" && value("loader") == "" {
			return "nvram_template", "A template needs a loader: without one libvirt chooses both."
		}
		if value("stateless") == "yes" && value("nvram")+value("nvram_template") != "" {
			return "stateless", "Stateless firmware keeps no variables, and has no place for them."
		}
		return "", ""
	},
}

func init() {
	NestedDocs["firmware.boot_menu"] = "Menu of what to boot."
}

// readLoader returns the firmware file that a user chose.
func readLoader(root *etree.Element) string {
	os := child(root, "os")
	if attr(os, "firmware") != "" {
		return ""
	}
	return text(child(os, "loader"))
}

// writeLoader sets the firmware file, or lets libvirt choose it again.
func writeLoader(root *etree.Element, value string) error {
	firmware := readFirmware(root)
	efi, secure := pick(firmware.Type, nil, "") == "efi", pick(firmware.SecureBoot, nil, false)
	os := ensure(root, "os")
	if value == "" {
		forgetFirmware(root)
		if efi {
			return applyFirmware(root, Firmware{Type: new("efi"), SecureBoot: new(secure)})
		}
		dropEmpty(os, root)
		return nil
	}
	if attr(os, "firmware") != "" { // libvirt chose the template together with the firmware.
		setTextAt(root, "os/nvram@template", "")
	}
	setAttr(os, "firmware", "")
	dropChildren(os, "firmware")
	loader := ensure(os, "loader", "type")
	loader.SetText(value)
	if !efi {
		setAttr(loader, "type", "rom")
		return nil
	}
	setAttr(loader, "readonly", "yes")
	setAttr(loader, "type", "pflash")
	if secure {
		setAttr(loader, "secure", "yes")
	}
	return nil
}

// HasNVRAM reports whether the firmware keeps variables on the host.
func (s Spec) HasNVRAM() bool {
	return s.Firmware.Type != nil && *s.Firmware.Type == "efi" && s.Values["firmware.stateless"] != "yes"
}
