package domain

import (
	"cmp"
	"slices"

	"github.com/beevik/etree"
)

// Mobility is everything in a definition that decides whether and how a VM can move to another host. Unlike a Spec it
// also covers devices that can't be declared.
type Mobility struct {
	// Machine is the machine type. In a running VM's definition it has its version (pc-q35-7.2).
	Type, Arch, Machine string
	// CPU is the <cpu> element as a document, "" if there is none. CPUMode is its mode.
	CPU, CPUMode string
	// Memory is the memory, in bytes, that the VM can have without plugging memory in.
	Memory uint64
	// Pages are the bytes of huge pages that it has while it runs, by page size, which may be DefaultPages.
	Pages map[uint64]uint64

	Disks      []MobileDisk
	Interfaces []MobileInterface
	// Floors are what networks guarantee to the interfaces, by network.
	Floors map[string]NetworkFloor
	// HostDevices are the host's devices that the VM uses, such as "pci 0000:03:00.0". VFIO says that one of them has
	// state in hardware, which can't be copied while the VM runs.
	HostDevices []ImmobileDevice
	VFIO        bool
	// SharedMemory is memory that the VM shares with other VMs on its host. It isn't migrated.
	SharedMemory []MobileMemory
	// Immobile are devices whose state QEMU can't migrate.
	Immobile []ImmobileDevice
	// Filesystems are the host's directories that the guest sees.
	Filesystems []MobileFilesystem
	// PersistentMemory are the host's files and devices that are memory of the guest and outlast it.
	PersistentMemory []MobileMemory

	// Confidential is the type of memory protection: sev, sev-snp, tdx, s390-pv; "" if there is none.
	Confidential string
	// HypervPassthrough says that the guest sees all Hyper-V features that the host has.
	HypervPassthrough bool
	// Reenlightenment says that the guest expects to be told when its TSC changes, and InvariantTSC that the guest
	// expects that the TSC doesn't change. FixedTSC says that the definition sets the frequency, so that other hosts
	// can meet both expectations.
	Reenlightenment, InvariantTSC, FixedTSC bool

	// TPM is the backend of the TPM: emulator, passthrough, external; "" if there is none. TPMSpecial says what is
	// special about the place where an emulator keeps its state; "" means plain files in libvirt's own directory.
	TPM, TPMSpecial string
	// TPMSecret is the UUID of the host's secret that the TPM's state is encrypted with, "" if there is none.
	TPMSecret string
	// NVRAM is the host's file with the firmware's variables; "" if there is none. NVRAMOther is the kind of another
	// place for them, which isn't a file of the host. NVRAMUnnamed says that there is a file, but the definition
	// doesn't name it: if libvirt chooses the firmware, only the live definition names the file.
	NVRAM, NVRAMOther string
	NVRAMUnnamed      bool
	// Ignition is the file with the configuration for Ignition, "" if there is none. A file that was created with the
	// VM is in Disks instead, without a Target.
	Ignition string
	// Values are the values of the VM's groups of attributes.
	Values Values
	// Demands are what the firmware and the interfaces demand of a host, in addition to Values.
	Demands []Demand
	// Files are the host's files that QEMU opens when it starts, other than disks: the kernel and its initrd.
	Files []string
	// Devices are the host's devices that QEMU opens by their path when it starts.
	Devices []MobilePath
	// Loader is the file with the firmware, "" if the machine type's own is used. libvirt writes its choice into a running
	// VM's definition, so that the target opens the same path.
	Loader string
}

// MobileDisk is one disk or drive.
type MobileDisk struct {
	// Key is the disk's key, as in Spec.Disks. Target is its name in the definition, such as vda.
	Key, Target string
	// Device is disk, lun, cdrom or floppy.
	Device string
	// Path is the file or block device on the host, "" for other sources. Block says that it is a block device.
	Path  string
	Block bool
	// Network says that QEMU reaches the storage by itself, from any host. Empty says that there is no medium.
	Network, Empty bool
	// Other is a source of a kind that isn't modelled, see DiskSource.Other. Pool and Volume are those of a source that
	// each host looks up in its own storage pool of that name.
	Other, Pool, Volume string
	// ReadOnly says that the disk is never written. Shareable says that several VMs may write to it at a time.
	ReadOnly, Shareable bool
	Cache               string
	// Format is the format of the image: raw, qcow2, ...; "" if the definition doesn't say. Encrypted says that libvirt
	// gives QEMU a secret for the disk. Passphrase is the UUID of that secret, if another LUKS image can be created
	// with it.
	Format     string
	Encrypted  bool
	Passphrase string
	// Shared says that the disk is declared to be the same disk on all hosts.
	Shared bool
	// Own is the record of a disk that was created with the VM, and nil for other disks.
	Own *OwnDisk
	// Backing are the backing images, nearest first. Only the live definition lists all of them.
	Backing []BackingImage
	// Transient says that the guest's writes go to a separate file, which is removed when the guest stops.
	Transient bool
	// Secrets are the UUIDs of the host's secrets with which QEMU opens the disk.
	Secrets []string
	// Reservations says that the guest may use SCSI persistent reservations through a helper on the host.
	Reservations bool
}

// BackingImage is an image that others are based on.
type BackingImage struct {
	// Path is the file on the host, "" for other images.
	Path, Format string
}

// MobileInterface is one network interface.
type MobileInterface struct {
	// Key is the interface's key, as in Spec.Interfaces.
	Key string
	// Type is libvirt's: network, bridge, user, direct, hostdev, vdpa, vhostuser, ...
	Type string
	// Source is the network, bridge or device that it is connected to. Exclusive says that no other VM can use the
	// device.
	Source    string
	Exclusive bool
	// Failover says that the guest works without this interface during a migration.
	Failover bool
	// Filter is its network filter, PortGroup the port group of its network that it names; "" for none.
	Filter, PortGroup string
	// VirtualPort is the type of its virtual port; "" if it has none, or if its network gives it one when it starts.
	VirtualPort string
	// Shaped says that the definition has a VLAN or a bandwidth for it. Given says that the running VM's interface has one
	// all the same: its network gave it when the VM started. Mobility doesn't set it.
	Shaped, Given bool
}

// MobileMemory is memory of the guest that QEMU doesn't have for itself. Name is the name of shared memory, or the path
// of persistent memory. Attribute is the attribute that declares the device, "" if none does.
type MobileMemory struct{ Name, Attribute string }

// MobilePath is a path of the host. Attribute is the attribute that declares it, "" if none does; What says what it is.
type MobilePath struct{ Attribute, What, Path string }

// MobileFilesystem is one directory of the host that the guest sees.
type MobileFilesystem struct {
	// Attribute is the attribute that declares it.
	Attribute string
	// Driver is virtiofs, path (9p), ...
	Driver string
	// Target is the guest's name for it.
	Target string
	// Source is the directory on the host, "" if it is something else.
	Source string
}

// Mobility reads what decides about moving the VM.
func (d *Definition) Mobility() Mobility {
	root := d.root()
	spec := d.Spec()
	cpu := child(root, "cpu")
	m := Mobility{
		Type: spec.Type, Arch: spec.Arch, Machine: spec.Machine, Memory: spec.UsableMemory(), Pages: d.pages(spec),
		CPUMode:      attr(cpu, "mode"),
		Values:       spec.Values,
		Demands:      spec.partDemands(spec.Arch),
		Confidential: attr(child(root, "launchSecurity"), "type"),
		Disks:        d.mobileDisks(),
		Interfaces:   d.mobileInterfaces(),
		Floors:       spec.floors(),
	}
	if cpu != nil {
		m.CPU = render(cpu)
	}
	for _, tpm := range d.devices("tpm") {
		backend := child(tpm, "backend")
		m.TPM = attr(backend, "type")
		switch {
		case child(backend, "encryption") != nil:
			m.TPMSecret = attr(child(backend, "encryption"), "secret")
			m.TPMSpecial = "it is encrypted with a secret of the host"
		case child(backend, "source") != nil && m.TPM == "emulator":
			m.TPMSpecial = "it has a place of its own"
		}
	}
	m.readVariables(child(root, "os"))
	m.readIgnition(d)
	m.Loader = text(child(root, "os", "loader"))
	for _, tag := range []string{"kernel", "initrd", "dtb"} {
		if file := text(child(root, "os", tag)); file != "" {
			m.Files = append(m.Files, file)
		}
	}
	filesystems := d.paths(filesystemFamily.kind())
	for _, fs := range d.devices("filesystem") {
		m.Filesystems = append(m.Filesystems, MobileFilesystem{
			Attribute: filesystems[fs],
			Driver:    cmp.Or(attr(child(fs, "driver"), "type"), "path"), Target: attr(child(fs, "target"), "dir"),
			Source: attr(child(fs, "source"), "dir"),
		})
	}
	for _, e := range d.devices("shmem") {
		if attr(e, "role") != "master" || attr(child(e, "model"), "type") == "ivshmem" {
			m.SharedMemory = append(m.SharedMemory, MobileMemory{attr(e, "name"), extraPath(e)})
		}
	}
	nvdimms := d.paths(nvdimmFamily.kind())
	for _, e := range d.devices("memory") {
		if file := text(child(e, "source", "path")); file != "" {
			m.PersistentMemory = append(m.PersistentMemory, MobileMemory{file, cmp.Or(nvdimms[e], extraPath(e))})
		}
	}
	m.readOpenedDevices(d)
	m.readHostDevices(d)
	m.readImmobile(d)
	m.readTime(root)
	return m
}

// readOpenedDevices reads which devices of the host QEMU opens by their path.
func (m *Mobility) readOpenedDevices(d *Definition) {
	for _, g := range []Group{graphicsGroup, secondGraphicsGroup, eglGroup} {
		if path := textAt(g.element(d), "gl@rendernode"); path != "" {
			m.Devices = append(m.Devices, MobilePath{g.Path + ".rendernode", "render node", path})
		}
	}
	m.Devices = append(m.Devices, d.openedBySerials()...)
	if m.Values.HasVsock() {
		m.Devices = append(m.Devices, MobilePath{Vsock, "device", VhostVsock})
	}
}

// readVariables finds where the firmware keeps its variables.
func (m *Mobility) readVariables(os *etree.Element) {
	nvram, loader := child(os, "nvram"), child(os, "loader")
	if nvram == nil || text(nvram) == "" && attr(nvram, "type") == "" {
		keeps := attr(os, "firmware") == "efi" || attr(loader, "type") == "pflash"
		m.NVRAMUnnamed = keeps && attr(loader, "stateless") != "yes"
		return
	}
	switch kind := attr(nvram, "type"); kind {
	case "":
		m.NVRAM = text(nvram)
	case "file":
		m.NVRAM = attr(child(nvram, "source"), "file")
	default:
		m.NVRAMOther = kind
	}
}

// readIgnition reads where the configuration for Ignition is. A file that was created with the VM is listed with the
// disks, because it moves with the VM as they do.
func (m *Mobility) readIgnition(d *Definition) {
	m.Ignition = pick(d.readIgnition(), nil, "")
	if own := d.Metadata().ownAt(m.Ignition); own != nil {
		m.Disks = append(m.Disks, MobileDisk{
			Key: IgnitionKey, Device: "disk", Format: "raw", Path: m.Ignition, ReadOnly: true, Own: own,
		})
		m.Ignition = ""
	}
}

func (d *Definition) mobileDisks() []MobileDisk {
	var disks []MobileDisk
	metadata := d.Metadata()
	for _, have := range d.keyed(diskKind, metadata.Devices) {
		e := have.element
		read := readDisk(e)
		source := child(e, "source")
		at := cmp.Or(read.Source.File, read.Source.Block)
		disks = append(disks, MobileDisk{
			Key: have.key, Target: read.Target, Device: read.Device, Format: read.Format,
			Encrypted:  child(e, "encryption") != nil || child(source, "encryption") != nil,
			Passphrase: read.Values[EncryptionSecret],
			Path:       at, Block: read.Source.Block != "", Own: metadata.ownAt(at),
			Network: read.Source.Network != nil, Empty: read.Source.isZero(), Other: read.Source.Other,
			Pool: attr(source, "pool"), Volume: attr(source, "volume"),
			ReadOnly: *read.ReadOnly, Shareable: child(e, "shareable") != nil, Cache: attr(child(e, "driver"), "cache"),
			Reservations: child(source, "reservations") != nil, Backing: readBacking(e), Secrets: readSecrets(e),
			Shared: slices.Contains(metadata.SharedDisks, have.key), Transient: child(e, "transient") != nil,
		})
	}
	return disks
}

// readSecrets returns the host's secrets that an element names at any depth.
func readSecrets(e *etree.Element) []string {
	var secrets []string
	for _, secret := range e.FindElements(".//secret") {
		if uuid := attr(secret, "uuid"); uuid != "" && !slices.Contains(secrets, uuid) {
			secrets = append(secrets, uuid)
		}
	}
	return secrets
}

// readBacking reads the backing chain of a disk, in which each element contains the next.
func readBacking(disk *etree.Element) []BackingImage {
	var chain []BackingImage
	for e := child(disk, "backingStore"); child(e, "source") != nil; e = child(e, "backingStore") {
		chain = append(chain, BackingImage{
			Path: attr(child(e, "source"), "file"), Format: attr(child(e, "format"), "type"),
		})
	}
	return chain
}

// RemoveBacking removes the backing images that the definition lists for disks with those targets, and reports whether
// it lists any. libvirt then reads from the images themselves what they are based on.
func (d *Definition) RemoveBacking(targets []string) bool {
	removed := false
	for _, disk := range d.devices("disk") {
		backing := child(disk, "backingStore")
		if child(backing, "source") != nil && slices.Contains(targets, attr(child(disk, "target"), "dev")) {
			removed = disk.RemoveChild(backing) != nil || removed
		}
	}
	return removed
}

func (d *Definition) mobileInterfaces() []MobileInterface {
	var interfaces []MobileInterface
	for _, have := range d.keyed(interfaceKind, d.recordedNames()) {
		e := have.element
		source := child(e, "source")
		interfaces = append(interfaces, MobileInterface{
			Key: have.key, Type: attr(e, "type"),
			Source:    cmp.Or(attr(source, "network"), attr(source, "bridge"), attr(source, "dev"), attr(source, "path")),
			Failover:  attr(child(e, "teaming"), "type") == "transient",
			Filter:    attr(child(e, "filterref"), "filter"),
			PortGroup: attr(source, "portgroup"), VirtualPort: attr(child(e, "virtualport"), "type"),
			Exclusive: attr(e, "type") == "direct" && attr(source, "mode") == "passthrough",
			Shaped:    child(e, "vlan") != nil || child(e, "bandwidth") != nil,
		})
	}
	return interfaces
}

// readTime reads which guarantees about clock and hypervisor the guest relies on.
func (m *Mobility) readTime(root *etree.Element) {
	hyperv := child(root, "features", "hyperv")
	m.HypervPassthrough = attr(hyperv, "mode") == "passthrough"
	m.Reenlightenment = attr(child(hyperv, "reenlightenment"), "state") == "on"
	for _, feature := range children(child(root, "cpu"), "feature") {
		policy := attr(feature, "policy")
		if attr(feature, "name") == "invtsc" && (policy == "require" || policy == "force" || policy == "") {
			m.InvariantTSC = true
		}
	}
	for _, timer := range children(child(root, "clock"), "timer") {
		if attr(timer, "name") == "tsc" && attr(timer, "frequency") != "" {
			m.FixedTSC = true
		}
	}
}
