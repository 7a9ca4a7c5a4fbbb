package domain

import (
	"slices"
	"strings"
)

// DevicePaths returns the paths of the devices of which a VM may have several, sorted: "disks.root". The drive with the
// first-boot medium isn't among them: it isn't declared as a disk.
func (s Spec) DevicePaths() []string {
	var paths []string
	for key := range s.Disks {
		if key != MediumKey {
			paths = append(paths, "disks."+key)
		}
	}
	for key := range s.Interfaces {
		paths = append(paths, "interfaces."+key)
	}
	for _, f := range Families {
		for key := range *f.in(&s) {
			paths = append(paths, f.Path+"."+key)
		}
	}
	slices.Sort(paths)
	return paths
}

// Undeclared returns the paths of the devices that want would remove: it lists the VM's devices of their kind, and they
// are not among them.
func Undeclared(paths []string, want Spec) []string {
	declared := map[string]bool{"disks": want.Disks != nil, "interfaces": want.Interfaces != nil}
	for _, f := range Families {
		declared[f.Path] = *f.in(&want) != nil
	}
	has := want.DevicePaths()
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		return !declared[path[:strings.LastIndex(path, ".")]] || slices.Contains(has, path)
	})
}
