package domain

import (
	"cmp"
	"reflect"
	"strconv"
	"strings"
)

// SameText reports whether two values of the text attribute with that path, which has * for keys, mean the same. ""
// means that the attribute isn't there.
func SameText(path, a, b string) bool {
	if a == b {
		return true
	}
	equivalent := sameTexts[path]
	return equivalent != nil && equivalent(a, b)
}

func sameTrimmed(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// sameCache compares cache modes by meaning.
func sameCache(a, b string) bool {
	return cmp.Or(a, "default") == cmp.Or(b, "default")
}

// SameMemory compares amounts of memory in whole MiB, because QEMU allocates memory in whole MiB.
func SameMemory(a, b uint64) bool { return roundToMiB(a) == roundToMiB(b) }

// roundToMiB rounds an amount of memory up, as libvirt does when it starts a VM.
func roundToMiB(bytes uint64) uint64 { return (bytes + mib - 1) / mib * mib }

// wholeMiB is roundToMiB for the value of an attribute.
func wholeMiB(value string) string {
	bytes, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return value
	}
	return strconv.FormatUint(roundToMiB(bytes), 10)
}

func memoryDiffers(have, want *uint64) bool {
	return want != nil && (have == nil || !SameMemory(*have, *want))
}

// SameSource reports whether two sources of a disk mean the same.
func SameSource(a, b DiskSource) bool { return sameSource(a, b) && sameSource(b, a) }

// same reports whether two values of the attribute with that path mean the same.
func same(path string, a, b reflect.Value) bool {
	switch x := a.Interface().(type) {
	case DiskSource:
		y, _ := b.Interface().(DiskSource)
		return sameSource(x, y)
	case *uint64:
		y, _ := b.Interface().(*uint64)
		return x == y || x != nil && y != nil && SameMemory(*x, *y)
	case string:
		return SameText(starPath(path), x, b.String())
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}

// starPath returns a path with * for the device's key.
func starPath(path string) string {
	kind, key, ok := deviceOf(path)
	if !ok {
		return path
	}
	return kind + ".*" + strings.TrimPrefix(path, kind+"."+key)
}
