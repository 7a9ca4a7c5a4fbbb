package domain

import (
	"strconv"

	"github.com/beevik/etree"
)

// Copy is a file that a move makes.
type Copy struct {
	// Host is the name that whoever made it has for the host, HostUUID is what libvirt knows the host by.
	Host, HostUUID, Path string
	// FromUUID is what libvirt knows the host by that the VM was to leave. Once it isn't there any more, whatever moved
	// it, the file may be what the VM is made of, or was.
	FromUUID string
	// Making says that the move was about to make the file: it may not be there, or be another's by now. The move's own
	// has nothing in it. It is Bytes long, which was chosen at random, or an image for a disk of that capacity; for a
	// directory Bytes is 0.
	Making bool
	Bytes  uint64
}

// LeftVolume is the volume of an own disk on a host that the VM leaves, whose content a move copies. As long as the VM
// is on that host it is the disk itself.
type LeftVolume struct {
	// Host is the name that whoever moved the VM has for the host, HostUUID is what libvirt knows the host by.
	Host, HostUUID string
	// Pool and Volume name it, Path is where the pool has it.
	Pool, Volume, Path string
}

func readCopies(vm *etree.Element) []Copy {
	var copies []Copy
	for _, e := range ownChildren(vm, "copies", "file") {
		copies = append(copies, Copy{
			Host: attr(e, "host"), HostUUID: attr(e, "host-uuid"), Path: attr(e, "path"), FromUUID: attr(e, "from-uuid"),
		})
	}
	for _, e := range ownChildren(vm, "copies", "making") {
		// Without a length it is a directory's, which is proven another way.
		length, _ := strconv.ParseUint(attr(e, "bytes"), 10, 64)
		copies = append(copies, Copy{
			Host: attr(e, "host"), HostUUID: attr(e, "host-uuid"), Path: attr(e, "path"), FromUUID: attr(e, "from-uuid"),
			Making: true, Bytes: length,
		})
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
		// Earlier versions, which would remove whatever file it is, know no element of that name.
		tag := "file"
		if c.Making {
			tag = "making"
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
			Path: attr(e, "path"),
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
	}
}

// ownChildren are the elements of a list of ours.
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
