package domain

import (
	"fmt"
	"slices"
)

// SourceDrift is a disk that would lose data if its declared source were applied. Since the last apply, an external
// snapshot, a copy or a manual edit has switched the VM to another image, which has what the guest wrote since.
type SourceDrift struct {
	// Key is the key of the declared disk.
	Key string
	// Declared is the declared source. Now is the source that the VM uses.
	Declared, Now DiskSource
	// Overlay says that Now is based on Declared, directly or indirectly. Otherwise it is only known that Declared was
	// applied last.
	Overlay bool
}

// SourceDrifts returns the declared disks whose data is now in another image. have is the VM's known spec, live its
// live spec (nil if it is off), and applied the sources that were applied last, by key. Drives with removable media and
// read-only disks have no data to lose.
func SourceDrifts(have Spec, live *Spec, want Spec, applied map[string]DiskSource) []SourceDrift {
	var drifts []SourceDrift
	for _, key := range sortedKeys(want.Disks) {
		disk := want.Disks[key]
		if disk.isReadOnlyMedium() || disk.Source.isZero() || disk.Source.Other != "" || inUse(have.Disks, disk.Source) {
			continue
		}
		if now, ok := overlayOf(have.Disks, live, disk.Source); ok {
			drifts = append(drifts, SourceDrift{key, disk.Source, now, true})
		} else if now, ok := replacedSince(have.Disks, disk.Source, applied); ok {
			drifts = append(drifts, SourceDrift{key, disk.Source, now, false})
		}
	}
	return drifts
}

// Explain returns what happened to the VM's disk and what its owner can do about it, a paragraph each.
func (d SourceDrift) Explain(vm string) (detail, remedy string) {
	how := "it was last applied with " + d.Declared.String() + ", and something else has switched it since"
	if d.Overlay {
		how = "that is an overlay of the declared " + d.Declared.String() + ", as a snapshot leaves it"
	}
	detail = fmt.Sprintf("Disk %q uses %s: %s. What the guest wrote since is not in %s, and using that again would lose "+
		"it.", d.Key, d.Now, how, d.Declared)
	remedy = fmt.Sprintf("To keep the data, declare %s, or merge it back where it is an overlay: \"virsh blockcommit %s "+
		"%s --active --pivot\" while the VM runs. To give the data up, switch the disk back with \"virsh edit\" while the "+
		"VM is off.", d.Now, vm, d.Now)
	return detail, remedy
}

func (d Disk) isReadOnlyMedium() bool { return d.removable() || pick(d.ReadOnly, nil, false) }

func inUse(disks map[string]Disk, source DiskSource) bool {
	for _, disk := range disks {
		if SameImage(disk.Source, source) {
			return true
		}
	}
	return false
}

// overlayOf returns the source of a disk whose image is based on that source.
func overlayOf(disks map[string]Disk, live *Spec, source DiskSource) (DiskSource, bool) {
	all := []map[string]Disk{disks}
	if live != nil {
		all = append(all, live.Disks)
	}
	for _, disks := range all {
		for _, key := range sortedKeys(disks) {
			if slices.ContainsFunc(disks[key].Backing, func(s DiskSource) bool { return SameImage(s, source) }) {
				return disks[key].Source, true
			}
		}
	}
	return DiskSource{}, false
}

// replacedSince returns the source of a disk that had that source when it was last applied.
func replacedSince(disks map[string]Disk, source DiskSource, applied map[string]DiskSource) (DiskSource, bool) {
	for _, key := range sortedKeys(applied) {
		disk, there := disks[key]
		if there && !disk.isReadOnlyMedium() && !disk.Source.isZero() && SameImage(applied[key], source) {
			return disk.Source, true
		}
	}
	return DiskSource{}, false
}

// SameImage reports whether two sources are the same image, however QEMU reaches it. A path is the same image whether
// it is written as a file or as a block device.
func SameImage(a, b DiskSource) bool {
	if path := a.File + a.Block; path != "" && path == b.File+b.Block {
		return true
	}
	if a.Network != nil && b.Network != nil {
		plain := NetworkSource{Protocol: b.Network.Protocol, Name: b.Network.Name, Hosts: b.Network.Hosts}
		return sameNetworkSource(*a.Network, plain)
	}
	return sameSource(a, b)
}

// String returns the name of the source for users.
func (s DiskSource) String() string {
	switch {
	case s.Network != nil:
		return s.Network.Protocol + ":" + s.Network.Name
	case s.Other != "":
		return s.Other
	default:
		return s.File + s.Block
	}
}
