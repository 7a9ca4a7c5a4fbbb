package domain

import "maps"

// Values that libvirt puts into the definition of a running VM (Attribute.Echo) look like those that were declared and
// that an update has taken out of the persistent definition since. Only a record of what the VM was started with tells
// them apart, see StartedBefore.

// startedWith returns the values of a device in the persistent definition, with those that are recorded of its run.
func (t devices[V]) startedWith(persistent, live V, started Values) Values {
	said := *t.values(&persistent)
	if t.runPath == nil || len(started) == 0 {
		return said
	}
	return withRecorded(t.attributes, t.runPath(persistent), said, *t.values(&live), started)
}

// withRecorded returns values with those that are recorded under the path and that still hold: one that was changed
// while the VM ran, or whose device was unplugged and plugged in again, is no longer what runs. What the guest changes
// (Attribute.Moves) always holds.
func withRecorded(of rows, path string, values, live, started Values) Values {
	all := maps.Clone(values)
	for _, a := range of {
		was, recorded := started[join(path, a.fact())]
		if !recorded || !a.Moves && !a.same(was, live[a.fact()]) {
			continue
		}
		if all == nil {
			all = Values{}
		}
		all[a.fact()] = was
	}
	return all
}

// dropEchoes removes from the running devices, which have the declared keys, the values that libvirt chose where the
// definition and want say that there is none.
func (t devices[V]) dropEchoes(live *Spec, definition, want Spec) {
	declared, defined := *t.in(&want), *t.in(&definition)
	for key, old := range t.pairDevices(defined, declared) {
		device, runs := (*t.in(live))[key]
		if !runs || t.runPath == nil || !t.sameInLive(device, defined[old]) {
			continue
		}
		other := declared[key]
		wanted, said := *t.values(&other), t.startedWith(defined[old], device, live.Started)
		*t.values(&device) = maps.Clone(*t.values(&device))
		for _, a := range t.attributes {
			value, isDeclared := wanted[a.Name]
			if a.Echo && isDeclared && a.normal(value) == "" && a.normal(said[a.Name]) == "" {
				delete(*t.values(&device), a.Name)
			}
		}
		(*t.in(live))[key] = device
	}
}

// recordEchoes adds to started the values of attributes that the running VM has as its persistent definition says, and
// which could be libvirt's as well once the definition no longer has them. It replaces a record that no longer holds.
func recordEchoes(of rows, path string, started, live, persistent Values) {
	for _, a := range of {
		was := persistent[a.fact()]
		if !a.Echo || was == "" || was == Auto || !a.same(was, live[a.fact()]) {
			continue
		}
		if before, recorded := started[join(path, a.fact())]; !recorded || !a.Moves && !a.same(before, was) {
			started[join(path, a.fact())] = was
		}
	}
}
