package guest

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
)

// Modes of the cpio format that are used here.
const (
	modeFile = 0o100000
	modeDir  = 0o040000
	modeLink = 0o120000
)

// archive is an initramfs in the kernel's "newc" cpio format.
type archive struct {
	entries map[string]entry
}

type entry struct {
	mode uint32
	data []byte
}

func newArchive() *archive { return &archive{entries: map[string]entry{}} }

func (a *archive) file(name string, perm uint32, data []byte) {
	a.directories(name)
	a.entries[name] = entry{mode: modeFile | perm, data: data}
}

func (a *archive) link(name, target string) {
	a.directories(name)
	a.entries[name] = entry{mode: modeLink | 0o777, data: []byte(target)}
}

func (a *archive) dir(name string) {
	a.directories(name)
	a.entries[name] = entry{mode: modeDir | 0o755}
}

func (a *archive) directories(name string) {
	parent := path.Dir(name)
	if parent == "." || parent == "/" {
		return
	}
	if _, known := a.entries[parent]; !known {
		a.dir(parent)
	}
}

// bytes returns the archive. The order of the names puts directories before what is in them, and makes the same archive
// from the same files.
func (a *archive) bytes() []byte {
	var out bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(a.entries)) {
		writeEntry(&out, i+1, name, a.entries[name])
	}
	writeEntry(&out, 0, "TRAILER!!!", entry{})
	return out.Bytes()
}

func writeEntry(out *bytes.Buffer, inode int, name string, e entry) {
	links := 1
	if e.mode&modeDir != 0 && e.mode&modeFile == 0 {
		links = 2
	}
	// Magic, inode, mode, uid, gid, links, mtime, size, device (4 numbers), length of the name, check.
	fmt.Fprintf(out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		inode, e.mode, 0, 0, links, 0, len(e.data), 0, 0, 0, 0, len(name)+1, 0)
	out.WriteString(name)
	out.WriteByte(0)
	pad(out)
	out.Write(e.data)
	pad(out)
}

func pad(out *bytes.Buffer) {
	for out.Len()%4 != 0 {
		out.WriteByte(0)
	}
}
