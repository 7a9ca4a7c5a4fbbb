package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

const (
	// fwCfgFiles is the path of the entries whose content is in files.
	fwCfgFiles = "platform.fw_cfg_files"
	smbiosWhy  = "The guest reads it from its firmware when it starts."
	fwCfgWhy   = "QEMU hands it to the guest's firmware when the VM starts."
)

// smbiosGroup is what the guest reads about its hardware.
var smbiosGroup = Group{
	Path: "platform.smbios",
	Doc:  "What the guest reads about its hardware (SMBIOS), such as manufacturer and serial number.",
	Attributes: []Attribute{
		{
			Name: "mode", Place: "os/smbios@mode", Values: []string{"sysinfo", "host"}, Unset: "emulate", Why: smbiosWhy,
			Doc: "Where the information comes from: the entries here (`sysinfo`), the `host`, or QEMU (`emulate`).",
		},
		smbiosEntries("bios", "bios", "BIOS", "", "vendor", "version", "date", "release"),
		smbiosEntries("system", "system", "system", "; a `uuid` must be the VM's",
			"manufacturer", "product", "version", "serial", "sku", "family"),
		smbiosEntries("base_board", "baseBoard", "base board", "",
			"manufacturer", "product", "version", "serial", "asset", "location"),
		smbiosEntries("chassis", "chassis", "chassis", "", "manufacturer", "version", "serial", "asset", "sku"),
	},
}

// fwCfgGroup are the entries that QEMU passes to the guest through its firmware configuration device, except the
// configuration for Ignition.
var fwCfgGroup = Group{
	Path: "platform",
	Attributes: []Attribute{
		fwCfg("fw_cfg", "Texts for the guest in `/sys/firmware/qemu_fw_cfg/by_name`, by names such as "+
			"`opt/com.example/name`. They are in the definition and the state: put no secret there. `{}` removes them.",
			func(string) string { return "" }, (*etree.Element).Text,
			func(e *etree.Element, value string) { e.SetText(value) }),
		fwCfg("fw_cfg_files", "Like `fw_cfg`, with paths of files on the host whose content the guest reads. Each "+
			"host that the VM may run on must have them. `{}` removes them.",
			absolute, func(e *etree.Element) string { return attr(e, "file") },
			func(e *etree.Element, value string) { setAttr(e, "file", value) }),
	},
}

// Files returns the files of the host that the values name.
func (f Values) Files() []string {
	files := slices.Collect(maps.Values(ParseTexts(f[fwCfgFiles])))
	files = slices.AppendSeq(files, maps.Keys(ParseTable(f[BlkioDevices])))
	for _, g := range []Group{graphicsGroup, secondGraphicsGroup, eglGroup} {
		files = append(files, f[g.Path+".rendernode"])
	}
	return append(files, f[firmwareLoader], f["firmware.nvram_template"])
}

// sysinfo returns the element of that type, nil if there is none.
func sysinfo(root *etree.Element, kind string) *etree.Element {
	for _, list := range children(root, "sysinfo") {
		if attr(list, "type") == kind {
			return list
		}
	}
	return nil
}

// ensureSysinfo returns the element of that type. It adds the element if there is none.
func ensureSysinfo(root *etree.Element, kind string) *etree.Element {
	list := sysinfo(root, kind)
	if list == nil {
		list = element("sysinfo", "type", kind)
		insert(root, list, "sysinfo", "os")
	}
	return list
}

// dropSysinfo removes the element if it is empty.
func dropSysinfo(root *etree.Element, kind string) {
	if list := sysinfo(root, kind); list != nil && len(list.ChildElements()) == 0 {
		drop(list)
	}
}

// smbiosEntries returns the attribute for the entries of one kind of hardware, which have these names.
func smbiosEntries(name, tag, what, more string, names ...string) Attribute {
	return Attribute{
		Name: name, Kind: Texts, Why: smbiosWhy,
		Check: func(value string) string {
			for name := range ParseTexts(value) {
				if !slices.Contains(names, name) && (tag != "system" || name != "uuid") {
					return fmt.Sprintf("%q isn't one of %s.", name, strings.Join(names, ", "))
				}
			}
			return ""
		},
		Read: func(root *etree.Element) string {
			texts := map[string]string{}
			for _, e := range children(child(sysinfo(root, "smbios"), tag), "entry") {
				texts[attr(e, "name")] = e.Text() // libvirt and the guest keep white space around it.
			}
			return FormatTexts(texts)
		},
		Write: func(root *etree.Element, value string) error {
			list := ensureSysinfo(root, "smbios")
			section := ensure(list, tag)
			dropChildren(section, "entry")
			texts := ParseTexts(value)
			for _, name := range sortedKeys(texts) {
				add(section, "entry", "name", name).SetText(texts[name])
			}
			dropEmpty(section, list)
			dropSysinfo(root, "smbios")
			return nil
		},
		Doc: "SMBIOS fields of the " + what + ": `" + strings.Join(names, "`, `") + "`" + more +
			". Used with `mode = \"sysinfo\"`. `{}` removes them.",
	}
}

// fwCfg returns the attribute for the entries whose value get reads.
func fwCfg(name, doc string, check func(value string) string, get func(*etree.Element) string,
	set func(e *etree.Element, value string),
) Attribute {
	entries := func(root *etree.Element) []*etree.Element {
		return slices.DeleteFunc(children(sysinfo(root, "fwcfg"), "entry"), func(e *etree.Element) bool {
			return attr(e, "name") == ignitionEntry || get(e) == ""
		})
	}
	return Attribute{
		Name: name, Kind: Texts, Why: fwCfgWhy, Doc: doc,
		Read: func(root *etree.Element) string {
			texts := map[string]string{}
			for _, e := range entries(root) {
				texts[attr(e, "name")] = get(e)
			}
			return FormatTexts(texts)
		},
		Write: func(root *etree.Element, value string) error {
			for _, e := range entries(root) {
				drop(e)
			}
			texts := ParseTexts(value)
			for _, name := range sortedKeys(texts) {
				set(add(ensureSysinfo(root, "fwcfg"), "entry", "name", name), texts[name])
			}
			dropSysinfo(root, "fwcfg")
			return nil
		},
		Check: func(value string) string {
			for name, text := range ParseTexts(value) {
				switch wrong := check(text); {
				case name == ignitionEntry:
					return fmt.Sprintf("%q is the configuration for Ignition: declare ignition.", name)
				case !strings.HasPrefix(name, "opt/"):
					return fmt.Sprintf("The name %q doesn't begin with opt/, as those that aren't QEMU's own do.", name)
				case text == "":
					return fmt.Sprintf("The entry %q has no content.", name)
				case wrong != "":
					return wrong
				}
			}
			return ""
		},
	}
}
