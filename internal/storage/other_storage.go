package storage

import (
	"fmt"
	"slices"
)

// OtherStorage returns what makes the pool one of other storage than it was, in which its volumes aren't: the attribute
// with both values, for messages. It returns "" if the pool stays where it is, as far as its source says: a directory
// is the matter of its path. What isn't declared stays as it is.
func (p Pool) OtherStorage(was Pool) string {
	switch name := was.sourceName(); {
	case p.Type != was.Type:
		return insteadOf("type", p.Type, was.Type)
	case differs(p.SourceName, name, sameText):
		return insteadOf("source.name", *p.SourceName, *name)
	case differs(p.SourceDir, was.SourceDir, samePath):
		return insteadOf("source.dir", *p.SourceDir, *was.SourceDir)
	case !p.kind().manyDevices && otherDevice(p.Devices, was.Devices):
		return insteadOf("source.devices", p.Devices, was.Devices)
	case otherServers(p.SourceHosts, was.SourceHosts):
		return insteadOf("source.hosts", namesOf(p.SourceHosts), namesOf(was.SourceHosts))
	case p.Adapter != nil && was.Adapter != nil && !p.Adapter.isIn(was.Adapter):
		return "another source.adapter"
	default:
		return ""
	}
}

func insteadOf[T string | []string](attribute string, is, was T) string {
	return fmt.Sprintf("%s = %q instead of %q", attribute, is, was)
}

func differs(is, was *string, same func(a, b string) bool) bool {
	return is != nil && was != nil && !same(*is, *was)
}

// sourceName returns what the pool's source is called, which may be the pool's name if it isn't declared.
func (p Pool) sourceName() *string {
	if p.SourceName == nil && p.kind().nameIsSource {
		return &p.Name
	}
	return p.SourceName
}

// otherDevice reports whether two names are those of different devices. If one of them is the kernel's name and the
// other isn't, it may be a link to the same device.
func otherDevice(is, was []string) bool {
	return len(is) > 0 && len(was) > 0 && is[0] != was[0] && kernelName(is[0]) == kernelName(was[0])
}

// otherServers reports whether two lists have no server in common. Otherwise, servers were added to the same storage,
// or removed from it.
func otherServers(is, was []SourceHost) bool {
	known := namesOf(was)
	return len(is) > 0 && len(was) > 0 &&
		!slices.ContainsFunc(namesOf(is), func(name string) bool { return slices.Contains(known, name) })
}

func namesOf(hosts []SourceHost) (names []string) {
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names
}
