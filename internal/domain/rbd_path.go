package domain

import "strings"

// rbdPrefix begins the path of an RBD image that is declared as a volume.
const rbdPrefix = "rbd:"

// RBDPath returns what is recorded as the path of a disk whose volume is an RBD image, which has no path on the host:
// "rbd:<pool>/<image>@<server>,...". It is "" for other sources. A snapshot is no volume.
func (s DiskSource) RBDPath() string {
	if s.Network == nil || s.Network.Protocol != "rbd" || s.Network.Values["snapshot"] != "" {
		return ""
	}
	return s.image()
}

// ParseRBDPath is the inverse of RBDPath; it returns nil for other paths. How QEMU authenticates isn't in the path.
func ParseRBDPath(at string) *NetworkSource {
	image, found := strings.CutPrefix(at, rbdPrefix)
	if !found {
		return nil
	}
	source := &NetworkSource{Protocol: "rbd", Name: image, Values: Values{"snapshot": ""}}
	if i := strings.LastIndexByte(image, '@'); i >= 0 {
		source.Name = image[:i]
		if hosts := image[i+1:]; hosts != "" {
			source.Hosts = strings.Split(hosts, ",")
		}
	}
	return source
}

// SourceAt returns the source of a disk whose volume has that recorded path: a file, a device, or an RBD image. Pools
// of block devices have their volumes below /dev, so no host has to be asked.
func SourceAt(at string) DiskSource {
	if rbd := ParseRBDPath(at); rbd != nil {
		return DiskSource{Network: rbd}
	}
	if strings.HasPrefix(at, "/dev/") {
		return DiskSource{Block: at}
	}
	return DiskSource{File: at}
}

// VolumePath returns the path that libvirt gives the volume that the source is: that of a file, or "<pool>/<image>" of
// an RBD image. It is "" for other sources.
func (s DiskSource) VolumePath() string {
	if s.RBDPath() != "" {
		return s.Network.Name
	}
	return s.File
}
