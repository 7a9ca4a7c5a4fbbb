package domain

import (
	"maps"
	"slices"
	"strconv"

	"github.com/beevik/etree"
)

// OwnDisk is a disk that is made with its VM, moves with it and goes with it: a volume of a storage pool. Pool, Image,
// Clone, Bytes and OnDestroy are as they were declared.
type OwnDisk struct {
	Pool string
	// Image is what it was made from, as "<pool>/<volume>"; "": it was empty.
	Image string
	// Clone is one of CloneModes; "" is the first of them.
	Clone string
	// Bytes is what the guest sees; 0: as much as the image has.
	Bytes uint64
	// OnDestroy is one of OnDestroyModes; "" is the first of them.
	OnDestroy string
	// Content tells, of a first-boot medium, what was declared to be on it: a digest without anything that is secret.
	Content string
	// Volume is its name in the pool, Path where the pool has it. They are not declared.
	Volume, Path string
	// HostUUID is the host where it was made, or where its VM was when it was updated last. On another one a volume of
	// that name is the VM's only if its definition has it.
	HostUUID string
	// Making says that it isn't made yet, or was broken off while it was made, and no guest has seen it.
	Making bool
}

// How an own disk is made from an image, and what becomes of it when its VM goes.
const (
	CloneOverlay = "overlay"
	CloneFull    = "full"

	OnDestroyDelete = "delete"
	OnDestroyKeep   = "keep"
)

// CloneModes and OnDestroyModes are all of them, the default first.
var (
	CloneModes     = []string{CloneOverlay, CloneFull}
	OnDestroyModes = []string{OnDestroyDelete, OnDestroyKeep}
)

// Kept says that the disk stays when its VM goes.
func (o OwnDisk) Kept() bool { return o.OnDestroy == OnDestroyKeep }

// Based says that the disk is an overlay, which is nothing without its image.
func (o OwnDisk) Based() bool { return o.Image != "" && o.Clone != CloneFull }

// RenamedOwnDisks says which of the disks that a VM has is which of those that are declared, under another key:
// declared key by the key that the VM has. A disk is renamed if it was declared in the same way, and no
// other one could be meant.
func RenamedOwnDisks(have, declared map[string]OwnDisk) map[string]string {
	alike := func(a, b OwnDisk) bool {
		return a.Pool == b.Pool && a.Image == b.Image && a.Based() == b.Based() && a.Bytes == b.Bytes
	}
	from := map[string]string{}
	for key, o := range declared {
		if _, there := have[key]; there {
			continue
		}
		gone := keysOf(have, func(k string, was OwnDisk) bool { return alike(was, o) && !hasKey(declared, k) })
		added := keysOf(declared, func(k string, other OwnDisk) bool { return alike(other, o) && !hasKey(have, k) })
		if len(gone) == 1 && len(added) == 1 {
			from[key] = gone[0]
		}
	}
	return from
}

func hasKey[V any](m map[string]V, key string) bool {
	_, there := m[key]
	return there
}

func keysOf[V any](m map[string]V, is func(string, V) bool) []string {
	var keys []string
	for key, v := range m {
		if is(key, v) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ownAt is the own disk whose volume is that file, nil if it is none's. What the VM has under which key doesn't matter.
func (m Metadata) ownAt(file string) *OwnDisk {
	for _, o := range m.OwnDisks {
		if !o.Making && o.Path == file && file != "" {
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
		bytes, _ := strconv.ParseUint(attr(e, "bytes"), 10, 64) // One that can't be read is not declared.
		read[attr(e, "key")] = OwnDisk{
			Pool: attr(e, "pool"), Image: attr(e, "image"), Clone: attr(e, "clone"), Bytes: bytes,
			OnDestroy: attr(e, "on-destroy"), Volume: attr(e, "volume"), Path: attr(e, "path"),
			HostUUID: attr(e, "host-uuid"), Content: attr(e, "content"),
			Making: attr(e, "making") == "true",
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
		bytes, making := "", ""
		if o.Bytes > 0 {
			bytes = strconv.FormatUint(o.Bytes, 10)
		}
		if o.Making {
			making = "true"
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
			{"making", making},
		} {
			setAttr(e, a[0], a[1])
		}
	}
}
