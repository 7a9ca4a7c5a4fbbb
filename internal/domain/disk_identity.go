package domain

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// DiskUse is one disk that a VM may write to, described so far that it can be told from the disks of other VMs.
type DiskUse struct {
	// Key is the disk's key, as in Spec.Disks. NVDIMM says that it is a key of Spec.NVDIMMs.
	Key    string
	NVDIMM bool
	// Source is a file, a block device or a network disk.
	Source DiskSource
	// Backing are the backing images of the source, as far as the definition lists them. VMs may share them while none
	// of them writes to them.
	Backing []DiskSource
	// Shareable says that several VMs may write to the disk at a time. Shared says that the disk's path is the same
	// disk on all hosts.
	Shareable, Shared bool
}

// DiskUses returns the disks that the VM writes to.
func (d *Definition) DiskUses() []DiskUse {
	var uses []DiskUse
	metadata := d.Metadata()
	for _, disk := range d.keyed(diskKind, metadata.Devices) {
		e := disk.element
		source := readSource(e)
		if source.isZero() || attr(e, "device") == "cdrom" || child(e, "readonly") != nil || child(e, "transient") != nil {
			continue
		}
		uses = append(uses, DiskUse{
			Key: disk.key, Source: source, Shareable: child(e, "shareable") != nil,
			Shared:  slices.Contains(metadata.SharedDisks, disk.key),
			Backing: readBackingSources(e),
		})
	}
	return append(uses, d.nvdimmUses(metadata.Devices)...)
}

// Text names the disk to users.
func (u DiskUse) Text() string {
	if u.NVDIMM {
		return strconv.Quote(u.Key) + " of " + nvdimmPath
	}
	return "disk " + strconv.Quote(u.Key)
}

// SharedWith returns the disk of another VM that is the same as this one, unless both are declared as shareable. A disk
// with the other in its backing chain is returned even if both are shareable: no VM may write to an image that is the
// base of another. sameHost says that both VMs are on one host.
func (u DiskUse) SharedWith(uses []DiskUse, sameHost bool) (DiskUse, bool) {
	for _, other := range uses {
		same := sameHost || u.Shared || other.Shared
		if (!u.Shareable || !other.Shareable) && SameDisk(u.Source, other.Source, same) {
			return other, true
		}
		isBelow := func(b DiskSource) bool { return SameDisk(b, u.Source, same) }
		hasBelow := func(b DiskSource) bool { return SameDisk(b, other.Source, same) }
		if slices.ContainsFunc(other.Backing, isBelow) || slices.ContainsFunc(u.Backing, hasBelow) {
			return other, true
		}
	}
	return DiskUse{}, false
}

// Name returns the name of the source on its host or server, and "" for a source that can't be told from others.
func (s DiskSource) Name() string {
	switch {
	case s.File != "":
		return path.Clean(s.File)
	case s.Block != "":
		return path.Clean(s.Block)
	case s.Network != nil:
		return s.Network.Name
	default:
		return ""
	}
}

// SameDisk reports whether two sources are the same disk. sameHost says that both are seen from the same host, or that
// both hosts see the same disks under their paths.
func SameDisk(a, b DiskSource, sameHost bool) bool {
	if a.Network != nil && b.Network != nil {
		return sameExport(*a.Network, *b.Network, sameHost)
	}
	return a.Network == nil && b.Network == nil && sameHost && a.Name() != "" && a.Name() == b.Name()
}

// SameData is SameDisk, seen from one host, but an image of RBD isn't a snapshot of it.
func SameData(a, b DiskSource) bool {
	snapshot := func(s DiskSource) string {
		if s.Network == nil {
			return ""
		}
		return s.Network.Values["snapshot"]
	}
	return SameDisk(a, b, true) && snapshot(a) == snapshot(b)
}

// Concurrent reports whether the guest may use the disk's source through another disk, too: it only reads the disk, or
// declares that it shares it.
func (d Disk) Concurrent() bool {
	return pick(d.ReadOnly, nil, d.Device == "cdrom") || d.Values["shareable"] == "yes"
}

// FormatOf returns the format that the VM uses a source with, or "" if it doesn't use it.
func (s Spec) FormatOf(source DiskSource) string {
	for _, disk := range s.Disks {
		if SameDisk(disk.Source, source, true) {
			return disk.Format
		}
	}
	return ""
}

// sameExport reports whether two network sources are the same storage. Each source may list only some of the monitors
// of a cluster or the portals of a target.
func sameExport(a, b NetworkSource, sameHost bool) bool {
	if a.Protocol != b.Protocol || a.Name != b.Name {
		return false
	}
	if a.Protocol == "iscsi" || len(a.Hosts) == 0 && len(b.Hosts) == 0 {
		return true
	}
	return slices.ContainsFunc(a.fullHosts(), func(host string) bool {
		socket := strings.Contains(host, "/")
		return (!socket || sameHost) && slices.Contains(b.fullHosts(), host)
	})
}

// SourceNames returns the names of sources in a domain's document, without parsing all of it. It returns every
// DiskSource.Name of the domain's DiskUses, and may return more.
func SourceNames(document string) []string {
	names := nvdimmNames(document)
	for {
		_, after, found := strings.Cut(document, "<source ")
		if !found {
			return names
		}
		tag, rest, _ := strings.Cut(after, ">")
		document = rest
		e := etree.NewDocument()
		if e.ReadFromString("<source "+strings.TrimSuffix(tag, "/")+"/>") != nil {
			continue
		}
		protocol := attr(e.Root(), "protocol")
		for _, a := range []string{"file", "dev"} {
			if v := attr(e.Root(), a); v != "" {
				names = append(names, path.Clean(v))
			}
		}
		if protocol != "" {
			names = append(names, attr(e.Root(), "name"))
		}
	}
}

// nvdimmNames returns the paths of NVDIMMs in a domain's document.
func nvdimmNames(document string) []string {
	var names []string
	for _, after := range strings.Split(document, "<path>")[1:] {
		escaped, _, _ := strings.Cut(after, "<")
		e := etree.NewDocument()
		if e.ReadFromString("<path>"+escaped+"</path>") == nil {
			names = append(names, path.Clean(text(e.Root())))
		}
	}
	return names
}
