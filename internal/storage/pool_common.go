package storage

import (
	"fmt"
	"slices"
)

// InCommon returns the storage that both of two pools of a host would have, as an attribute with its value: libvirt
// doesn't define the second one. It returns "" if they have none in common.
func (p Pool) InCommon(other Pool) string {
	of := []string{p.Type, other.Type}
	all := func(types ...string) bool {
		return !slices.ContainsFunc(of, func(is string) bool { return !slices.Contains(types, is) })
	}
	switch {
	case p.Name == other.Name:
		return ""
	case all("dir"):
		return inBoth("target.path", p.Path, other.Path)
	case all("netfs"):
		if len(p.SourceHosts) == 1 && len(other.SourceHosts) == 1 && p.SourceHosts[0].equal(other.SourceHosts[0]) {
			return inBoth("source.dir", p.SourceDir, other.SourceDir)
		}
	case all("fs", "logical", "disk"):
		for _, device := range p.Devices {
			if slices.Contains(other.Devices, device) {
				return inBoth("source.devices", &device, &device)
			}
		}
	}
	return ""
}

func inBoth(attribute string, path, other *string) string {
	if path == nil || other == nil || !samePath(*path, *other) {
		return ""
	}
	return fmt.Sprintf("%s = %q", attribute, *other)
}
