package libvirt

import (
	"net/netip"
	"reflect"
	"slices"

	golibvirt "libvirt.org/go/libvirt"
)

// GuestInfo is what the guest agent reported. A nil group was not reported or not requested; in a group, "" or nil is a
// value that was not reported. If all groups are requested at once, libvirt doesn't distinguish "no users are logged
// in" from "not reported": both are nil then.
type GuestInfo struct {
	OS          *GuestOS
	Hostname    *string
	Timezone    *GuestTimezone
	Load        *GuestLoad
	Users       []GuestUser
	Filesystems []GuestFilesystem
	Disks       []GuestDisk
	Interfaces  []GuestInterface
}

// GuestOS describes the guest's operating system, as in its os-release file, and its kernel.
type GuestOS struct {
	ID, Name, PrettyName, Version, VersionID, Variant, VariantID string
	KernelRelease, KernelVersion, Machine                        string
}

// GuestTimezone is the guest's timezone.
type GuestTimezone struct {
	Name          string
	OffsetSeconds *int // east of UTC
}

// GuestLoad is the guest's load average.
type GuestLoad struct{ Load1, Load5, Load15 *float64 }

// GuestUser is a user who is logged in.
type GuestUser struct {
	Name, Domain string
	LoginTimeMS  *uint64 // milliseconds since the epoch
}

// GuestFilesystem is a mounted filesystem.
type GuestFilesystem struct {
	MountPoint, Name, Type string
	TotalBytes, UsedBytes  *uint64
	Disks                  []GuestFilesystemDisk
}

// GuestFilesystemDisk is a disk that a filesystem is on.
type GuestFilesystemDisk struct {
	Alias  string // the target in the domain's XML, such as "vda"
	Serial string
	Device string // the device node in the guest
}

// GuestDisk is a disk or partition as the guest sees it.
type GuestDisk struct {
	Name, Alias, GuestAlias, GuestBus, Serial string
	Partition                                 *bool
	Dependencies                              []string
}

// GuestInterface is a network interface as the guest sees it.
type GuestInterface struct {
	Name, MAC string
	Addresses []GuestAddress
}

// GuestAddress is an address of a guest's interface.
type GuestAddress struct {
	Type   string // "ipv4" or "ipv6"
	IP     string
	Prefix int
}

// guestInfo translates the binding's answer. groups are the requested groups, 0 means all. exact says that the agent
// can report all of them, so that a missing list is an empty list.
func guestInfo(from *golibvirt.DomainGuestInfo, groups GuestInfoGroups, exact bool) *GuestInfo {
	wants := func(group GuestInfoGroups) bool { return groups == 0 || groups&group != 0 }
	info := &GuestInfo{}
	if wants(GuestOSInfo) {
		info.OS = guestOS(from.OS)
	}
	if wants(GuestHostname) {
		info.Hostname = ifReported(from.HostnameSet, from.Hostname)
	}
	if wants(GuestTimezoneInfo) && from.TimeZone != nil && (from.TimeZone.NameSet || from.TimeZone.OffsetSet) {
		info.Timezone = &GuestTimezone{
			Name: from.TimeZone.Name, OffsetSeconds: ifReported(from.TimeZone.OffsetSet, from.TimeZone.Offset),
		}
	}
	if load := from.Load; wants(GuestLoadInfo) && load != nil && (load.Load1MSet || load.Load5MSet || load.Load15MSet) {
		info.Load = &GuestLoad{
			Load1: ifReported(load.Load1MSet, load.Load1M), Load5: ifReported(load.Load5MSet, load.Load5M),
			Load15: ifReported(load.Load15MSet, load.Load15M),
		}
	}
	if wants(GuestUsers) {
		info.Users = translateList(from.Users, exact, guestUser)
	}
	if wants(GuestFilesystems) {
		info.Filesystems = translateList(from.FileSystems, exact, guestFilesystem)
	}
	if wants(GuestDisks) {
		info.Disks = translateList(from.Disks, exact, guestDisk)
	}
	if wants(GuestInterfaces) {
		info.Interfaces = translateList(from.Interfaces, exact, guestInterface)
	}
	plainLines(reflect.ValueOf(info))
	return info
}

func guestOS(os *golibvirt.DomainGuestInfoOS) *GuestOS {
	if os == nil {
		return nil
	}
	translated := GuestOS{
		ID: os.ID, Name: os.Name, PrettyName: os.PrettyName, Version: os.Version, VersionID: os.VersionID,
		Variant: os.Variant, VariantID: os.VariantID,
		KernelRelease: os.KernelRelease, KernelVersion: os.KernelVersion, Machine: os.Machine,
	}
	if translated == (GuestOS{}) {
		return nil
	}
	return &translated
}

func guestUser(u golibvirt.DomainGuestInfoUser) GuestUser {
	return GuestUser{Name: u.Name, Domain: u.Domain, LoginTimeMS: ifReported(u.LoginTimeSet, u.LoginTime)}
}

func guestFilesystem(f golibvirt.DomainGuestInfoFileSystem) GuestFilesystem {
	return GuestFilesystem{
		MountPoint: f.MountPoint, Name: f.Name, Type: f.FSType,
		TotalBytes: ifReported(f.TotalBytesSet, f.TotalBytes), UsedBytes: ifReported(f.UsedBytesSet, f.UsedBytes),
		Disks: translateList(f.Disks, true, func(d golibvirt.DomainGuestInfoFileSystemDisk) GuestFilesystemDisk {
			return GuestFilesystemDisk{Alias: d.Alias, Serial: d.Serial, Device: d.Device}
		}),
	}
}

func guestDisk(d golibvirt.DomainGuestInfoDisk) GuestDisk {
	return GuestDisk{
		Name: d.Name, Alias: d.Alias, GuestAlias: d.GuestAlias, GuestBus: d.GuestBus, Serial: d.Serial,
		Partition: ifReported(d.PartitionSet, d.Partition),
		Dependencies: translateList(d.Dependencies, true,
			func(d golibvirt.DomainGuestInfoDiskDependency) string { return d.Name }),
	}
}

func guestInterface(i golibvirt.DomainGuestInfoInterface) GuestInterface {
	addresses := slices.DeleteFunc(slices.Clone(i.Addrs), func(a golibvirt.DomainGuestInfoIPAddress) bool {
		return !isAddress(a.Addr)
	})
	return GuestInterface{
		Name: i.Name, MAC: i.Hwaddr,
		Addresses: translateList(addresses, true, func(a golibvirt.DomainGuestInfoIPAddress) GuestAddress {
			return GuestAddress{Type: a.Type, IP: a.Addr, Prefix: int(a.Prefix)}
		}),
	}
}

// isAddress reports whether what a guest reports as its address is an address.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// ifReported returns nil for a value that was not reported.
func ifReported[T any](set bool, value T) *T {
	if !set {
		return nil
	}
	return &value
}

// translateList translates a list. known says that a missing list is empty rather than not reported.
func translateList[From, To any](from []From, known bool, f func(From) To) []To {
	if len(from) == 0 && !known {
		return nil
	}
	to := make([]To, 0, len(from))
	for _, value := range from {
		to = append(to, f(value))
	}
	return to
}
