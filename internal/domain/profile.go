package domain

import "slices"

// Profile holds values that suit one kind of guest, for attributes that the configuration of a new VM doesn't declare.
// The values follow KubeVirt's preferences and libosinfo.
type Profile struct {
	Name string
	// Guests describes the guests that the profile is for.
	Guests string
	// X86 says that other architectures don't support the settings.
	X86      bool
	Settings []Setting
}

// Setting is the value of one attribute.
type Setting struct {
	// Path is the attribute: "firmware.type", or "disks.*.bus" for every disk.
	Path string
	// Value is a string, a bool or an int, as users write it.
	Value any
	// With are attributes that the setting depends on. It applies to VMs that declare these values, or don't declare
	// the attributes.
	With map[string]string
	// Unless are other attributes that say the same in full, or leave no choice. The setting applies to VMs that declare
	// none of them.
	Unless []string
}

// ProfileNames returns the names of the profiles.
func ProfileNames() []string {
	names := make([]string, len(Profiles))
	for i, p := range Profiles {
		names[i] = p.Name
	}
	return names
}

// ArchSettings returns the settings of every new VM of an architecture. The firmware of x86 is BIOS. On aarch64 there
// is none but UEFI, without which only a kernel that the host loads can boot.
func ArchSettings(arch string) []Setting {
	if arch != "aarch64" {
		return nil
	}
	return []Setting{{Path: "firmware.type", Value: "efi", Unless: []string{"kernel.path", firmwareLoader}}}
}

// FindProfile returns the profile with that name. A profile that doesn't exist has no settings.
func FindProfile(name string) Profile {
	for _, p := range Profiles {
		if p.Name == name {
			return p
		}
	}
	return Profile{}
}

// Profiles are all profiles, as plain data.
var Profiles = []Profile{
	{
		Name:     "linux",
		Guests:   "Linux with virtio: kernels since 2.6.25 (2008). The firmware is BIOS, on aarch64 UEFI.",
		Settings: slices.Concat(diskBus("virtio"), nicModel("virtio"), virtioLinux),
	},
	{
		Name:     "linux-efi",
		Guests:   "As `linux`, with UEFI and secure boot: Debian, Fedora, RHEL, SUSE, Ubuntu and their relatives.",
		Settings: slices.Concat(secureBoot, diskBus("virtio"), nicModel("virtio"), virtioLinux),
	},
	{
		Name:   "linux-legacy",
		X86:    true,
		Guests: "Linux without virtio: kernels before 2.6.25, such as RHEL 4 and Debian 4.",
		Settings: slices.Concat([]Setting{{Path: "machine_type", Value: "pc"}}, diskBus("ide"), nicModel("e1000"), []Setting{
			agent(false), console(true),
			{Path: "devices.video.model", Value: "vga"},
			{Path: "devices.rng.model", Value: None, Unless: []string{rngGroup.Path}},
		}),
	},
	{
		Name:     "windows-11",
		X86:      true,
		Guests:   "Windows 11 as it is installed: without virtio drivers.",
		Settings: slices.Concat(secureBoot, tpm, diskBus("sata"), nicModel("e1000e"), []Setting{agent(false)}, windows),
	},
	{
		Name:     "windows-11-virtio",
		X86:      true,
		Guests:   "Windows 11 with virtio drivers in its image.",
		Settings: slices.Concat(secureBoot, tpm, diskBus("virtio"), nicModel("virtio"), []Setting{agent(true)}, windows),
	},
	{
		Name:     "windows-10",
		X86:      true,
		Guests:   "Windows 8 and 10 without virtio drivers. The firmware is BIOS.",
		Settings: slices.Concat(diskBus("sata"), nicModel("e1000e"), []Setting{agent(false)}, windows),
	},
	{
		Name:     "windows-10-virtio",
		X86:      true,
		Guests:   "Windows 8 and 10 with virtio drivers in its image. The firmware is BIOS.",
		Settings: slices.Concat(diskBus("virtio"), nicModel("virtio"), []Setting{agent(true)}, windows),
	},
	{
		Name:     "windows-server",
		X86:      true,
		Guests:   "Windows Server since 2012 without virtio drivers.",
		Settings: slices.Concat(secureBoot, diskBus("sata"), nicModel("e1000e"), []Setting{agent(false)}, windows),
	},
	{
		Name:     "windows-server-virtio",
		X86:      true,
		Guests:   "Windows Server since 2012 with virtio drivers in its image.",
		Settings: slices.Concat(secureBoot, diskBus("virtio"), nicModel("virtio"), []Setting{agent(true)}, windows),
	},
}

var (
	secureBoot = []Setting{
		{Path: "firmware.type", Value: "efi"},
		{Path: "firmware.secure_boot", Value: true, With: map[string]string{"firmware.type": "efi"}},
	}
	tpm = []Setting{{Path: "devices.tpm.model", Value: "tpm-crb"}}

	virtioLinux = []Setting{
		agent(true), console(true),
		{Path: "devices.video.model", Value: "virtio"},
		{Path: "devices.rng.model", Value: "virtio"},
	}

	// windows are the settings of all Windows guests. Some of KubeVirt's enlightenments are left out: reenlightenment,
	// which prevents live migration, reset, which Windows doesn't use, and direct timers, which no host lists.
	windows = slices.Concat([]Setting{
		console(false),
		{Path: "devices.inputs.tablet.type", Value: "tablet"},
		{Path: "platform.clock.offset", Value: "localtime"},
		{Path: "platform.clock.rtc_tickpolicy", Value: "catchup"},
		{Path: "platform.clock.pit_tickpolicy", Value: "delay"},
		{Path: "platform.clock.hpet", Value: false},
		{Path: "platform.clock.hypervclock", Value: true, With: onKVM},
		{Path: "platform.hyperv.mode", Value: "custom", With: onKVM},
		{Path: "platform.hyperv.spinlocks", Value: 8191, With: enlightened},
	}, enlightenments(
		"relaxed", "vapic", "vpindex", "runtime", "synic", "stimer", "frequencies", "tlbflush", "ipi",
	))

	// Only KVM has enlightenments; emulation has none.
	onKVM       = map[string]string{"type": "kvm"}
	enlightened = map[string]string{"type": "kvm", "platform.hyperv.mode": "custom"}
)

// agent returns the setting for the guest agent's channel, for which a guest needs a virtio driver.
func agent(has bool) Setting { return Setting{Path: "guest_agent.enabled", Value: has} }

func console(has bool) Setting {
	return Setting{
		Path: "serial_console.enabled", Value: has, Unless: []string{serialFamily.Path, consoleFamily.Path},
	}
}

func enlightenments(names ...string) []Setting {
	all := make([]Setting, len(names))
	for i, name := range names {
		all[i] = Setting{Path: "platform.hyperv." + name, Value: true, With: enlightened}
	}
	return all
}

// diskBus returns the setting for disks only: drives use a bus that the firmware boots from. Only older machine types
// have IDE.
func diskBus(bus string) []Setting {
	with := map[string]string{"disks.*.device": "disk"}
	if bus == "ide" {
		with["machine_type"] = "pc"
	}
	return []Setting{{Path: "disks.*.bus", Value: bus, With: with}}
}

// nicModel is the model of interfaces that may have several: a device of the host has none, those of vdpa and vhostuser
// are always virtio.
func nicModel(name string) []Setting {
	return []Setting{{
		Path: "interfaces.*.model", Value: name,
		Unless: []string{"interfaces.*.hostdev", "interfaces.*.vdpa", "interfaces.*.vhostuser"},
	}}
}
