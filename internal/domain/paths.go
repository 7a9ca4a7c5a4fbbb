package domain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// step returns a field's part of an attribute path. It is "" for fields that are observed only, and for Values, which
// have whole paths.
func step(field reflect.StructField) string {
	if name := field.Tag.Get("path"); name != "-" {
		return name
	}
	return ""
}

// join appends a step to a path. Either may be empty.
func join(path, step string) string {
	if path == "" || step == "" {
		return path + step
	}
	return path + "." + step
}

// isLeaf reports whether a value is compared as a whole: half of a disk's source has no meaning.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[DiskSource]() || t.Kind() != reflect.Struct && t.Kind() != reflect.Map
}

// flattenSpec returns the attribute paths of a spec and their values. A map, and each of its keys, has an entry of its
// own. Empty values and values that are observed only are left out.
func flattenSpec(s Spec) map[string]string {
	found := map[string]string{}
	collect(found, "", reflect.ValueOf(s))
	return found
}

func collect(found map[string]string, path string, v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[Values]():
		for _, key := range v.MapKeys() {
			collect(found, join(path, key.String()), v.MapIndex(key))
		}
	case v.Kind() == reflect.Map:
		if v.IsNil() {
			return
		}
		found[path] = "{}"
		for _, key := range v.MapKeys() {
			device := join(path, key.String())
			found[device] = "{}"
			collect(found, device, v.MapIndex(key))
		}
	case !isLeaf(v.Type()):
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.Tag.Get("path") != "-" {
				collect(found, join(path, step(field)), v.Field(i))
			}
		}
	case v.IsZero():
	default:
		// JSON follows pointers, so a source has the same text in every process.
		said, err := json.Marshal(v.Interface())
		if err != nil {
			panic(err) // All fields of a Spec have types that JSON supports.
		}
		found[path] += string(said) + " "
	}
}

// SpecHash returns a stable hash of what the spec declares. Identity, observed values and empty attributes don't count,
// so an attribute that a newer version adds changes no hash.
func SpecHash(s Spec) string {
	all := flattenSpec(s.normal())
	lines := make([]string, 0, len(all))
	for _, path := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, path+"="+all[path])
	}
	return fingerprint(strings.Join(lines, "\n"))
}

func fingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Staged says which attributes of a running VM differ from its persistent definition because an update has left them to
// the next start. It maps each path to a fingerprint of the live value at that time. If the live value has changed
// since, the entry no longer explains the difference.
type Staged map[string]string

// StagedBy returns what an update with that spec has staged: the changes that need a restart, and the differences that
// follow from them in the same block or device.
func StagedBy(live, persistent, want Spec) Staged {
	live = alignLive(live, persistent)
	waiting := map[string]bool{}
	for _, c := range classify(live, want) {
		if !c.Live {
			waiting[stagedUnit(c.Path)] = true
		}
	}
	staged := Staged{}
	if len(waiting) == 0 {
		return staged
	}
	runs, next := flattenSpec(live), flattenSpec(persistent)
	for _, side := range []map[string]string{runs, next} {
		for path := range side {
			if runs[path] != next[path] && waiting[stagedUnit(path)] {
				staged[path] = fingerprint(runs[path])
			}
		}
	}
	return staged
}

// stagedUnit returns the block or device of a path. All devices share one boot order.
func stagedUnit(path string) string {
	steps := strings.Split(path, ".")
	switch {
	case groupOf(path) != "":
		return groupOf(path)
	case steps[len(steps)-1] == "boot_order":
		return "boot_order"
	default:
		if kind, key, ok := deviceOf(path); ok {
			return join(kind, key)
		}
		return steps[0]
	}
}

// stillPending returns the paths where a staged change still explains the live value.
func (s Staged) stillPending(live Spec) map[string]bool {
	if len(s) == 0 {
		return nil
	}
	said := flattenSpec(live)
	paths := map[string]bool{}
	for path, was := range s {
		paths[path] = fingerprint(said[path]) == was
	}
	return paths
}
