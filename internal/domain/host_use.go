package domain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// HostUse is what a running VM uses of its host in addition to memory and CPU time.
type HostUse struct {
	// Alone are the parts that a host gives to one VM at a time, each with the attribute that asks for it.
	Alone map[HostPart]string
	// Classes are the parts of Alone that the VM has because it asked for a device of a class, by class. On another
	// host it gets other devices.
	Classes map[string][]HostPart
	// Networks are the interfaces, sorted, by the host's network that they are connected to. A network of forward mode
	// hostdev gives each of them a device. In a running VM they have it, and it is in Alone.
	Networks map[string][]string
	// Floors are what networks guarantee to the interfaces, by network.
	Floors map[string]NetworkFloor
	// Pages are bytes of huge pages by page size, which may be DefaultPages. CellPages are the sizes that only single
	// NUMA cells of the guest ask for.
	Pages     map[uint64]uint64
	CellPages map[uint64]bool
	// Nodes are the host's NUMA nodes that Pages have to come from, sorted; nil: any.
	Nodes []int
	// CPUs are the host's CPUs that the virtual CPUs are pinned to, sorted.
	CPUs []int
	// Dedicated says that no other VM may be pinned to CPUs.
	Dedicated bool
	// Slot is the kind of the processor's slot for the key that encrypts the VM's memory.
	Slot SecuritySlot
}

// HostPart is a part that a host has only once.
type HostPart struct {
	// Kind is PCIDevice or another kind of device, VsockAddress, TCPPort, UDPPort or SerialDevice.
	Kind, ID string
}

// String returns the kind and id of the part.
func (p HostPart) String() string { return p.Kind + " " + p.ID }

// VsockAddress is the kind of the address of a vsock device (CID).
const VsockAddress = "vsock address"

// The kinds of devices that a host lists.
const (
	PCIDevice  = "pci device"
	USBDevice  = "usb device"
	MdevDevice = "mdev device"
	SCSIDevice = "scsi device"
	VDPADevice = "vDPA device"
)

// USBAddress is the kind of the address (bus and device) of a USB device that a definition names by its address. Hosts
// list USB devices by vendor and product.
const USBAddress = "USB address"

// DefaultPages stands for huge pages of the host's default size, see HostTopology.PageSize.
const DefaultPages = 0

// PagesPath returns the attribute that asks for huge pages of a size.
func (u HostUse) PagesPath(size uint64) string {
	if u.CellPages[size] {
		return cellPages
	}
	return hugePages
}

// HostUse returns what a VM with this spec asks of its host.
func (s Spec) HostUse() HostUse {
	u := HostUse{Alone: map[HostPart]string{}, Pages: s.pages()}
	u.addCID(s.Values[vsockCID])
	for key, row := range s.HostDevices {
		part := HostPart{row["type"] + " device", row["address"]}
		if part.ID != "" && part.ID != unknownHostDevice {
			u.Alone[part] = HostDevicePath(key) + ".address"
		}
		if class := row["class"]; class != "" {
			if u.Classes == nil {
				u.Classes = map[string][]HostPart{}
			}
			u.Classes[class] = append(u.Classes[class], part)
		}
	}
	for key, nic := range s.Interfaces {
		if nic.HostDevice != "" {
			u.Alone[HostPart{PCIDevice, nic.HostDevice}] = "interfaces." + key + ".hostdev"
		}
		if nic.VDPA != "" {
			u.Alone[HostPart{VDPADevice, nic.VDPA}] = "interfaces." + key + ".vdpa"
		}
		u.addPorts(key, nic)
	}
	u.addInputs(s.Inputs)
	u.addSerials(s.Serials)
	if s.Values["devices.smartcard.type"] == "tcp" {
		u.listens(TCPPort, s.Values["devices.smartcard.host"], s.Values[smartcardService], smartcardService)
	}
	for _, key := range sortedKeys(s.Interfaces) {
		if network := s.Interfaces[key].Network; network != "" {
			if u.Networks == nil {
				u.Networks = map[string][]string{}
			}
			u.Networks[network] = append(u.Networks[network], key)
		}
	}
	u.Floors = s.floors()
	for _, set := range ParseTexts(s.Values[cpuPin]) {
		cpus, _ := parseSet(set)
		u.CPUs = append(u.CPUs, cpus...)
	}
	slices.Sort(u.CPUs)
	u.CPUs = slices.Compact(u.CPUs)
	u.Slot = s.Values.securitySlot()
	for size, path := range s.Values.pageSizes() {
		if path == cellPages {
			if u.CellPages == nil {
				u.CellPages = map[uint64]bool{}
			}
			u.CellPages[size] = true
		}
	}
	u.Nodes = s.Values.memoryNodes()
	return u
}

// WithMetadata returns the use, completed with the VM's metadata.
func (u HostUse) WithMetadata(m Metadata) HostUse {
	u.Dedicated = m.DedicatedCPUs
	return u
}

// HostUse returns what a VM with this definition uses of its host. That includes what only the definition says: the
// NUMA cells of memory that was plugged in, NVMe disks, and USB devices by address. For a running VM it includes the
// address that libvirt chose for its vsock device. s is the Spec of the definition.
func (d *Definition) HostUse(s Spec) HostUse {
	u := s.HostUse()
	u.Pages = d.pages(s)
	d.addNVMe(u.Alone)
	d.addUSB(u.Alone)
	if d.Live() {
		u.addCID(d.VsockCID())
	}
	return u
}

// addNVMe adds the PCI devices of NVMe disks, which libvirt takes from the host.
func (d *Definition) addNVMe(alone map[HostPart]string) {
	isNVMe := func(e *etree.Element) bool { return attr(e, "type") == "nvme" }
	if !slices.ContainsFunc(d.devices("disk"), isNVMe) {
		return
	}
	for _, disk := range d.keyed(diskKind, d.recordedNames()) {
		if address := hostAddress(child(disk.element, "source")); isNVMe(disk.element) && address != unknownHostDevice {
			alone[HostPart{PCIDevice, address}] = "disks." + disk.key
		}
	}
}

// addUSB adds the USB devices that are named by bus and device.
func (d *Definition) addUSB(alone map[HostPart]string) {
	for _, e := range d.devices("hostdev") {
		source := child(e, "source")
		bus, device := attr(child(source, "address"), "bus"), attr(child(source, "address"), "device")
		if attr(e, "type") == "usb" && child(source, "vendor") == nil && bus != "" {
			alone[HostPart{USBAddress, bus + ":" + device}] = hostDeviceFamily.Path
		}
	}
}

func (u HostUse) addCID(cid string) {
	if cid != "" && cid != Auto {
		u.Alone[HostPart{VsockAddress, cid}] = vsockCID
	}
}

// FailoverUse returns the host devices that the VM lets go while it is moved, and gets again on the other host: those
// of transient interfaces (teaming). Any other host device prevents a live move.
func (s Spec) FailoverUse() HostUse {
	s.HostDevices, s.Values = nil, nil
	s.Interfaces = maps.Clone(s.Interfaces)
	maps.DeleteFunc(s.Interfaces, func(_ string, nic Interface) bool { return nic.Values["teaming.type"] != "transient" })
	return s.HostUse()
}

// Empty reports whether nothing is used, apart from what networks may hand out or guarantee: of most networks that is
// nothing.
func (u HostUse) Empty() bool {
	return len(u.Alone)+len(u.Classes)+len(u.Pages)+len(u.CPUs) == 0 && u.Slot == ""
}

// Without returns what the VM needs in addition to what have already includes. Of a network to which more interfaces
// are connected than before, or which has to guarantee more, everything is returned.
func (u HostUse) Without(have HostUse) HostUse {
	more := HostUse{Alone: maps.Clone(u.Alone), Nodes: u.Nodes, Dedicated: u.Dedicated}
	more.Pages, more.CellPages = maps.Clone(u.Pages), u.CellPages
	if u.Dedicated && !have.Dedicated {
		have.CPUs = nil
	}
	more.CPUs = slices.DeleteFunc(slices.Clone(u.CPUs), func(cpu int) bool { return slices.Contains(have.CPUs, cpu) })
	if u.Slot != have.Slot {
		more.Slot = u.Slot
	}
	more.Networks = maps.Clone(u.Networks)
	maps.DeleteFunc(more.Networks, func(network string, keys []string) bool {
		return len(keys) <= len(have.Networks[network])
	})
	more.Floors = maps.Clone(u.Floors)
	maps.DeleteFunc(more.Floors, func(network string, floor NetworkFloor) bool {
		return floor.Sum <= have.Floors[network].Sum
	})
	for part := range have.Alone {
		delete(more.Alone, part)
	}
	for size, bytes := range have.Pages {
		if more.Pages[size] -= min(bytes, more.Pages[size]); more.Pages[size] == 0 {
			delete(more.Pages, size)
		}
	}
	return more
}

// OnOtherHost returns what the VM needs on another host. Parts that it has because of a class are left out of Alone:
// another host chooses its own devices.
func (u HostUse) OnOtherHost() HostUse {
	u.Alone = maps.Clone(u.Alone)
	for _, parts := range u.Classes {
		for _, part := range parts {
			delete(u.Alone, part)
		}
	}
	return u
}

// ByClass returns the number of devices that the VM asks for, by class.
func (u HostUse) ByClass() map[string]uint64 {
	count := make(map[string]uint64, len(u.Classes))
	for class, parts := range u.Classes {
		count[class] = uint64(len(parts))
	}
	return count
}

// Parts returns the parts of Alone, sorted.
func (u HostUse) Parts() []HostPart {
	return slices.SortedFunc(maps.Keys(u.Alone), func(a, b HostPart) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
}

// Shared returns a part that both VMs ask for and a host has only once, and "" if there is none.
func (u HostUse) Shared(other HostUse) string {
	for _, part := range u.Parts() {
		if theirs, both := other.PartOverlapping(part); both {
			return theirs.String()
		}
	}
	if cpus := u.DisputedCPUs(other); cpus != "" {
		return "CPU " + cpus
	}
	return ""
}

// SharedCPUs returns the host's CPUs that virtual CPUs of both VMs are pinned to.
func (u HostUse) SharedCPUs(other HostUse) []int {
	return slices.DeleteFunc(slices.Clone(u.CPUs), func(cpu int) bool {
		_, both := slices.BinarySearch(other.CPUs, cpu)
		return !both
	})
}

// DisputedCPUs returns the set of CPUs that both VMs are pinned to, if at least one of the VMs has dedicated CPUs.
func (u HostUse) DisputedCPUs(other HostUse) string {
	if !u.Dedicated && !other.Dedicated {
		return ""
	}
	return formatSet(u.SharedCPUs(other))
}
