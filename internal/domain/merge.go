package domain

import (
	"cmp"
	"reflect"
	"strconv"
)

// Merge tells what a VM is like when its two definitions may differ. Where they do, the persistent one counts if a
// staged change explains it, else the one that departs from prior, the state. Either may be nil. Devices of the live
// definition are known by their target or MAC, and take the persistent one's keys.
func Merge(persistent, live, prior *Spec, staged bool) Spec {
	switch {
	case persistent == nil && live == nil:
		return Spec{}
	case persistent == nil:
		return *live
	case live == nil:
		return *persistent
	}
	p, l := *persistent, alignLive(*live, *persistent)
	p.Firmware.SecureBoot = cmp.Or(p.Firmware.SecureBoot, l.Firmware.SecureBoot) // libvirt has chosen meanwhile.
	before := reflect.Value{}
	if prior != nil && !staged {
		before = reflect.ValueOf(*prior)
	}
	merged, _ := merge(reflect.ValueOf(p), reflect.ValueOf(l), before).Interface().(Spec)
	merged.FreeSlots, merged.Memory.Installed, merged.CPU.Expanded = l.FreeSlots, l.Memory.Installed, nil
	return merged
}

// merge merges one value. Without prior the persistent one counts.
func merge(p, l, prior reflect.Value) reflect.Value {
	if same(p, l) {
		return p
	}
	switch {
	case p.Kind() == reflect.Map:
		return mergeMaps(p, l, prior)
	case p.Kind() == reflect.Struct && p.Type() != reflect.TypeFor[DiskSource]():
		p, l = joinConnections(p, l, prior)
		merged := reflect.New(p.Type()).Elem()
		for i := range p.NumField() {
			before := reflect.Value{}
			if prior.IsValid() {
				before = prior.Field(i)
			}
			merged.Field(i).Set(merge(p.Field(i), l.Field(i), before))
		}
		return merged
	case !prior.IsValid() || !same(p, prior):
		return p
	default:
		return l
	}
}

// mergeMaps decides about each key by which definition has departed from prior: where prior has the key, the one
// without it; where it doesn't, the one with it.
func mergeMaps(p, l, prior reflect.Value) reflect.Value {
	merged := reflect.MakeMap(p.Type())
	known := prior.IsValid() && !prior.IsNil()
	keys := map[string]bool{}
	for _, m := range []reflect.Value{p, l} {
		for _, key := range m.MapKeys() {
			keys[key.String()] = true
		}
	}
	for name := range keys {
		key := reflect.ValueOf(name)
		inP, inL, before := p.MapIndex(key), l.MapIndex(key), reflect.Value{}
		if known {
			before = prior.MapIndex(key)
		}
		switch {
		case inP.IsValid() && inL.IsValid():
			merged.SetMapIndex(key, merge(inP, inL, before))
		case !known && inP.IsValid(), known && !before.IsValid() && inP.IsValid():
			merged.SetMapIndex(key, inP)
		case known && !before.IsValid():
			merged.SetMapIndex(key, inL)
		}
	}
	return merged
}

// joinConnections lets the connections of two interfaces win or lose as a whole: one that is half a network's and
// half a bridge's is neither.
func joinConnections(p, l, prior reflect.Value) (reflect.Value, reflect.Value) {
	persistent, ok := p.Interface().(Interface)
	if !ok {
		return p, l
	}
	other, _ := l.Interface().(Interface)
	winner := persistent
	if prior.IsValid() {
		if before, _ := prior.Interface().(Interface); sameConnection(persistent, before) {
			winner = other
		}
	}
	for _, side := range []*Interface{&persistent, &other} {
		side.Network, side.Bridge, side.User, side.Other = winner.Network, winner.Bridge, winner.User, winner.Other
	}
	return reflect.ValueOf(persistent), reflect.ValueOf(other)
}

// same compares by meaning.
func same(a, b reflect.Value) bool {
	if source, ok := a.Interface().(DiskSource); ok {
		other, _ := b.Interface().(DiskSource)
		return sameSource(source, other)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// alignLive makes a running VM's spec comparable with the persistent one's: devices take its keys, and what the live
// definition can't say is taken to be as it is there.
func alignLive(live, persistent Spec) Spec {
	live.Disks = rekey(live.Disks, diskKeys(live.Disks, persistent.Disks))
	live.Interfaces = rekey(live.Interfaces, interfaceKeys(live.Interfaces, persistent.Interfaces))
	live.Firmware.SecureBoot = cmp.Or(live.Firmware.SecureBoot, persistent.Firmware.SecureBoot)
	if live.CPU.Expanded != nil {
		if persistent.CPU.expandsTo(*live.CPU.Expanded, live.Arch) {
			live.CPU.Mode, live.CPU.Model = persistent.CPU.Mode, persistent.CPU.Model
		} else {
			live.CPU.Mode, live.CPU.Model = live.CPU.Expanded.guess()
		}
		live.CPU.Expanded = nil
	}
	return live
}

// diskKeys returns the persistent definition's keys of the live disks that are known by others there. One target isn't
// enough: a staged change may have given it to another disk.
func diskKeys(live, persistent map[string]Disk) map[string]string {
	return commonKeys(live, persistent, func(a, b Disk) bool {
		return a.Target != "" && a.Target == b.Target &&
			(sameSource(a.Source, b.Source) || a.removable() && b.removable())
	})
}

// interfaceKeys does the same for interfaces, which their MAC identifies.
func interfaceKeys(live, persistent map[string]Interface) map[string]string {
	return commonKeys(live, persistent, func(a, b Interface) bool { return a.MAC != "" && a.MAC == b.MAC })
}

func commonKeys[V any](live, persistent map[string]V, one func(a, b V) bool) map[string]string {
	keys := map[string]string{}
	for key, device := range live {
		for other, candidate := range persistent {
			if one(device, candidate) {
				keys[key] = other
			}
		}
	}
	return keys
}

// rekey gives the devices their other keys. One that has no other and whose own is taken gets a number.
func rekey[V any](devices map[string]V, keys map[string]string) map[string]V {
	out := make(map[string]V, len(devices))
	for key, name := range rekeyed(devices, keys) {
		out[name] = devices[key]
	}
	return out
}

// rekeyed returns the new key of each device.
func rekeyed[V any](devices map[string]V, keys map[string]string) map[string]string {
	names := make(map[string]string, len(devices))
	taken := map[string]bool{}
	for key, name := range keys {
		names[key] = name
		taken[name] = true
	}
	for _, key := range sortedKeys(devices) {
		if names[key] != "" {
			continue
		}
		name := key
		for n := 2; taken[name]; n++ {
			name = key + "-" + strconv.Itoa(n)
		}
		names[key] = name
		taken[name] = true
	}
	return names
}
