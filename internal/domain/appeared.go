package domain

import "slices"

// Appeared returns the paths of the devices that have has and want would remove, although none of known has them: the
// VM got them after known was read. A kind of device that want doesn't declare is left alone.
func Appeared(have, want Spec, known ...Spec) []string {
	var paths []string
	declared := want.deviceKeys()
	for kind, keys := range have.deviceKeys() {
		if declared[kind] == nil {
			continue
		}
		for key := range keys {
			has := func(s Spec) bool { return s.deviceKeys()[kind][key] }
			if !declared[kind][key] && key != MediumKey && !slices.ContainsFunc(known, has) {
				paths = append(paths, kind+"."+key)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// deviceKeys returns the keys of the devices of each kind of which a VM may have several, by the kind's path. Kinds
// that aren't declared have none.
func (s Spec) deviceKeys() map[string]map[string]bool {
	kinds := map[string]map[string]bool{"disks": keySet(s.Disks), "interfaces": keySet(s.Interfaces)}
	for _, f := range Families {
		kinds[f.Path] = keySet(*f.in(&s))
	}
	return kinds
}

// keySet returns the keys of a map, and nil for nil.
func keySet[V any](m map[string]V) map[string]bool {
	if m == nil {
		return nil
	}
	keys := make(map[string]bool, len(m))
	for key := range m {
		keys[key] = true
	}
	return keys
}
