package domain

import (
	"maps"
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

// OwnDisk is a disk that is created with its VM, moves with it and is deleted with it: a volume of a storage pool.
// Pool, Image, Clone, Bytes, OnDestroy and Preallocation are as they were declared.
type OwnDisk struct {
	Pool string
	// Image is the image that the disk was created from, as "<pool>/<volume>"; "": the disk was empty.
	Image string
	// Clone is one of CloneModes; "" means the first of them.
	Clone string
	// Bytes is the size that the guest sees; 0: the size of the image.
	Bytes uint64
	// OnDestroy is one of OnDestroyModes; "" means the first of them.
	OnDestroy string
	// Preallocation is how much space the disk was created with: one of storage.Preallocations; "" is "off".
	Preallocation string
	// Content is a digest of what was declared to be on a first-boot medium. It contains no secrets.
	Content string
	// Volume is the volume's name in the pool, and Path its path as libvirt says it: that of a file, or "<pool>/<image>"
	// of an RBD image. They are not declared.
	Volume, Path string
	// HostUUID is the UUID of the host where the disk was created, or where the VM was at its last update. On another
	// host, a volume of that name is the VM's only if the VM's definition has it.
	HostUUID string
	// Creating says that the disk isn't created yet, or that its creation was interrupted. No guest has seen it.
	Creating bool
	// Removing says that a plan has announced that the disk is deleted, because it is no longer declared. The VM may have
	// the disk until its next start.
	Removing bool
	// SeenIn identifies the directory on that host where the volume was seen when Removing was set, or later: a file that
	// isn't in this directory any more is gone. Of an RBD image, it is the path with the servers. "": it is unknown.
	SeenIn string
}

// How an own disk is created from an image, and what happens to the disk when its VM is deleted.
const (
	CloneOverlay = "overlay"
	CloneFull    = "full"

	OnDestroyDelete = "delete"
	OnDestroyKeep   = "keep"
)

// CloneModes and OnDestroyModes are the values of Clone and OnDestroy, the default first.
var (
	CloneModes     = []string{CloneOverlay, CloneFull}
	OnDestroyModes = []string{OnDestroyDelete, OnDestroyKeep}
)

// On returns the record of a disk that is on a host now.
func (o OwnDisk) On(hostUUID string) OwnDisk {
	if o.HostUUID != hostUUID && ParseRBDPath(o.SeenIn) == nil { // An image is the same on all hosts.
		o.SeenIn = ""
	}
	o.HostUUID = hostUUID
	return o
}

// Kept reports whether the disk stays when its VM is deleted.
func (o OwnDisk) Kept() bool { return o.OnDestroy == OnDestroyKeep }

// RemovedWithVM reports whether the disk is removed when its VM is deleted.
func (o OwnDisk) RemovedWithVM() bool { return o.Creating || !o.Kept() }

// Based reports whether the disk is an overlay, which is unusable without its image.
func (o OwnDisk) Based() bool { return o.Image != "" && o.Clone != CloneFull }

// ownAt returns the own disk whose volume is that file, and nil if there is none. The disk's key in the VM doesn't
// matter.
func (m Metadata) ownAt(file string) *OwnDisk {
	for _, o := range m.OwnDisks {
		if !o.Creating && o.Path == file && file != "" {
			return &o
		}
	}
	return nil
}

func readOwnDisks(vm *etree.Element) map[string]OwnDisk {
	list := ownChild(vm, "own-disks")
	if list == nil {
		return nil
	}
	read := map[string]OwnDisk{}
	for _, e := range list.ChildElements() {
		if e.Tag != "disk" || e.NamespaceURI() != MetadataNamespace {
			continue
		}
		bytes, _ := strconv.ParseUint(attr(e, "bytes"), 10, 64) // A size that can't be read counts as not declared.
		read[attr(e, "key")] = OwnDisk{
			Pool: attr(e, "pool"), Image: attr(e, "image"), Clone: attr(e, "clone"), Bytes: bytes,
			OnDestroy: attr(e, "on-destroy"), Volume: attr(e, "volume"), Path: attr(e, "path"),
			HostUUID: attr(e, "host-uuid"), Content: attr(e, "content"), Preallocation: attr(e, "preallocation"),
			Creating: attr(e, "creating") == "true", Removing: attr(e, "removing") == "true",
			SeenIn: attr(e, "seen-in"),
		}
	}
	return read
}

func writeOwnDisks(vm *etree.Element, disks map[string]OwnDisk) {
	drop(ownChild(vm, "own-disks"))
	if len(disks) == 0 {
		return
	}
	list := addOwn(vm, "own-disks")
	for _, key := range slices.Sorted(maps.Keys(disks)) {
		o := disks[key]
		e := addOwn(list, "disk")
		e.CreateAttr("key", key)
		bytes := ""
		if o.Bytes > 0 {
			bytes = strconv.FormatUint(o.Bytes, 10)
		}
		mark := func(set bool) string {
			if set {
				return "true"
			}
			return ""
		}
		for _, a := range [][2]string{
			{"pool", o.Pool},
			{"volume", o.Volume},
			{"path", o.Path},
			{"host-uuid", o.HostUUID},
			{"image", o.Image},
			{"clone", o.Clone},
			{"bytes", bytes},
			{"content", o.Content},
			{"on-destroy", o.OnDestroy},
			{"preallocation", o.Preallocation},
			{"creating", mark(o.Creating)},
			{"removing", mark(o.Removing)},
			{"seen-in", o.SeenIn},
		} {
			setAttr(e, a[0], a[1])
		}
	}
}
