package domain

import (
	"cmp"
	"maps"
	"reflect"
	"strconv"
)

// Merge returns what a VM is like when its two definitions may differ. Where they differ, it takes the persistent value
// if a staged change explains the difference. Otherwise it takes the value that differs from prior, the state; without
// prior it takes the persistent value. Either definition may be nil. Devices of the live definition are identified by
// target or MAC, and get the keys of the persistent definition.
func Merge(persistent, live, prior *Spec, staged Staged) Spec {
	switch {
	case persistent == nil && live == nil:
		return Spec{}
	case persistent == nil:
		alone := *live
		if alone.CPU.Expanded != nil {
			alignFeatures(&alone, Spec{}) // The request is unknown, and the list fits no other model.
		}
		return alone
	case live == nil:
		return *persistent
	}
	p, l := *persistent, alignLive(*live, *persistent)
	p.Firmware.SecureBoot = cmp.Or(p.Firmware.SecureBoot, l.Firmware.SecureBoot) // libvirt has chosen it since.
	before := reflect.Value{}
	if prior != nil {
		known := *prior
		known.Values = maps.Clone(known.Values)
		// These values mean that the VM didn't have the thing.
		maps.DeleteFunc(known.Values, func(_, value string) bool { return value == "" || value == None })
		before = reflect.ValueOf(known)
	}
	m := merger{staged: staged.stillPending(l)}
	merged, _ := m.merge("", reflect.ValueOf(p), reflect.ValueOf(l), before).Interface().(Spec)
	for _, b := range blocks {
		if b.observe != nil {
			b.observe(&merged, l)
		}
	}
	return merged
}

// merger merges two definitions. staged are the paths where a staged change explains why they differ.
type merger struct{ staged map[string]bool }

// merge merges one value. Without prior it takes the persistent value.
func (m merger) merge(path string, p, l, prior reflect.Value) reflect.Value {
	if m.staged[path] {
		prior = reflect.Value{}
	}
	if same(path, p, l) {
		return p
	}
	switch {
	case p.Kind() == reflect.Map:
		return m.mergeMaps(path, p, l, prior)
	case !isLeaf(p.Type()):
		p, l = m.joinConnections(path, p, l, prior)
		merged := reflect.New(p.Type()).Elem()
		for i := range p.NumField() {
			before := reflect.Value{}
			if prior.IsValid() {
				before = prior.Field(i)
			}
			merged.Field(i).Set(m.merge(join(path, step(p.Type().Field(i))), p.Field(i), l.Field(i), before))
		}
		return merged
	case !prior.IsValid() || !same(path, p, prior):
		return p
	default:
		return l
	}
}

// mergeMaps decides for each key which definition differs from prior. A key that only one definition has is kept if it
// isn't in prior, and dropped if it is.
func (m merger) mergeMaps(path string, p, l, prior reflect.Value) reflect.Value {
	merged := reflect.MakeMap(p.Type())
	known := prior.IsValid() && !prior.IsNil()
	keys := map[string]bool{}
	for _, side := range []reflect.Value{p, l} {
		for _, key := range side.MapKeys() {
			keys[key.String()] = true
		}
	}
	for name := range keys {
		key := reflect.ValueOf(name)
		inP, inL, before := p.MapIndex(key), l.MapIndex(key), reflect.Value{}
		if known {
			before = prior.MapIndex(key)
		}
		known := known && !m.staged[join(path, name)]
		switch {
		case inP.IsValid() && inL.IsValid():
			merged.SetMapIndex(key, m.merge(join(path, name), inP, inL, before))
		case !known && inP.IsValid(), known && !before.IsValid() && inP.IsValid():
			merged.SetMapIndex(key, inP)
		case known && !before.IsValid():
			merged.SetMapIndex(key, inL)
		}
	}
	return merged
}

// joinConnections gives both interfaces the connection that takes precedence, as a whole: a connection mixed from a
// network and a bridge would be neither.
func (m merger) joinConnections(path string, p, l, prior reflect.Value) (reflect.Value, reflect.Value) {
	persistent, ok := p.Interface().(Interface)
	if !ok {
		return p, l
	}
	other, _ := l.Interface().(Interface)
	winner := persistent
	if prior.IsValid() && !m.staged[join(path, "connection")] {
		if before, _ := prior.Interface().(Interface); sameConnection(persistent, before) {
			winner = other
		}
	}
	for _, side := range []*Interface{&persistent, &other} {
		connectAs(side, winner)
	}
	return reflect.ValueOf(persistent), reflect.ValueOf(other)
}

// rekey gives the devices their new keys. If a device has no new key and its own is taken, its key gets a number.
func rekey[V any](devices map[string]V, keys map[string]string) map[string]V {
	if devices == nil {
		return nil
	}
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
