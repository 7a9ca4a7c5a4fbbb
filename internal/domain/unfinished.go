package domain

import (
	"maps"
	"slices"
	"strings"
)

// Unfinished changes are what an update wrote to the definition of a running VM and didn't bring to the VM that runs,
// because it failed or was killed. The next start would make them. A change that is no longer declared is shown by
// nothing else, because attributes that aren't declared are left alone. Of the unfinished changes are:
//
//   - remaining: those that also a later update, which succeeded, has neither made nor declared. They stay recorded.
//   - unseen: those that the state doesn't show, because neither the running VM nor the configuration has them.
//   - taken back: unseen changes that are no longer declared, and that an update undoes: it declares what runs.
//   - staying: unseen changes that are no longer declared, and that an update can't undo alone: the next start makes
//     them.

// UnfinishedBy returns the unfinished changes of an update that makes after of the definition before, as Staged says
// them. Those of an earlier update that the running VM still lacks are among them. live has the keys of after.
func UnfinishedBy(live, before, after Spec, earlier Staged) Staged {
	live = alignLive(live, after)
	left := earlier.stillPending(live)
	runs, was, next := flattenSpec(live), flattenSpec(before), flattenSpec(after)
	unfinished := Staged{}
	for _, side := range []map[string]string{runs, next} {
		for path := range side {
			if runs[path] != next[path] && (was[path] != next[path] || left[path]) {
				unfinished[path] = fingerprint(runs[path])
			}
		}
	}
	return unfinished
}

// Remaining returns the changes that remain after an update that succeeded: the running VM still lacks them, and the
// update declares nothing there. before is the definition before the update, whose keys the paths have, and persistent
// the one after it.
func (s Staged) Remaining(live, before, persistent, declared Spec) Staged {
	if len(s) == 0 {
		return nil
	}
	live = alignLive(live, persistent)
	runs, next, said := flattenSpec(live), flattenSpec(persistent), flattenSpec(declared)
	remaining := Staged{}
	for path, was := range s {
		path = renamedPath(path, before, declared)
		if fingerprint(runs[path]) == was && runs[path] != next[path] &&
			said[path] == "" && !declared.declaresEmpty(path) {
			remaining[path] = was
		}
	}
	return remaining
}

// Unseen returns the paths, sorted, of the unseen changes: the definition still differs from what runs, and seen
// doesn't tell what the definition says.
func (s Staged) Unseen(live, persistent, seen Spec) []string {
	if len(s) == 0 {
		return nil
	}
	live = alignLive(live, persistent)
	runs, next, told := flattenSpec(live), flattenSpec(persistent), flattenSpec(seen)
	var paths []string
	for path, pending := range s.stillPending(live) {
		if pending && runs[path] != next[path] && told[path] != next[path] {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// TakenBack are the paths of unseen changes that are no longer declared, sorted.
type TakenBack struct {
	// Paths are those at which what runs is declared again.
	Paths []string
	// Staying are those at which it isn't, because it may not fit what is declared. Of a device that the running VM
	// lacks, it is the path of the device.
	Staying []string
}

// TakeBack returns s, which is what is declared, with what runs in the place of the unseen changes at these paths,
// unless it declares something there. have has the keys of the paths, as live does. Only what means the same whatever
// else is declared is taken back: another source of a disk has another format, and a part of the memory, the CPU or a
// device follows from the others.
func (s Spec) TakeBack(unseen []string, have, live Spec) (want Spec, t TakenBack) {
	if len(unseen) == 0 {
		return s, t
	}
	live = FollowDefinition(live, have, s)
	declared := flattenSpec(s)
	want = s
	want.Values, want.Interfaces = maps.Clone(s.Values), maps.Clone(s.Interfaces)
	for _, path := range unseen {
		path = renamedPath(path, have, s)
		device, lacking := live.lacksDevice(path)
		switch {
		case lacking && s.decidesDevice(device):
		case lacking:
			t.Staying = append(t.Staying, device)
		case declared[path] != "" || s.declaresEmpty(path):
		case standsAlone(path) && takeValue(&want, path, live):
			t.Paths = append(t.Paths, path)
		default:
			t.Staying = append(t.Staying, path)
		}
	}
	slices.Sort(t.Paths)
	slices.Sort(t.Staying)
	t.Staying = slices.Compact(t.Staying)
	return want, t
}

// lacksDevice returns the path of the device that a path is of, and whether there is no such device.
func (s Spec) lacksDevice(path string) (device string, lacking bool) {
	kind, key, isDevice := deviceOf(path)
	device = join(kind, key)
	block, _ := keyedBlock(device)
	return device, isDevice && block != nil && !s.HasDevice(device)
}

// decidesDevice reports whether s says whether the VM has the device: it declares the device, or all devices of its
// kind. The drive of the first-boot medium stays as it is unless a medium is declared.
func (s Spec) decidesDevice(path string) bool {
	if path == join("disks", MediumKey) {
		return s.Medium != nil
	}
	return s.HasDevice(path) || len(Undeclared([]string{path}, s)) > 0
}

// takeValue declares at the path what runs. It returns false if the device there isn't declared, or doesn't run.
func takeValue(want *Spec, path string, live Spec) bool {
	kind, key, isDevice := deviceOf(path)
	if !isDevice {
		if want.Values == nil {
			want.Values = Values{}
		}
		want.Values[path] = live.Values[path]
		return true
	}
	is, declared := want.Interfaces[key]
	runs, running := live.Interfaces[key]
	if !declared || !running {
		return false
	}
	if is.Values = maps.Clone(is.Values); is.Values == nil {
		is.Values = Values{}
	}
	name := strings.TrimPrefix(path, join(kind, key)+".")
	is.Values[name] = runs.Values[name]
	want.Interfaces[key] = is
	return true
}

// declaresEmpty reports whether what the path has no value for is declared: an attribute whose value is empty, or the
// source of a disk, because a declared disk without one is an empty drive. A medium declares its drive.
func (s Spec) declaresEmpty(path string) bool {
	kind, key, isDevice := deviceOf(path)
	name := strings.TrimPrefix(path, join(kind, key)+".")
	values := s.Values
	switch {
	case !isDevice:
		name = path
	case kind == "interfaces":
		values = s.Interfaces[key].Values
	case kind == "disks":
		disk, is := s.Disks[key]
		if (is || key == MediumKey && s.Medium != nil) && name == "source" {
			return true
		}
		values = disk.Values
	}
	_, declared := values[name]
	return declared
}

// standsAlone reports whether what is at the path means the same whatever else is declared.
func standsAlone(path string) bool {
	kind, key, isDevice := deviceOf(path)
	if !isDevice {
		return path == "title" || path == "description"
	}
	name := strings.TrimPrefix(path, join(kind, key)+".")
	return kind == "interfaces" && (name == "isolated" || name == "mtu" || strings.HasPrefix(name, "bandwidth."))
}

// renamedPath returns a path with the key that want has for the device.
func renamedPath(path string, have, want Spec) string {
	kind, key, ok := deviceOf(path)
	if !ok {
		return path
	}
	for _, b := range blocks {
		if b.pairs == nil || b.kind.path != kind {
			continue
		}
		if now := inverse(b.pairs(have, want))[key]; now != "" {
			return join(kind, now) + strings.TrimPrefix(path, join(kind, key))
		}
	}
	return path
}
