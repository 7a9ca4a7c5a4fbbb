package domain

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// What an update wrote to the definition of a running VM and didn't bring to the VM that runs, because it failed or was
// killed. The next start would have it. If it is no longer declared, nothing else tells that it is there: attributes
// that aren't declared are left alone.

// UnfinishedBy returns what the running VM lacks of an update that makes after of the definition before, as Staged says
// it. What an earlier update has left, and is still to be done, is part of it. live has the keys of after.
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

// Unseen returns the paths, sorted, at which the definition still differs from what runs, and seen doesn't tell what
// the definition says.
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

// TakeBack returns want, which declares at some of these paths what runs, unless it declares something there. back are
// the paths, sorted, where it does, and left are those that aren't declared either. have has the keys of the paths, as
// live does. Only what means the same whatever else is declared is taken back: another source of a disk has another
// format, and a part of the memory, the CPU or a device follows from the others.
func (s Spec) TakeBack(paths []string, have, live Spec) (want Spec, back, left []string) {
	if len(paths) == 0 {
		return s, nil, nil
	}
	t := takingBack{paths: map[string]bool{}}
	declared := flattenSpec(s)
	for _, path := range paths {
		switch path = renamedPath(path, have, s); {
		case declared[path] != "" || isSourceOf(path, s):
		case standsAlone(path):
			t.paths[path] = true
		default:
			left = append(left, path)
		}
	}
	live = FollowDefinition(live, have, s)
	want, _ = t.takeFields("", reflect.ValueOf(s), reflect.ValueOf(live)).Interface().(Spec)
	for path := range t.paths {
		left = append(left, path)
	}
	slices.Sort(t.back)
	slices.Sort(left)
	return want, t.back, left
}

// isSourceOf reports whether the path is that of the source of a declared disk: without one, an empty drive is
// declared.
func isSourceOf(path string, declared Spec) bool {
	kind, key, _ := deviceOf(path)
	_, is := declared.Disks[key]
	return is && kind == "disks" && strings.HasSuffix(path, ".source")
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

// takingBack has the paths that are to be taken back, without those that were, which are in back.
type takingBack struct {
	paths map[string]bool
	back  []string
}

// take returns want with what runs at the paths.
func (t *takingBack) take(path string, want, runs reflect.Value) reflect.Value {
	switch {
	case want.Type() == reflect.TypeFor[Row]():
		return t.takeValues(path, want, runs)
	case want.Kind() == reflect.Map:
		for _, key := range want.MapKeys() {
			if is := runs.MapIndex(key); is.IsValid() {
				want.SetMapIndex(key, t.take(join(path, key.String()), want.MapIndex(key), is))
			}
		}
		return want
	case !isLeaf(want.Type()):
		_, _, isDevice := deviceOf(path)
		if !isDevice && !want.IsZero() {
			return want
		}
		return t.takeFields(path, want, runs)
	case t.paths[path] && !runs.IsZero():
		t.back = append(t.back, path)
		return runs
	default:
		return want
	}
}

// takeFields is take for a struct. Its values come last: they are at the paths that no other field has.
func (t *takingBack) takeFields(path string, want, runs reflect.Value) reflect.Value {
	all := reflect.New(want.Type()).Elem()
	all.Set(want)
	values := -1
	for i := range want.NumField() {
		field, at := want.Type().Field(i), join(path, step(want.Type().Field(i)))
		switch {
		case field.Tag.Get("path") == "-":
		case field.Type == reflect.TypeFor[Values]():
			values = i
		default:
			all.Field(i).Set(t.take(at, cloneMap(want.Field(i)), runs.Field(i)))
			delete(t.paths, at)
		}
	}
	if values >= 0 {
		all.Field(values).Set(t.takeValues(path, want.Field(values), runs.Field(values)))
	}
	return all
}

// takeValues is take for values, which are declared one by one.
func (t *takingBack) takeValues(path string, want, runs reflect.Value) reflect.Value {
	all := cloneMap(want)
	for _, at := range slices.Sorted(maps.Keys(t.paths)) {
		name, within := at, groupOf(at) != ""
		if path != "" {
			name, within = strings.CutPrefix(at, path+".")
		}
		key := reflect.ValueOf(name)
		if !within || all.MapIndex(key).IsValid() {
			continue
		}
		if all.IsNil() {
			all = reflect.MakeMap(want.Type())
		}
		said := runs.MapIndex(key)
		if !said.IsValid() {
			said = reflect.ValueOf("")
		}
		all.SetMapIndex(key, said)
		t.back = append(t.back, at)
		delete(t.paths, at)
	}
	return all
}

// cloneMap returns a copy of a map, and any other value as it is.
func cloneMap(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Map || v.IsNil() {
		return v
	}
	all := reflect.MakeMapWithSize(v.Type(), v.Len())
	for _, key := range v.MapKeys() {
		all.SetMapIndex(key, v.MapIndex(key))
	}
	return all
}
