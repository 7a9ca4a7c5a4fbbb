package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Spec is what can be declared about a virtual machine, and what is read back from its definition. Declared: nil and ""
// mean "not declared", and such facts are left alone; a map that isn't nil is complete. Read back: nil and "" mean
// "not there", or, where it is said so, "the definition can't say".
type Spec struct {
	// Name is the domain's name.
	Name string
	// UUID is the domain's UUID. It never changes.
	UUID string
	// Type is the domain type: kvm or qemu (libvirt knows more, and they are read back).
	Type string
	// Arch is the guest's architecture, as libvirt names it (x86_64).
	Arch string
	// Machine is the machine type. Declared as an alias (q35), it equals each of its versions, see SameMachine.
	Machine string

	CPU      CPU
	Memory   Memory
	Firmware Firmware
	// Kernel is the kernel for direct boot; nil: not declared, or none there. Its zero value declares that there is none.
	Kernel *Kernel

	// Disks by key; nil: not declared. Not nil: the VM has these and no others, CD-ROM and floppy drives included.
	Disks map[string]Disk
	// Interfaces by key; nil: not declared. Not nil: the VM has these and no others.
	Interfaces map[string]Interface

	// GuestAgent says whether there is a channel for the QEMU guest agent.
	GuestAgent *bool
	// SerialConsole says whether there is a console that `virsh console` can open.
	SerialConsole *bool

	// FreeSlots is observed only: PCI slots or PCI Express ports that are free for devices added to the running VM.
	FreeSlots *int
}

// CPU describes a VM's virtual CPUs.
type CPU struct {
	// VCPUs is the number of virtual CPUs that are online.
	VCPUs *int
	// Sockets is the number of sockets online: VCPUs / (Cores * Threads). Read back as nil when that isn't whole.
	Sockets *int
	// Cores is the number of cores per socket, dies and clusters multiplied in.
	Cores *int
	// Threads is the number of threads per core.
	Threads *int
	// MaxSockets is the number of sockets of the topology: as many can be online without a restart.
	MaxSockets *int
	// Mode is one of CPUModes. Read back as nil when the definition has no mode, and where there is Expanded instead.
	Mode *string
	// Model is the CPU model of mode custom.
	Model *string
	// Expanded is observed only, in a running VM's definition: the CPU that libvirt has put in the place of mode and
	// model. Only the persistent definition knows what was asked for.
	Expanded *ExpandedCPU
}

// ExpandedCPU is what mode host-model or custom became when the VM started.
type ExpandedCPU struct {
	// Model is the model in use. Vendor is there when it was modelled on the host's CPU.
	Model, Vendor string
}

// Memory describes a VM's memory, in bytes.
type Memory struct {
	// Size is the memory the guest has now: <currentMemory>, which equals <memory> unless the balloon took some.
	Size *uint64
	// MaxSize is what memory can grow to without a restart: <maxMemory>.
	MaxSize *uint64
	// Installed is observed only: <memory>, what the balloon can give without plugging memory in.
	Installed *uint64
	// Fixed is observed only: there is no balloon, so that nothing changes the memory of a running VM.
	Fixed bool
}

// Firmware describes what boots the guest.
type Firmware struct {
	// Type is one of FirmwareTypes.
	Type *string
	// SecureBoot needs type efi. Read back as nil when the choice was left to libvirt.
	SecureBoot *bool
}

// Kernel is a kernel that is booted directly. Paths are paths on the host.
type Kernel struct {
	Path, Initrd, Cmdline string
}

// Disk is one disk, CD-ROM drive or floppy drive.
type Disk struct {
	Source DiskSource
	// Device is one of DiskDevices.
	Device string
	// Bus is one of DiskBuses.
	Bus string
	// Format is one of DiskFormats.
	Format string
	// Cache is one of DiskCaches.
	Cache string
	// Serial is the serial number that the guest sees.
	Serial   string
	ReadOnly *bool
	// BootOrder counts from 1. It excludes libvirt's older <os><boot dev>, which is removed when an order is declared.
	// Without any order libvirt boots the first disk; those of a new VM are in the order of their keys.
	BootOrder *int
	// Target is observed only: the name in the definition (vda), which need not be the guest's name for it.
	Target string
}

// DiskSource is where a disk's data lives. At most one is set; none is a drive without a medium.
type DiskSource struct {
	// File is the path of an image file on the host.
	File string
	// Block is the path of a block device on the host.
	Block string
	// Network is storage that QEMU reaches by itself.
	Network *NetworkSource
	// Other is observed only: a source of a kind that isn't modelled, as "<type>:<what is known of it>". Given back as
	// it was read, it says that the source stays as it is.
	Other string
}

// NetworkSource is a disk on the network.
type NetworkSource struct {
	// Protocol as libvirt names it: nbd, rbd, iscsi, ...
	Protocol string
	// Name is the export, image or target.
	Name string
	// Hosts are host:port pairs. A port that the definition leaves out is the protocol's own.
	Hosts []string
}

// Interface is one network interface.
type Interface struct {
	// Network is a libvirt network, Bridge a bridge of the host, User QEMU's own user mode network. At most one is set.
	Network, Bridge string
	User            bool
	// Other is observed only, as DiskSource.Other.
	Other string
	// Model is one of InterfaceModels.
	Model string
	// MAC is the address, lower case. Undeclared for a new interface it is derived from the VM's UUID and the key.
	MAC string
	// LinkUp says whether the virtual cable is plugged in.
	LinkUp *bool
	// BootOrder as for disks.
	BootOrder *int
	// Target is observed only: the device on the host, when its name isn't one that libvirt made up.
	Target string
}

// SpecHash returns a stable hash of what the spec declares. Identity and observed facts don't count.
func SpecHash(s Spec) string {
	s.CPU.Expanded = nil
	s.UUID, s.FreeSlots, s.Memory.Installed, s.Memory.Fixed = "", nil, nil, false
	s.Disks = mapValues(s.Disks, func(d Disk) Disk { d.Target = ""; return d })
	s.Interfaces = mapValues(s.Interfaces, func(i Interface) Interface { i.Target = ""; return i })
	data, err := json.Marshal(s)
	if err != nil {
		panic("hashing a spec: " + err.Error()) // Plain data can't fail to marshal.
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// mapValues returns a copy of m with f applied to each value; nil stays nil.
func mapValues[V any](m map[string]V, f func(V) V) map[string]V {
	if m == nil {
		return nil
	}
	out := make(map[string]V, len(m))
	for key, value := range m {
		out[key] = f(value)
	}
	return out
}
