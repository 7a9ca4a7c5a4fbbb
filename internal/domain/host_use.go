package domain

import (
	"cmp"
	"maps"
	"slices"
)

// HostUse is what a VM that runs has of its host in addition to memory and time on its CPUs.
type HostUse struct {
	// Alone are what a host gives to one VM at a time, each with the attribute that asks for it.
	Alone map[HostPart]string
	// Classes are what it has alone because it asked for a device of a class, by class. Another host gives it others.
	Classes map[string][]HostPart
	// Pages are bytes by the size of the huge pages that they consist of, which may be DefaultPages.
	Pages map[uint64]uint64
	// CPUs are those of the host that its virtual CPUs are pinned to, sorted.
	CPUs []int
	// Dedicated says that no other VM may be pinned to them.
	Dedicated bool
	// Slot is the kind of slot of the processor that keeps the key of its memory.
	Slot SecuritySlot
}

// HostPart is something that a host has once.
type HostPart struct {
	// Kind is PCIDevice or another kind of device, or VsockAddress.
	Kind, ID string
}

// String names it.
func (p HostPart) String() string { return p.Kind + " " + p.ID }

// VsockAddress is the kind of the address of a vsock device (CID).
const VsockAddress = "vsock address"

// The kinds of devices that a host lists.
const (
	PCIDevice  = "pci device"
	USBDevice  = "usb device"
	MdevDevice = "mdev device"
	SCSIDevice = "scsi device"
)

// DefaultPages stands for huge pages of the host's default size, see HostParts.PageSize.
const DefaultPages = 0

// hugePageSize is the size of the huge pages that values ask for, false if they ask for none.
func hugePageSize(f Values) (uint64, bool) {
	if f[hugePages] == hugeDefault {
		return DefaultPages, true
	}
	return pageSize(f[hugePages])
}

// HostUse is what a VM like that asks its host for.
func (s Spec) HostUse() HostUse {
	u := HostUse{Alone: map[HostPart]string{}, Pages: map[uint64]uint64{}}
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
			u.Alone[HostPart{"vDPA device", nic.VDPA}] = "interfaces." + key + ".vdpa"
		}
	}
	for _, set := range ParseTexts(s.Values[cpuPin]) {
		cpus, _ := parseSet(set)
		u.CPUs = append(u.CPUs, cpus...)
	}
	slices.Sort(u.CPUs)
	u.CPUs = slices.Compact(u.CPUs)
	u.Slot = s.Values.securitySlot()
	if size, ok := hugePageSize(s.Values); ok {
		u.Pages[size] = s.UsableMemory()
	}
	return u
}

// Recorded is the use with what is recorded of the VM.
func (u HostUse) Recorded(m Metadata) HostUse {
	u.Dedicated = m.DedicatedCPUs
	return u
}

// HostUse is what a VM with this definition has of its host: in a running one also the address that libvirt chose for
// its vsock device. s is what Spec says of the definition.
func (d *Definition) HostUse(s Spec) HostUse {
	u := s.HostUse()
	if d.Live() {
		u.addCID(d.VsockCID())
	}
	return u
}

func (u HostUse) addCID(cid string) {
	if cid != "" && cid != Auto {
		u.Alone[HostPart{VsockAddress, cid}] = vsockCID
	}
}

// Empty says that there is nothing.
func (u HostUse) Empty() bool {
	return len(u.Alone)+len(u.Classes)+len(u.Pages)+len(u.CPUs) == 0 && u.Slot == ""
}

// Without is what is asked for in addition to what is there already.
func (u HostUse) Without(have HostUse) HostUse {
	more := HostUse{Alone: maps.Clone(u.Alone), Pages: maps.Clone(u.Pages), Dedicated: u.Dedicated}
	if u.Dedicated && !have.Dedicated {
		have.CPUs = nil
	}
	more.CPUs = slices.DeleteFunc(slices.Clone(u.CPUs), func(cpu int) bool { return slices.Contains(have.CPUs, cpu) })
	if u.Slot != have.Slot {
		more.Slot = u.Slot
	}
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

// Elsewhere is what the VM asks another host for: devices of classes, whichever they are.
func (u HostUse) Elsewhere() HostUse {
	u.Alone = maps.Clone(u.Alone)
	for _, parts := range u.Classes {
		for _, part := range parts {
			delete(u.Alone, part)
		}
	}
	return u
}

// ByClass are how many devices it asks for, by class.
func (u HostUse) ByClass() map[string]uint64 {
	count := make(map[string]uint64, len(u.Classes))
	for class, parts := range u.Classes {
		count[class] = uint64(len(parts))
	}
	return count
}

// Parts are what it has alone, sorted.
func (u HostUse) Parts() []HostPart {
	return slices.SortedFunc(maps.Keys(u.Alone), func(a, b HostPart) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
}

// Shared names something that both ask for and a host has once, "" if there is nothing.
func (u HostUse) Shared(other HostUse) string {
	for _, part := range u.Parts() {
		if other.Alone[part] != "" {
			return part.String()
		}
	}
	if cpus := u.DisputedCPUs(other); cpus != "" {
		return "CPU " + cpus
	}
	return ""
}

// SharedCPUs are the CPUs of the host that virtual CPUs of both are pinned to.
func (u HostUse) SharedCPUs(other HostUse) []int {
	return slices.DeleteFunc(slices.Clone(u.CPUs), func(cpu int) bool {
		_, both := slices.BinarySearch(other.CPUs, cpu)
		return !both
	})
}

// DisputedCPUs is the set of CPUs that both are pinned to, though one of them has its CPUs for itself.
func (u HostUse) DisputedCPUs(other HostUse) string {
	if !u.Dedicated && !other.Dedicated {
		return ""
	}
	return formatSet(u.SharedCPUs(other))
}
