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

// step is a field's part of an attribute path, "" for what is observed only, and for values, whose paths are whole.
func step(field reflect.StructField) string {
	if name := field.Tag.Get("path"); name != "-" {
		return name
	}
	return ""
}

// join appends a step to a path. One of them may be empty.
func join(path, step string) string {
	if path == "" || step == "" {
		return path + step
	}
	return path + "." + step
}

// isLeaf says whether a value is compared as a whole: half of a disk's source means nothing.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[DiskSource]() || t.Kind() != reflect.Struct && t.Kind() != reflect.Map
}

// flattenSpec flattens a spec into its attribute paths and what it says there. A map that is there and each of its
// keys are values of their own. What says nothing, and what is observed only, is left out.
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
		// JSON follows pointers: a source prints the same in every process.
		said, err := json.Marshal(v.Interface())
		if err != nil {
			panic(err) // No field of a Spec has a type that JSON lacks.
		}
		found[path] += string(said) + " "
	}
}

// SpecHash returns a stable hash of what the spec declares. Identity, observed values, and attributes that say nothing
// don't count: one that a newer version adds changes no hash.
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
// the next start: for each path a fingerprint of what ran at that time. Once something else runs, that no longer
// explains the difference.
type Staged map[string]string

// StagedBy tells what an update that wanted a spec has staged: what needs a restart, and what follows from that in the
// same block or device.
func StagedBy(live, persistent, want Spec) Staged {
	live = alignLive(live, persistent)
	waiting := map[string]bool{}
	for _, c := range classify(live, want) {
		if !c.Live {
			waiting[stagedUnit(c.Path)] = true
		}
	}
	runs, next := flattenSpec(live), flattenSpec(persistent)
	staged := Staged{}
	for _, side := range []map[string]string{runs, next} {
		for path := range side {
			if runs[path] != next[path] && waiting[stagedUnit(path)] {
				staged[path] = fingerprint(runs[path])
			}
		}
	}
	return staged
}

// stagedUnit is the block or device of a path. All devices share one boot order.
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

// stillPending are the paths at which what was staged still explains what runs.
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
