package domain

// Spec is what can be declared about a virtual machine, and what is read back from its definition. Declared: nil and ""
// mean "not declared", and such facts are left alone; a map that isn't nil lists everything. Read back: nil and "" mean
// "not there" or, for fields that say so, "the definition can't say". The tag "path" is a field's step in the paths of
// Change; "-" marks fields that are observed only.
type Spec struct {
	// Name is the domain's name.
	Name string `path:"name"`
	// UUID is the domain's UUID. It never changes.
	UUID string `path:"-"`
	// Type is the domain type: kvm or qemu. Other types that libvirt knows are read back.
	Type string `path:"type"`
	// Arch is the guest's architecture, as libvirt names it (x86_64).
	Arch string `path:"arch"`
	// Machine is the machine type. A declared alias (q35) equals each of its versions, see SameMachineType.
	Machine string `path:"machine_type"`

	CPU      CPU      `path:"cpu"`
	Memory   Memory   `path:"memory"`
	Firmware Firmware `path:"firmware"`
	// Kernel is the kernel for direct boot; nil: not declared, or no kernel. Its zero value declares that there is
	// none.
	Kernel *Kernel `path:"kernel"`

	// Ignition is the host's file with the configuration that Ignition gets from the firmware; nil: not declared, or no
	// file. "" declares that there is none.
	Ignition *string `json:",omitempty" path:"ignition"`

	// Disks are the disks by key; nil: not declared. Otherwise the VM has these and no others, including CD-ROM and
	// floppy drives.
	Disks map[string]Disk `path:"disks"`
	// Medium is declared only: the medium in the drive with MediumKey, see withMedium; nil: not declared. Its zero
	// value declares that the drive, if there is one, is empty.
	Medium *DiskSource `json:",omitempty" path:"-"`
	// Interfaces are the interfaces by key; nil: not declared. Otherwise the VM has these and no others.
	Interfaces map[string]Interface `path:"interfaces"`

	// GuestAgent says whether there is a channel for the QEMU guest agent.
	GuestAgent *bool `path:"guest_agent"`
	// SerialConsole says whether there is a console that `virsh console` can open.
	SerialConsole *bool `path:"serial_console"`

	// Inputs and the following fields are the devices of Families by key; nil: not declared. Otherwise the VM has these
	// and no others of that kind.
	Inputs      map[string]Row `json:",omitempty" path:"devices.inputs"`
	Serials     map[string]Row `json:",omitempty" path:"devices.serials"`
	Consoles    map[string]Row `json:",omitempty" path:"devices.consoles"`
	Channels    map[string]Row `json:",omitempty" path:"devices.channels"`
	Filesystems map[string]Row `json:",omitempty" path:"devices.filesystems"`
	HostDevices map[string]Row `json:",omitempty" path:"devices.host_devices"`
	Redirdevs   map[string]Row `json:",omitempty" path:"devices.redirdevs"`
	VirtioMem   map[string]Row `json:",omitempty" path:"devices.virtio_mem"`
	NVDIMMs     map[string]Row `json:",omitempty" path:"devices.nvdimms"`

	// ExtraDevices are the elements of <devices> that no attribute describes, as XML by key; nil: not declared.
	// Otherwise the VM has these and no others with our alias.
	ExtraDevices map[string]string `json:",omitempty" path:"extra_device_xml"`

	// Values are the values of the groups of attributes, see Groups.
	Values Values `json:",omitempty" path:""`

	// FreeSlots is observed only: the number of PCI slots or PCI Express ports that are free for devices added to the
	// running VM.
	FreeSlots *int `path:"-"`
	// ConventionalSlots is observed only: the number of slots that are free for devices added to the running VM on the
	// conventional PCI buses of a VM with PCI Express.
	ConventionalSlots int `json:",omitempty" path:"-"`
	// BusyIOThread is observed only: the highest number of an I/O thread that a device uses; 0: none does.
	BusyIOThread int `json:",omitempty" path:"-"`
	// BuiltInWatchdog is observed only: what the watchdog does that is part of machine type q35; "" if the definition
	// doesn't list it. libvirt 9.1 and later list it.
	BuiltInWatchdog string `json:",omitempty" path:"-"`
	// FixedVirtualPorts is observed only: the host's libvirt can't connect a running VM's interface to another network or
	// bridge if the interface has a virtual port before or after. See Definition.FixVirtualPorts.
	FixedVirtualPorts bool `json:",omitempty" path:"-"`
	// Started is observed only: the declared values that a running VM was started with, of what its live definition can't
	// say and its persistent one may say otherwise since, see StartedBefore. These are the attributes that its guest
	// changes (Attribute.Moves), the networks of interfaces that are Lent, and values that libvirt could have chosen as
	// well (Attribute.Echo).
	Started Values `json:",omitempty" path:"-"`
	// Held is observed only: the paths of devices that the running VM's guest was asked to release, and hasn't. It loses
	// them when it stops.
	Held []string `json:",omitempty" path:"-"`
	// Buses is observed only: the kinds of controllers that the VM has, such as usb and virtio-serial; nil: unknown.
	Buses []string `json:",omitempty" path:"-"`
}

// CPU describes a VM's virtual CPUs.
type CPU struct {
	// VCPUs is the number of virtual CPUs that are online.
	VCPUs *int `path:"vcpus"`
	// Sockets is the number of sockets online: VCPUs / (Cores * Threads). It is read back as nil if that isn't an
	// integer.
	Sockets *int `path:"sockets"`
	// Cores is the number of cores per socket, multiplied by dies and clusters.
	Cores *int `path:"cores"`
	// Threads is the number of threads per core.
	Threads *int `path:"threads"`
	// MaxSockets is the number of sockets of the topology: as many can be online without a restart.
	MaxSockets *int `path:"max_sockets"`
	// Mode is one of CPUModes. It is read back as nil if the definition has no mode, or Expanded is set instead.
	Mode *string `path:"mode"`
	// Model is the CPU model for the mode custom.
	Model *string `path:"model"`
	// Expanded is observed only, in a running VM's definition: the CPU with which libvirt has replaced mode and model.
	// Only the persistent definition has the requested mode and model.
	Expanded *ExpandedCPU `path:"-"`
}

// ExpandedCPU is what mode host-model or custom became when the VM started.
type ExpandedCPU struct {
	// Model is the model in use. Vendor is set if the CPU was modelled on the host's CPU.
	Model, Vendor string
}

// Memory describes a VM's memory, in bytes.
type Memory struct {
	// Size is the memory that the guest has now: <currentMemory>, which equals <memory> unless the balloon took some.
	Size *uint64 `path:"size"`
	// MaxSize is the size to which memory can grow without a restart: <maxMemory>.
	MaxSize *uint64 `path:"max_size"`
	// Installed is observed only: <memory>, the most that the balloon can give without plugging memory in.
	Installed *uint64 `path:"-"`
	// Fixed is observed only: there is no balloon, so the memory of a running VM can't change.
	Fixed bool `path:"-"`
	// Full is observed only: there is no free slot for another memory device.
	Full bool `json:",omitempty" path:"-"`
}

// Firmware describes what boots the guest.
type Firmware struct {
	// Type is one of FirmwareTypes.
	Type *string `path:"type"`
	// SecureBoot requires the type efi. It is read back as nil if libvirt chose it.
	SecureBoot *bool `path:"secure_boot"`
}

// Kernel is a kernel that is booted directly. Paths are paths on the host.
type Kernel struct {
	Path, Initrd, Cmdline string
}

// Disk is one disk, CD-ROM drive or floppy drive.
type Disk struct {
	Source DiskSource `path:"source"`
	// Device is one of DiskDevices.
	Device string `path:"device"`
	// Bus is one of DiskBuses.
	Bus string `path:"bus"`
	// Format is one of DiskFormats.
	Format string `path:"format"`
	// Cache is one of DiskCaches.
	Cache string `path:"cache"`
	// Serial is the serial number that the guest sees. "" declares that there is none.
	Serial   *string `path:"serial"`
	ReadOnly *bool   `path:"read_only"`
	// BootOrder counts from 1. It excludes libvirt's older <os><boot dev>, which is removed if an order is declared.
	// Without any order libvirt boots the first disk. The disks of a new VM are in the order of their keys. If one is
	// created from an image, those that are created empty come after the others.
	BootOrder *int `path:"boot_order"`
	// Values are the values of DiskRows, by name.
	Values Values `json:",omitempty" path:""`
	// Target is observed only: the name in the definition (vda), which may differ from the name in the guest.
	Target string `path:"-"`
	// Backing is observed only: the backing images of the source, nearest first. A persistent definition lists few of
	// them or none.
	Backing []DiskSource `json:",omitempty" path:"-"`
}

// UnknownFile stands for the file of a disk whose source isn't known yet, because the disk or its volume is still to be
// created. A disk without a source would be a drive without a medium.
const UnknownFile = "/not-known-yet"

// KnownFile stands for a file that is as it should be, and whose path its reader doesn't have.
const KnownFile = "/as-it-is"

// Placeholders are the paths that stand for others while a change is only compared or checked. No host may be given
// one.
var Placeholders = []string{UnknownFile, KnownFile}

// DiskSource is where a disk's data is. At most one field is set; if none is, the drive has no medium.
type DiskSource struct {
	// File is the path of an image file on the host.
	File string
	// Block is the path of a block device on the host.
	Block string
	// Network is storage that QEMU reaches by itself.
	Network *NetworkSource
	// Other is observed only: a source of a kind that isn't modelled, as "<type>:<what is known of it>". If it is
	// declared as it was read, the source stays as it is.
	Other string
}

// NetworkSource is a disk on the network.
type NetworkSource struct {
	// Protocol is libvirt's name of the protocol: nbd, rbd, iscsi, ...
	Protocol string
	// Name is the export, image or target.
	Name string
	// Hosts are host:port pairs. If the definition omits a port, it is the protocol's default port.
	Hosts []string
	// Auth is how QEMU authenticates; nil: not declared, or QEMU doesn't authenticate.
	Auth *SourceAuth `json:",omitempty"`
	// Values are the values of NetworkRows, by name.
	Values Values `json:",omitempty"`
}

// SourceAuth is how QEMU authenticates to a server: as a user, with a secret of the host.
type SourceAuth struct {
	Username string
	// Secret is the UUID of the secret.
	Secret string
}

// Interface is one network interface.
type Interface struct {
	// Network is a libvirt network, Bridge a bridge of the host, User QEMU's user mode network, and Direct a device of
	// the host that is shared as DirectMode says. At most one is set.
	Network string `path:"connection"`
	Bridge  string `path:"connection"`
	User    bool   `path:"connection"`
	Direct  string `json:",omitempty" path:"connection"`
	// DirectMode is one of DirectModes.
	DirectMode string `json:",omitempty" path:"connection"`
	// HostDevice is the PCI address of a network card of the host that only this VM uses: 0000:03:00.1. VDPA is a
	// vhost-vdpa device of the host. VHostUser is the socket of a switch in user space, and VHostUserMode one of
	// VHostUserModes. They exclude each other and the fields above.
	HostDevice    string `json:",omitempty" path:"connection"`
	VDPA          string `json:",omitempty" path:"connection"`
	VHostUser     string `json:",omitempty" path:"connection"`
	VHostUserMode string `json:",omitempty" path:"connection"`
	// Other is observed only, see DiskSource.Other.
	Other string `path:"connection"`
	// Model is one of InterfaceModels.
	Model string `path:"model"`
	// MAC is the address in lower case. If a new interface declares none, it is derived from the VM's UUID and the key.
	MAC string `path:"mac"`
	// LinkUp says whether the virtual cable is plugged in.
	LinkUp *bool `path:"link_up"`
	// BootOrder is as for disks.
	BootOrder *int `path:"boot_order"`
	// Values are the values of InterfaceRows, by name.
	Values Values `json:",omitempty" path:""`
	// Target is observed only: the device on the host, unless libvirt generated its name.
	Target string `path:"-"`
	// Lent is observed only: the interface is a device of the host that Network lends to the running VM.
	Lent bool `json:",omitempty" path:"-"`
}

// mapValues returns a copy of m with f applied to each value. nil stays nil.
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
