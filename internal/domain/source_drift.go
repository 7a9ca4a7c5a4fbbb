package domain

import (
	"fmt"
	"slices"
	"strings"
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
// live spec (nil if it is off), applied the sources that this configuration applied last, by key, and recorded those of
// the VM's metadata. Drives with removable media and read-only disks have no data to lose.
func SourceDrifts(
	have Spec, live *Spec, want Spec, applied map[string]DiskSource, recorded map[string]string,
) []SourceDrift {
	var drifts []SourceDrift
	for _, key := range sortedKeys(want.Disks) {
		disk := want.Disks[key]
		if disk.isReadOnlyMedium() || disk.Source.isZero() || disk.Source.Other != "" || inUse(have.Disks, disk.Source) {
			continue
		}
		if now, ok := overlayOf(have.Disks, live, disk.Source); ok {
			drifts = append(drifts, SourceDrift{key, disk.Source, now, true})
		} else if now, ok := replacedSince(have.Disks, want.Disks, disk.Source, applied, recorded); ok {
			drifts = append(drifts, SourceDrift{key, disk.Source, now, false})
		}
	}
	return drifts
}

// Explain returns what happened to the VM's disk and what its owner can do about it, a paragraph each.
func (d SourceDrift) Explain(vm string) (detail, remedy string) {
	how := "it was last set to " + d.Declared.String() + ", and something else has switched it since"
	if d.Overlay {
		how = "that is an overlay of the declared " + d.Declared.String() + ", as a snapshot leaves it"
	}
	detail = fmt.Sprintf("Disk %q uses %s: %s. What the guest wrote since is not in %s, and using that again would lose "+
		"it.", d.Key, d.Now, how, d.Declared)
	remedy = fmt.Sprintf("To keep the data, declare %s, or merge it back where it is an overlay: \"virsh blockcommit %s "+
		"%s --active --pivot\" while the VM runs. To give the data up, switch the disk back with \"virsh edit\" while the "+
		"VM is off.", d.Now, ShellWord(vm), ShellWord(d.Now.String()))
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

// replacedSince returns the source of a disk that had that source when it was last applied, and whose present image
// want doesn't adopt.
func replacedSince(
	disks, want map[string]Disk, source DiskSource, applied map[string]DiskSource, recorded map[string]string,
) (DiskSource, bool) {
	was := func(key string, s DiskSource) bool { return SameImage(applied[key], s) || recorded[key] == s.image() }
	for _, key := range sortedKeys(disks) {
		disk := disks[key]
		if disk.isReadOnlyMedium() || disk.Source.isZero() || !was(key, source) {
			continue
		}
		// If the image is declared where it was not applied before, the configuration knows of it, and the VM keeps it.
		adopted := slices.ContainsFunc(sortedKeys(want), func(k string) bool {
			return SameImage(want[k].Source, disk.Source) && !was(k, disk.Source)
		})
		if !adopted {
			return disk.Source, true
		}
	}
	return DiskSource{}, false
}

// SameImage reports whether two sources are the same image, however QEMU reaches it. A path is the same image whether
// it is written as a file or as a block device.
func SameImage(a, b DiskSource) bool { return a.image() == b.image() }

// image returns a text that is the same for all sources that are the same image; a path stands for itself.
func (s DiskSource) image() string {
	if s.Network != nil {
		return s.String() + "@" + strings.Join(s.Network.fullHosts(), ",")
	}
	return s.String()
}

// AppliedSources returns what an apply records of the disks' sources: a text by key that names the image. It leaves out
// disks that have no data to lose.
func (s Spec) AppliedSources() map[string]string {
	var applied map[string]string
	for key, disk := range s.Disks {
		if disk.isReadOnlyMedium() || disk.Source.isZero() || disk.Source.Other != "" {
			continue
		}
		if applied == nil {
			applied = map[string]string{}
		}
		applied[key] = disk.Source.image()
	}
	return applied
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
