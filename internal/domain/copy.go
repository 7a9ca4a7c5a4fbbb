package domain

import (
	"strconv"

	"github.com/beevik/etree"
)

// Copy is a file that a move creates on another host.
type Copy struct {
	// Host is the host's name in the configuration of the run that created the file. HostUUID is the UUID of the host
	// in libvirt.
	Host, HostUUID, Path string
	// FromUUID is the UUID, in libvirt, of the host that the VM was to leave. Once the VM has left that host, in
	// whatever way, the VM may use the file, or may have used it.
	FromUUID string
	// Creating says that the move was about to create the file: the file may not exist, or may be another owner's
	// file. The file that the move creates is empty and Bytes long, a length chosen at random, or it is an image for a
	// disk with that capacity. For a directory Bytes is 0.
	Creating bool
	Bytes    uint64
}

// LeftVolume is the volume of an own disk on a host that the VM leaves, or the original of another disk, if the move is
// to remove it. A move copies its content. While the VM is on that host, it is the disk itself. Or it is a volume that
// an interrupted run began to create or to remove, on a host that the VM has left since.
type LeftVolume struct {
	// Host is the host's name in the configuration of the run that moved the VM. HostUUID is the UUID of the host in
	// libvirt.
	Host, HostUUID string
	// Pool and Volume are the names of the pool and the volume, "" for a disk that isn't an own disk. Path is the path
	// of the file.
	Pool, Volume, Path string
	// Creating says that a run began to create the volume and didn't finish: the volume may not exist, and has no data.
	Creating bool
}

// IsOriginal reports whether it is the original of a disk that isn't an own disk.
func (v LeftVolume) IsOriginal() bool { return v.Pool == "" }

// Name returns the pool and the volume, or the path of an original.
func (v LeftVolume) Name() string {
	if v.IsOriginal() {
		return v.Path
	}
	return v.Pool + "/" + v.Volume
}

// The tags of a copy. One that is only planned has a tag which earlier versions don't know: they would remove any file
// that is listed as copied.
const (
	copied      = "file"
	beingCopied = "creating"
)

func readCopies(vm *etree.Element) []Copy {
	var copies []Copy
	for _, tag := range []string{copied, beingCopied} {
		for _, e := range ownChildren(vm, "copies", tag) {
			c := Copy{
				Host: attr(e, "host"), HostUUID: attr(e, "host-uuid"), Path: attr(e, "path"), FromUUID: attr(e, "from-uuid"),
				Creating: tag == beingCopied,
			}
			if c.Creating { // A directory has no length: it is verified in another way.
				c.Bytes, _ = strconv.ParseUint(attr(e, "bytes"), 10, 64)
			}
			copies = append(copies, c)
		}
	}
	return copies
}

func writeCopies(vm *etree.Element, copies []Copy) {
	drop(ownChild(vm, "copies"))
	if len(copies) == 0 {
		return
	}
	list := addOwn(vm, "copies")
	for _, c := range copies {
		tag := copied
		if c.Creating {
			tag = beingCopied
		}
		file := addOwn(list, tag)
		file.CreateAttr("host", c.Host)
		file.CreateAttr("host-uuid", c.HostUUID)
		file.CreateAttr("path", c.Path)
		file.CreateAttr("from-uuid", c.FromUUID)
		if c.Bytes > 0 {
			file.CreateAttr("bytes", strconv.FormatUint(c.Bytes, 10))
		}
	}
}

func readLeftVolumes(vm *etree.Element) []LeftVolume {
	var left []LeftVolume
	for _, e := range ownChildren(vm, "left-volumes", "left") {
		left = append(left, LeftVolume{
			Host: attr(e, "host"), HostUUID: attr(e, "host-uuid"), Pool: attr(e, "pool"), Volume: attr(e, "volume"),
			Path: attr(e, "path"), Creating: attr(e, "creating") == "true",
		})
	}
	return left
}

func writeLeftVolumes(vm *etree.Element, left []LeftVolume) {
	drop(ownChild(vm, "left-volumes"))
	if len(left) == 0 {
		return
	}
	list := addOwn(vm, "left-volumes")
	for _, v := range left {
		e := addOwn(list, "left")
		e.CreateAttr("host", v.Host)
		e.CreateAttr("host-uuid", v.HostUUID)
		e.CreateAttr("pool", v.Pool)
		e.CreateAttr("volume", v.Volume)
		e.CreateAttr("path", v.Path)
		if v.Creating {
			e.CreateAttr("creating", "true")
		}
	}
}

// ownChildren returns the elements of a list in our namespace.
func ownChildren(vm *etree.Element, list, tag string) []*etree.Element {
	var all []*etree.Element
	e := ownChild(vm, list)
	if e == nil {
		return nil
	}
	for _, c := range e.ChildElements() {
		if c.Tag == tag && c.NamespaceURI() == MetadataNamespace {
			all = append(all, c)
		}
	}
	return all
}
