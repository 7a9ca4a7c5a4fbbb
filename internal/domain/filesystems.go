package domain

import "github.com/beevik/etree"

// filesystemWhy says why directories can't be added to a running VM.
const filesystemWhy = "Directories are shared when the VM starts: libvirt 9.0 crashes if one is plugged in."

// filesystemFamily are the host's directories that the guest sees.
var filesystemFamily = Family{
	Path: "devices.filesystems", Tag: "filesystem", in: func(s *Spec) *map[string]Row { return &s.Filesystems },
	Doc: "Directories of the host that the guest can mount, by a key. Such a VM can't be moved while it runs. Each " +
		"host that the VM may run on must have the directory. If you set the map, list every one.",
	Added: Transition{Why: filesystemWhy}, Removed: Transition{Why: filesystemWhy}, Bus: busPCI,
	begin: func(e *etree.Element) { setAttr(e, "type", "mount") },
	Attributes: []Attribute{
		{
			Name: "target", Place: "target@dir", Why: filesystemWhy, Filled: true,
			Doc: "Required: name by which the guest mounts it (`mount -t virtiofs <target> /mnt`).",
		},
		{
			Name: "source", Place: "source@dir", Why: filesystemWhy, Check: absolute, Doc: "Required: directory on the host.",
		},
		{
			Name: "driver", Why: filesystemWhy, Values: []string{"virtiofs", "9p"},
			Kept: []string{"handle", "loop", "nbd", "ploop", "mtp"}, Default: "virtiofs", Filled: true,
			Read: func(e *etree.Element) string {
				if kind := textAt(e, "driver@type"); kind != "path" && kind != "" {
					return kind
				}
				return "9p"
			},
			Write: func(e *etree.Element, value string) error {
				if value == "9p" {
					value = "path"
				}
				if value == "virtiofs" {
					setAttr(e, "accessmode", "passthrough")
				}
				setTextAt(e, "driver@type", value)
				return nil
			},
			Doc: "`virtiofs` is faster. It requires `virtiofsd` on the host and `memory = { shared = true }`. RHEL's QEMU " +
				"lacks `9p`.",
		},
		{
			Name: "access_mode", Place: "@accessmode", Why: filesystemWhy, Values: []string{"passthrough", "mapped", "squash"},
			Filled: true, Doc: "Who owns files on the host. `virtiofs` has `passthrough` only.",
		},
		{
			Name: "read_only", Place: "readonly", Kind: Flag, Why: filesystemWhy,
			DefaultDoc: "`false`",
			Doc:        "Whether the guest can only read the directory. With `virtiofs`, it requires libvirt 11.",
		},
		{
			Name: "cache", Place: "binary/cache@mode", Values: []string{"none", "always"}, Follows: "driver",
			Why: filesystemWhy, DefaultDoc: "virtiofsd's own",
			Doc: "What the guest may keep of files: `none` shows what the host changes at once, `always` is faster. " +
				"`virtiofs` only.",
		},
		{
			Name: "queue_size", Place: "driver@queue", Kind: Count, Follows: "driver", Why: filesystemWhy,
			Check: func(value string) string {
				if n, ok := number(value); ok && n >= 1 && n <= 1024 && n&(n-1) == 0 {
					return ""
				}
				return "It isn't a power of two up to 1024."
			},
			DefaultDoc: "QEMU's, which is `128`", Doc: "Number of requests in the device's queue. `virtiofs` only.",
		},
		{
			Name: "xattr", Place: "binary@xattr", Kind: Switch, On: "on", Off: "off", Follows: "driver", Why: filesystemWhy,
			DefaultDoc: "`false`",
			Doc:        "Whether the guest sees extended attributes of files, such as those of SELinux. `virtiofs` only.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		if value("driver") == "virtiofs" && value("access_mode") != "" && value("access_mode") != "passthrough" {
			return "access_mode", "virtiofs has passthrough only."
		}
		for _, name := range []string{"cache", "queue_size", "xattr"} {
			if value(name) != "" && value("driver") != "" && value("driver") != "virtiofs" {
				return name, `It needs driver = "virtiofs".`
			}
		}
		return needs("target", "source")(value)
	},
}
