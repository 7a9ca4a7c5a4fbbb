package domain

import (
	"cmp"
	"maps"
	"strings"

	"github.com/beevik/etree"
)

// runningPrefix begins the names, in Metadata.Devices, of running devices whose definition has another alias, target or
// MAC: their key was changed, or a change is staged. What follows is the path of the kind and what the running device
// has. libvirt can't change an alias while the VM runs, so without the record the old key would be all that is known.
const runningPrefix = "running "

// runningName is what identifies a device of a running VM in the metadata, and "" if nothing does.
func (k kind) runningName(e *etree.Element, id string) string {
	alias := attr(child(e, "alias"), "name")
	if k.alias(e) == "" {
		alias = cmp.Or(id, alias)
	}
	if alias == "" {
		return ""
	}
	return runningPrefix + k.path + " " + alias
}

// runningNames returns the running names of the devices by key.
func (d *Definition) runningNames(k kind, names map[string]string) map[string]string {
	found, ids := map[string]string{}, k.ids(d.elements(k))
	for _, have := range d.keyed(k, names) {
		found[have.key] = k.runningName(have.element, ids[have.element])
	}
	return found
}

// runningKeys returns the recorded keys of a running VM's devices. A record of an earlier start doesn't count: since
// then, the device has its key as alias.
func (d *Definition) runningKeys(k kind, elements []*etree.Element, names map[string]string) map[*etree.Element]string {
	found := map[*etree.Element]string{}
	if !d.Live() {
		return found
	}
	ids, owners := k.ids(elements), map[string]string{}
	for _, e := range elements {
		owners[cmp.Or(k.alias(e), names[ids[e]])] = k.runningName(e, ids[e])
	}
	var counts func(name string, depth int) bool
	counts = func(name string, depth int) bool {
		owner, owned := owners[names[name]]
		return names[name] != "" && depth < len(elements) && (!owned || owner == name || counts(owner, depth+1))
	}
	for _, e := range elements {
		if name := k.runningName(e, ids[e]); counts(name, 0) {
			found[e] = names[name]
		}
	}
	return found
}

// RecordRunning records which running devices the changed devices of a definition are, so that they are found under
// their new keys as long as the VM runs. before is the definition before Apply(want).
func (d *Definition) RecordRunning(before *Definition, want Spec) error {
	have, recorded := before.Spec(), d.recordedNames()
	want = want.normal()
	want.Disks = want.withMedium(have.Disks)
	names := map[string]string{}
	maps.Copy(names, recorded)
	for _, b := range blocks {
		if b.pairs == nil {
			continue
		}
		pairs := b.pairs(have, want)
		if pairs == nil {
			continue
		}
		now := inverse(pairs)
		for name, key := range names {
			if !strings.HasPrefix(name, runningPrefix+b.kind.path+" ") {
				continue
			}
			if names[name] = now[key]; names[name] == "" {
				delete(names, name)
			}
		}
		was, is := before.runningNames(*b.kind, before.recordedNames()), d.runningNames(*b.kind, recorded)
		for key, old := range pairs {
			if name := was[old]; name != "" && name != is[key] && names[name] == "" {
				names[name] = key
			}
		}
	}
	if maps.Equal(names, recorded) {
		return nil
	}
	return d.setDeviceNames(names)
}

// AdoptNames gives a live definition the names that the persistent one records, because they are written there first.
// It reports whether that changes anything.
func (d *Definition) AdoptNames(persistent *Definition) bool {
	names := map[string]string{}
	maps.Copy(names, d.recordedNames())
	maps.Copy(names, persistent.recordedNames())
	return !maps.Equal(names, d.recordedNames()) && d.setDeviceNames(names) == nil
}

// DeviceNames returns the recorded names of devices, and adds those that have to be recorded. Interfaces without our
// alias are known by their order: without a record, each would get the name of the one before it when that one is
// removed. live is what runs, if it isn't the definition itself; its names last as long as it runs.
func (d *Definition) DeviceNames(live *Definition) map[string]string {
	recorded := d.recordedNames()
	names := map[string]string{}
	maps.Copy(names, recorded)
	ids := interfaceKind.ids(d.elements(interfaceKind))
	for _, nic := range d.keyed(interfaceKind, recorded) {
		if id := ids[nic.element]; id != "" && interfaceKind.alias(nic.element) == "" {
			names[id] = nic.key
		}
	}
	run := map[string]bool{}
	if live != nil {
		has, is := live.Spec(), d.Spec()
		for _, b := range blocks {
			if b.commonKeys == nil {
				continue
			}
			keys := b.commonKeys(has, is)
			for key, name := range live.runningNames(*b.kind, live.recordedNames()) {
				run[name] = true
				if now := keys[key]; name != "" && now != "" && now != key {
					names[name] = now
				}
			}
		}
	}
	maps.DeleteFunc(names, func(name, _ string) bool { return strings.HasPrefix(name, runningPrefix) && !run[name] })
	return names
}

// FollowDefinition returns the running VM's spec with the keys under which want declares its devices. It has the keys
// of the definition that want changes, see AlignKeys. A staged change may have made a device there another one than
// what runs, so that only the definition tells which device a new key is for.
func FollowDefinition(live, definition, want Spec) Spec {
	want = want.normal()
	want.Disks = want.withMedium(definition.Disks)
	for _, b := range blocks {
		if b.follow != nil {
			b.follow(&live, definition, want)
		}
	}
	return live
}
