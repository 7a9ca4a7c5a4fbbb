package domain

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// kind is what the kinds of devices with keys have in common.
type kind struct {
	// path is the attribute, tag the element and prefix the prefix of our aliases. libvirt requires aliases to be
	// unique among all devices, so the prefixes differ.
	path, tag, prefix string
	// id returns what identifies a device in the metadata (see ids) and across definitions: target or MAC.
	id func(*etree.Element) string
	// fallback returns the key of a device without a name. index counts the devices of its kind.
	fallback func(e *etree.Element, index int) string
	// skip reports whether an element is not of the kind; if it is nil, all are.
	skip func(*etree.Element) bool
}

var diskKind = kind{
	path: "disks", tag: "disk", prefix: "ua-disk-",
	id: func(e *etree.Element) string { return attr(child(e, "target"), "dev") },
	fallback: func(e *etree.Element, index int) string {
		return cmp.Or(attr(child(e, "target"), "dev"), "disk"+strconv.Itoa(index))
	},
}

var interfaceKind = kind{
	path: "interfaces", tag: "interface", prefix: "ua-net-",
	id:       func(e *etree.Element) string { return strings.ToLower(attr(child(e, "mac"), "address")) },
	fallback: func(_ *etree.Element, index int) string { return "net" + strconv.Itoa(index) },
}

// device is an element and its key.
type device struct {
	key     string
	element *etree.Element
}

// keyed returns the devices of a kind in document order with their keys. A key comes from what is recorded of the
// running device, else from our alias, else from the metadata, else from the target or the order. If two devices would
// have the same key, the better source takes precedence, then the earlier device. The other device's key gets a number.
func (d *Definition) keyed(k kind, names map[string]string) []device {
	elements := d.elements(k)
	ids := k.ids(elements)
	found := make([]device, len(elements))
	taken := map[string]bool{}
	running := d.runningKeys(k, elements, names)
	sources := []func(i int) string{
		func(i int) string { return running[elements[i]] },
		func(i int) string { return k.alias(elements[i]) },
		func(i int) string { return names[ids[elements[i]]] },
		func(i int) string { return k.fallback(elements[i], i) },
	}
	for _, source := range sources {
		for i, e := range elements {
			if key := source(i); found[i].element == nil && key != "" && !taken[key] {
				found[i] = device{key, e}
				taken[key] = true
			}
		}
	}
	for i, e := range elements {
		for n := 2; found[i].element == nil; n++ {
			if key := k.fallback(e, i) + "-" + strconv.Itoa(n); !taken[key] {
				found[i] = device{key, e}
				taken[key] = true
			}
		}
	}
	return found
}

// paths returns the attributes that declare the devices of a kind, by element.
func (d *Definition) paths(k kind) map[*etree.Element]string {
	paths := map[*etree.Element]string{}
	for _, have := range d.keyed(k, d.recordedNames()) {
		paths[have.element] = join(k.path, have.key)
	}
	return paths
}

// elements returns the devices of a kind in document order.
func (d *Definition) elements(k kind) []*etree.Element {
	elements := d.devices(k.tag)
	if k.skip != nil {
		elements = slices.DeleteFunc(elements, k.skip)
	}
	return elements
}

// ids returns what identifies devices in the metadata. If two interfaces have the same MAC, the id of the second one
// ends in "/2".
func (k kind) ids(elements []*etree.Element) map[*etree.Element]string {
	ids, count := make(map[*etree.Element]string, len(elements)), map[string]int{}
	for _, e := range elements {
		id := k.id(e)
		count[id]++
		if n := count[id]; n > 1 && id != "" {
			id += "/" + strconv.Itoa(n)
		}
		ids[e] = id
	}
	return ids
}

// DeviceKeys returns the keys of the disks by target, and the keys of the interfaces in document order: libvirt names
// them that way in statistics.
func (d *Definition) DeviceKeys() (disks map[string]string, interfaces []string) {
	names := d.recordedNames()
	disks = map[string]string{}
	for _, disk := range d.keyed(diskKind, names) {
		disks[attr(child(disk.element, "target"), "dev")] = disk.key
	}
	for _, nic := range d.keyed(interfaceKind, names) {
		interfaces = append(interfaces, nic.key)
	}
	return disks, interfaces
}

// alias returns the key in our alias, "" for a device without one.
func (k kind) alias(e *etree.Element) string {
	key, ours := strings.CutPrefix(attr(child(e, "alias"), "name"), k.prefix)
	if !ours {
		return ""
	}
	return key
}

// setAlias sets our alias. libvirt refuses a change of the alias of a running device.
func (k kind) setAlias(e *etree.Element, key string) {
	setAttr(ensure(e, "alias"), "name", k.prefix+key)
}

// pairDevices returns the device for each declared key: the device that the declaration identifies, else the device
// with that key, else an equal device whose key isn't declared. A key without a device is a new device.
func (t devices[V]) pairDevices(have, want map[string]V) map[string]string {
	pairs := t.pairIdentified(have, want)
	taken := inverse(pairs)
	var free []string
	for _, key := range sortedKeys(have) {
		_, declared := want[key]
		_, paired := pairs[key]
		switch _, is := taken[key]; {
		case is:
		case declared && !paired:
			pairs[key] = key
		default:
			free = append(free, key)
		}
	}
	for _, key := range sortedKeys(want) {
		if _, ok := pairs[key]; ok {
			continue
		}
		at := slices.IndexFunc(free, func(other string) bool { return t.same(have[other], want[key]) })
		if at >= 0 {
			pairs[key] = free[at]
			free = slices.Delete(free, at, at+1)
		}
	}
	return pairs
}

// pairIdentified pairs a declared key with a device that has another key, if the declaration identifies that device.
// The key of a device without a name is its position, which changes when a device before it is removed.
func (t devices[V]) pairIdentified(have, want map[string]V) map[string]string {
	pairs, taken := map[string]string{}, map[string]bool{}
	if t.identifies == nil {
		return pairs
	}
	is := func(other, key string) bool {
		device, there := have[other]
		declared, ok := want[key]
		return there && ok && t.identifies(declared) && t.same(device, declared)
	}
	others := sortedKeys(have)
	for _, key := range sortedKeys(want) {
		if is(key, key) {
			continue
		}
		for _, other := range others {
			if is(other, key) && !is(other, other) && !taken[other] {
				pairs[key], taken[other] = other, true
				break
			}
		}
	}
	return pairs
}

// sortedKeys returns the keys in alphabetical order, but net2 before net10.
func sortedKeys[V any](m map[string]V) []string {
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, func(a, b string) int {
		nameA, nameB := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
		return cmp.Or(cmp.Compare(nameA, nameB), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return keys
}

// inverse returns the map with keys and values swapped.
func inverse(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[value] = key
	}
	return out
}

// applyKeys gives the devices the keys under which they are declared. A device with our alias gets a new alias. The
// keys of other devices are recorded in the metadata: their aliases can't change while the VM runs, and both
// definitions must agree.
func (d *Definition) applyKeys(k kind, wanted map[*etree.Element]string) error {
	names := map[string]string{}
	present := map[string]bool{}
	ids := k.ids(d.elements(k))
	for e, key := range wanted {
		present[ids[e]] = true
		if k.alias(e) != "" && k.alias(e) != key {
			k.setAlias(e, key)
		}
	}
	old := d.Metadata()
	for id, key := range old.Devices {
		if present[id] || !k.ownsID(id) || strings.HasPrefix(id, runningPrefix) {
			names[id] = key
		}
	}
	for range len(wanted) + 1 {
		for _, have := range d.keyed(k, names) {
			key, id := wanted[have.element], ids[have.element]
			switch {
			case key == have.key:
			case id == "":
				k.setAlias(have.element, key) // It can't be in a running VM: libvirt gives each device its id.
			default:
				names[id] = key
			}
		}
	}
	if maps.Equal(names, old.Devices) {
		return nil
	}
	return d.setDeviceNames(names)
}

// ownsID reports whether an id is one of the kind: it tells a MAC from a target. Other kinds have no ids.
func (k kind) ownsID(id string) bool {
	switch k.tag {
	case interfaceKind.tag:
		return strings.Contains(id, ":")
	case diskKind.tag:
		return !strings.Contains(id, ":")
	default:
		return false
	}
}

// bootOrder reads a device's place in the boot order.
func bootOrder(e *etree.Element) *int {
	if n, ok := number(attr(child(e, "boot"), "order")); ok && n > 0 {
		return new(n)
	}
	return nil
}

// bootOrderDiffers reports whether the boot orders differ. No order and order 0 are the same.
func bootOrderDiffers(have, want *int) bool {
	return want != nil && pick(have, nil, 0) != *want
}

// setBootOrder sets a device's place in the boot order; 0 removes it.
func setBootOrder(e *etree.Element, want *int) {
	switch have := bootOrder(e); {
	case !bootOrderDiffers(have, want):
	case *want == 0:
		dropChildren(e, "boot")
	default:
		setAttr(ensure(e, "boot"), "order", strconv.Itoa(*want))
	}
}

// applyBootOrder removes what conflicts with declared boot orders: the older <os><boot dev>, and earlier orders of
// other devices in the same declared map.
func (d *Definition) applyBootOrder(want Spec) error {
	declared := map[int]string{}
	loose := map[*etree.Element]bool{}
	owner := map[*etree.Element]string{}
	note := func(k kind, key string, e *etree.Element, order *int) {
		path := k.path + "." + key
		if order == nil {
			loose[e] = true
		} else if *order > 0 {
			declared[*order] = path
			owner[e] = path
		}
	}
	names := d.recordedNames()
	for _, b := range blocks {
		if b.order == nil {
			continue
		}
		orders := b.order(want)
		for _, have := range d.keyed(*b.kind, names) {
			if order, ok := orders[have.key]; ok {
				note(*b.kind, have.key, have.element, order)
			}
		}
	}
	if len(declared) == 0 {
		return nil
	}
	for _, e := range d.devices() {
		order := bootOrder(e)
		if order == nil || declared[*order] == "" || declared[*order] == owner[e] {
			continue
		}
		if !loose[e] {
			return Problem{
				declared[*order] + ".boot_order",
				"Another device of the VM (" + e.Tag + ") has the boot order " + strconv.Itoa(*order) + " already.",
			}
		}
		dropChildren(e, "boot")
	}
	dropChildren(child(d.root(), "os"), "boot")
	return nil
}
