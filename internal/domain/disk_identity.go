package domain

import (
	"path"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// DiskUse is one disk that a VM may write to, as far as it is told apart from the disks of others.
type DiskUse struct {
	// Key is the disk's key, as in Spec.Disks.
	Key string
	// Source is a file, a block device or a network disk.
	Source DiskSource
	// Backing are the sources below it, as far as the definition tells. VMs may share them as long as none writes to them.
	Backing []DiskSource
	// Shareable disks may be written by several VMs at a time. Shared says that all hosts see the same disk by its path.
	Shareable, Shared bool
}

// DiskUses are the disks that the VM writes to.
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
	return uses
}

// Name is what the source is called on its host or server, "" for one that isn't told apart.
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

// SameDisk says that two sources are one disk. sameHost says that both are seen from one host, or that both hosts see
// the same disks by their paths.
func SameDisk(a, b DiskSource, sameHost bool) bool {
	if a.Network != nil && b.Network != nil {
		return sameExport(*a.Network, *b.Network, sameHost)
	}
	return a.Network == nil && b.Network == nil && sameHost && a.Name() != "" && a.Name() == b.Name()
}

// sameExport compares what servers give. Monitors of one cluster, and portals of one target, may be listed in part.
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

// SourceNames finds what sources of a domain's document are called, without reading all of it. It may find more, and
// never less, than DiskSource.Name of its disks.
func SourceNames(document string) []string {
	var names []string
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
