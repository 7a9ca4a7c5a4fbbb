package domain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// defaultPorts are the default ports of the protocols of network disks. libvirt omits them, or fills them in.
var defaultPorts = map[string]string{
	"nbd": "10809", "iscsi": "3260", "gluster": "24007", "sheepdog": "7000", "ssh": "22", "nfs": "2049",
	"http": "80", "https": "443", "ftp": "21", "ftps": "990", "tftp": "69",
}

// readSource reads a disk's <source>.
func readSource(disk *etree.Element) DiskSource {
	source := child(disk, "source")
	if source == nil {
		return DiskSource{}
	}
	switch kind := attr(disk, "type"); kind {
	case "file", "":
		return DiskSource{File: attr(source, "file")}
	case "block":
		return DiskSource{Block: attr(source, "dev")}
	case "network":
		protocol := attr(source, "protocol")
		read := &NetworkSource{
			Protocol: protocol, Name: attr(source, "name"), Values: networkRows.readValues(source),
		}
		for _, host := range children(source, "host") {
			read.Hosts = append(read.Hosts, readHost(host, protocol))
		}
		read.Auth = readSourceAuth(disk, source)
		return DiskSource{Network: read}
	default:
		return DiskSource{Other: describe(kind, source)}
	}
}

// readBackingSources returns the backing chain of a disk, in which each element contains the next.
func readBackingSources(disk *etree.Element) []DiskSource {
	var chain []DiskSource
	for e := child(disk, "backingStore"); child(e, "source") != nil; e = child(e, "backingStore") {
		chain = append(chain, readSource(e))
	}
	return chain
}

// describe returns what is known of a source that isn't modelled. It is the same for both definitions of a VM.
func describe(kind string, source *etree.Element) string {
	var values []string
	for _, e := range append([]*etree.Element{source}, children(source, "address")...) {
		if e == nil {
			continue
		}
		for _, a := range e.Attr {
			// libvirt adds these attributes for a running domain.
			if a.Key != "index" && a.Key != "portid" && a.Key != "mode" {
				values = append(values, a.Key+"="+a.Value)
			}
		}
	}
	slices.Sort(values)
	return kind + ":" + strings.Join(values, ",")
}

// undeclarable returns the problem of a disk that is to get a source that isn't modelled: a VM that has it keeps it.
func undeclarable(path, other string) Problem {
	remedy := "For a disk that gets a source, set file, block, network or volume in place of other."
	if pool, volume, is := volumeOf(other); is {
		remedy = "In place of other, set volume = " + strconv.Quote(pool+"/"+volume) + ": it names the same volume."
	}
	return Problem{path, "A source of the kind " + other + " can be kept, but not declared. " + remedy}
}

// volumeOf returns the pool and the volume of a source that describe has described.
func volumeOf(other string) (pool, volume string, is bool) {
	values, is := strings.CutPrefix(other, "volume:")
	for value := range strings.SplitSeq(values, ",") {
		switch name, text, _ := strings.Cut(value, "="); name {
		case "pool":
			pool = text
		case "volume":
			volume = text
		}
	}
	return pool, volume, is && pool != "" && volume != ""
}

func readHost(host *etree.Element, protocol string) string {
	read := hostPort{name: attr(host, "name"), port: attr(host, "port"), socket: attr(host, "socket")}
	return read.withPort(protocol).String()
}

// sameSource compares by meaning. Authentication and NetworkRows that b doesn't declare are equal.
func sameSource(a, b DiskSource) bool {
	if (a.Network == nil) != (b.Network == nil) {
		return false
	}
	if a.Network != nil && !sameNetworkSource(*a.Network, *b.Network) {
		return false
	}
	return a.File == b.File && a.Block == b.Block && a.Other == b.Other
}

func sameNetworkSource(a, b NetworkSource) bool {
	return a.Protocol == b.Protocol && a.Name == b.Name && slices.Equal(a.fullHosts(), b.fullHosts()) &&
		(b.Auth == nil || a.Auth != nil && *a.Auth == *b.Auth) && sameNetworkRows(a.Values, b.Values)
}

// reaches reports whether two network sources are the same image, which each of them may reach in another way: through
// other servers of one storage, or as another user. The names of RBD images don't depend on the monitors.
func (s DiskSource) reaches(other DiskSource) bool {
	a, b := s.Network, other.Network
	return a != nil && b != nil && (sameExport(*a, *b, true) ||
		a.Protocol == "rbd" && b.Protocol == "rbd" && a.Name == b.Name)
}

// sameLocation reports whether libvirt takes two sources of a running drive for the same medium. Then it doesn't open
// the medium again, whatever else has changed, and reports no error.
func (s DiskSource) sameLocation(other DiskSource) bool {
	a, b := s.Network, other.Network
	if a == nil || b == nil {
		return a == nil && b == nil && !s.isZero() && sameSource(s, other)
	}
	return a.Protocol == b.Protocol && a.Name == b.Name && a.Values["snapshot"] == b.Values["snapshot"] &&
		slices.Equal(a.fullHosts(), b.fullHosts())
}

// fullHosts returns the hosts, with the protocol's port where a host has none.
func (n NetworkSource) fullHosts() []string {
	full := make([]string, len(n.Hosts))
	for i, host := range n.Hosts {
		full[i] = host
		if parsed, ok := parseHost(host); ok {
			full[i] = parsed.withPort(n.Protocol).String()
		}
	}
	return full
}

// isZero reports whether there is no source: the drive has no medium, or the source isn't declared.
func (s DiskSource) isZero() bool {
	return s == DiskSource{}
}

// kind returns the type of a disk with that source.
func (s DiskSource) kind() string {
	switch {
	case s.Block != "":
		return "block"
	case s.Network != nil:
		return "network"
	default:
		return "file"
	}
}

// applySource sets the source. A source of the same kind is patched, so its authentication, encryption and labels stay.
// A source of another kind is replaced. If the source is another image, what described the old one is removed: its
// backing chain, and the selection of a part or a snapshot of it. The same image may be reached in another way: without
// its snapshot, a VM would write to what it only read before.
func applySource(disk *etree.Element, want DiskSource) {
	kind := want.kind()
	if want.isZero() {
		dropChildren(disk, "source", "backingStore", "mirror")
		if attr(disk, "type") != "block" {
			setAttr(disk, "type", kind) // Other types require a source.
		}
		return
	}
	source := child(disk, "source")
	have := readSource(disk)
	if attr(disk, "type") != kind && source != nil {
		fresh := element("source", "startupPolicy", attr(source, "startupPolicy"))
		disk.InsertChildAt(source.Index(), fresh)
		drop(source)
		source = fresh
	}
	if source == nil {
		source = etree.NewElement("source")
		insert(disk, source, "driver")
	}
	setAttr(disk, "type", kind)
	dropChildren(disk, "mirror")
	if !have.reaches(want) {
		dropChildren(disk, "backingStore")
		dropChildren(source, "slices", "snapshot", "dataStore")
	}
	setAttr(source, "index", "")
	switch kind {
	case "file":
		setAttr(source, "file", want.File)
	case "block":
		setAttr(source, "dev", want.Block)
	case "network":
		before := *readSource(disk).Network
		setAttr(source, "protocol", want.Network.Protocol)
		setAttr(source, "name", want.Network.Name)
		applyNetworkRows(disk, source, before, *want.Network)
		applySourceAuth(disk, source, *want.Network)
		if slices.Equal(before.fullHosts(), want.Network.fullHosts()) {
			return
		}
		dropChildren(source, "host")
		for _, host := range want.Network.fullHosts() {
			source.AddChild(hostElement(host))
		}
	}
}

func hostElement(host string) *etree.Element {
	parsed, _ := parseHost(host)
	if parsed.socket != "" {
		return element("host", "transport", "unix", "socket", parsed.socket)
	}
	return element("host", "name", parsed.name, "port", parsed.port)
}
