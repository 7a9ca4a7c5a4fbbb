package domain

// A device that names another one of its kind, such as an interface of a pair, says its key.

// readAll reads all devices of the kind. A device names others by their aliases, which running ones keep when their key
// changes.
func (t devices[V]) readAll(d *Definition) map[string]V {
	found := readDevices(d, t.kind, t.readOne)
	if t.refer == nil || len(found) < 2 {
		return found
	}
	keys := map[string]string{}
	for _, have := range d.keyed(t.kind, d.recordedNames()) {
		keys[t.alias(have.element)] = have.key
	}
	return t.referring(found, keys)
}

// rekey gives the devices their new keys.
func (t devices[V]) rekey(all map[string]V, keys map[string]string) map[string]V {
	keys = rekeyed(all, keys)
	return t.referring(rekey(all, keys), keys)
}

// referring returns the devices with the new keys of those that they name.
func (t devices[V]) referring(all map[string]V, keys map[string]string) map[string]V {
	if t.refer == nil {
		return all
	}
	return mapValues(all, func(device V) V { return t.refer(device, keys) })
}
