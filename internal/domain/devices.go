package domain

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// devices describes a kind of devices with keys, such as disks and interfaces: everything that differs between the
// kinds. Only these functions know what a value V is.
type devices[V any] struct {
	kind
	rules map[string]rule
	texts map[string]func(a, b string) bool
	// attributes are the attributes that are plain data, and values is the field of a device that has them.
	attributes rows
	values     func(*V) *Values
	// in returns the kind's field of a Spec.
	in func(*Spec) *map[string]V

	// readOne reads a device.
	readOne func(*etree.Element) V
	// same reports whether a device that is declared under another key is the existing one.
	same func(have, want V) bool
	// identifies reports whether a declaration identifies its device, whatever its key; if it is nil, no declaration
	// does.
	identifies func(want V) bool
	// sameInLive reports whether a live and a persistent device are the same device.
	sameInLive func(live, persistent V) bool
	// complement adds to a live device what only the same device of the persistent definition says, or Spec.Started; nil:
	// nothing.
	complement func(live, persistent V, started Values) V
	// runPath is the path under which Spec.Started has what a device was started with; nil: it has nothing of the kind.
	runPath func(device V) string
	// refer gives a device the new keys of the devices that it names; nil: it names none.
	refer func(device V, keys map[string]string) V
	// patch changes what differs. gone are the ids of the devices that are being removed.
	patch func(d *Definition, e *etree.Element, path string, want V, gone map[string]bool) error
	// create adds a device. If bootableFirst is set, bootable devices get their names first.
	create        func(d *Definition, key string, want V, gone map[string]bool) (*etree.Element, error)
	bootableFirst bool

	// removed and added return the rule for a device that is removed or added. compare classifies the differences of
	// one device.
	removed, added func(c *classifier, device V) string
	compare        func(c *classifier, key string, have, want V)
	// validate checks the declarations of all devices.
	validate func(c *checker, all map[string]V)
	// normal and complete do for one device what those of a block do for a Spec.
	normal, complete func(V) V
	// order returns a device's place in the boot order.
	order func(V) *int

	// update applies to the copy of a running VM's device what can be changed while it runs.
	update func(p *stepper, e *etree.Element, key string, want V)
	// first returns what a running VM's device is updated to before it is updated to after; nil for nothing.
	first func(before, after *etree.Element) *etree.Element
	// supplier returns the name of the network that supplies what an updated device lacks, see Step.Network. own is the
	// device in the persistent definition. Nil: there is none.
	supplier func(before, e, own *etree.Element) string
	// prepare changes a device before it is plugged in, or adds the steps that it needs before; if it is nil, there is
	// nothing to prepare.
	prepare func(p *stepper, path string, e *etree.Element)
}

// block returns the kind as a block of a Spec.
func (t devices[V]) block() block {
	return block{
		rules: t.rules, texts: merged(t.texts, t.attributes.texts(t.path+".*")), kind: &t.kind,
		read:  func(d *Definition, s *Spec) { *t.in(s) = t.readAll(d) },
		apply: t.apply, classify: t.classify, prepareLive: t.prepareLive, step: t.step,
		validate: func(s Spec, c *checker) {
			all := *t.in(&s)
			for _, key := range sortedKeys(all) {
				c.bootOrder(t.path+"."+key, t.order(all[key]))
			}
			t.validate(c, all)
		},
		normal: func(s *Spec) {
			*t.in(s) = mapValues(*t.in(s), func(device V) V {
				device = t.normal(device)
				*t.values(&device) = t.attributes.normal(*t.values(&device))
				return device
			})
		},
		alignKeys: t.alignKeys,
		pairs: func(have, want Spec) map[string]string {
			if *t.in(&want) == nil {
				return nil
			}
			return t.pairDevices(*t.in(&have), *t.in(&want))
		},
		commonKeys: func(live, persistent Spec) map[string]string {
			return t.commonKeys(*t.in(&live), *t.in(&persistent))
		},
		has: func(s Spec, key string) bool { return hasKey(*t.in(&s), key) },
		without: func(s *Spec, key string) {
			*t.in(s) = maps.Clone(*t.in(s))
			delete(*t.in(s), key)
		},
		follow: func(live *Spec, definition, want Spec) {
			*t.in(live) = t.rekey(*t.in(live), t.wantedKeys(*live, definition, want))
			t.dropEchoes(live, definition, want)
		},
		align: func(live *Spec, persistent Spec) {
			t.alignKeys(live, persistent)
			t.eachFacts(t.in(live), *t.in(&persistent), func(device, other V) Values {
				return t.attributes.align(*t.values(&device), t.startedWith(other, device, live.Started))
			})
		},
		complete: func(persistent *Spec, live Spec) {
			*t.in(persistent) = mapValues(*t.in(persistent), t.complete)
			t.eachFacts(t.in(persistent), *t.in(&live), func(device, other V) Values {
				return t.attributes.complete(*t.values(&device), *t.values(&other))
			})
		},
		order: func(s Spec) map[string]*int {
			orders := map[string]*int{}
			for key, device := range *t.in(&s) {
				orders[key] = t.order(device)
			}
			return orders
		},
	}
}

// eachFacts sets the values of each device, computed from it and the same device in the other spec.
func (t devices[V]) eachFacts(all *map[string]V, others map[string]V, of func(device, other V) Values) {
	for key, device := range *all {
		if other, ok := others[key]; ok {
			*t.values(&device) = of(device, other)
			(*all)[key] = device
		}
	}
}

// readDevices reads all devices of a kind, including those that can't be declared.
func readDevices[V any](d *Definition, k kind, read func(*etree.Element) V) map[string]V {
	found := map[string]V{}
	for _, have := range d.keyed(k, d.recordedNames()) {
		found[have.key] = read(have.element)
	}
	return found
}

// apply makes the devices match the declared ones; nil leaves them alone.
func (t devices[V]) apply(d *Definition, spec Spec) error {
	want := *t.in(&spec)
	if want == nil {
		return nil
	}
	have := d.keyed(t.kind, d.recordedNames())
	pairs := t.pairDevices(t.readAll(d), want)
	keys := inverse(pairs)
	wanted := map[*etree.Element]string{}
	var problems []error
	gone := map[string]bool{}
	for _, device := range have {
		key, stays := keys[device.key]
		if !stays {
			gone[t.id(device.element)] = true
			drop(device.element)
			continue
		}
		wanted[device.element] = key
	}
	for _, device := range have {
		if key, stays := keys[device.key]; stays {
			problems = append(problems, t.patch(d, device.element, t.path+"."+key, want[key], gone))
		}
	}
	for _, key := range t.newKeys(want, pairs, d.empty) {
		e, err := t.create(d, key, want[key], gone)
		problems = append(problems, err)
		if err == nil {
			wanted[e] = key
		}
	}
	return errors.Join(append(problems, d.applyKeys(t.kind, wanted))...)
}

// newKeys returns the keys of new devices, in the order in which they get their names. Disks in empty come after the
// others: a VM without a boot order boots from its first disk. The drive of the first-boot medium is the last, so that
// the disks have the names that they would have without it.
func (t devices[V]) newKeys(want map[string]V, pairs map[string]string, empty []string) []string {
	keys := slices.DeleteFunc(sortedKeys(want), func(key string) bool { _, ok := pairs[key]; return ok })
	if !t.bootableFirst {
		return keys
	}
	place := func(key string) int {
		switch {
		case key == MediumKey:
			return 1<<30 + 2
		case slices.Contains(empty, key):
			return pick(t.order(want[key]), nil, 1<<30+1)
		default:
			return pick(t.order(want[key]), nil, 1<<30)
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return keys
}

// classify classifies devices that are removed, kept and added, in this order: a removed device frees its slot for an
// added one.
func (t devices[V]) classify(c *classifier) {
	have, want := *t.in(&c.have), *t.in(&c.want)
	if want == nil {
		return
	}
	pairs := t.pairDevices(have, want)
	c.pairs = pairs
	stay := inverse(pairs)
	have = t.referring(have, stay)
	for _, key := range sortedKeys(have) {
		if _, ok := stay[key]; !ok {
			c.held = c.holds(t.path + "." + key)
			c.add(t.path+"."+key, t.removed(c, have[key]), key)
		}
	}
	c.held = false
	for _, key := range sortedKeys(want) {
		if old, ok := pairs[key]; ok {
			if old != key {
				c.add(t.path+"."+key, t.path+".* renamed", key)
			}
			t.compare(c, key, have[old], want[key])
			is, declared := have[old], want[key]
			t.attributes.classify(c, t.path+"."+key, key, *t.values(&is), *t.values(&declared))
		}
	}
	for _, key := range sortedKeys(want) {
		if _, ok := pairs[key]; !ok {
			c.add(t.path+"."+key, t.added(c, want[key]), key)
		}
	}
}

// commonKeys maps the keys of live devices to their keys in the persistent definition, where the two differ.
func (t devices[V]) commonKeys(live, persistent map[string]V) map[string]string {
	keys := map[string]string{}
	taken := map[string]bool{}
	match := func(key, other string) {
		candidate, ok := persistent[other]
		if ok && keys[key] == "" && !taken[other] && t.sameInLive(live[key], candidate) {
			keys[key], taken[other] = other, true
		}
	}
	all, others := sortedKeys(live), sortedKeys(persistent)
	for _, key := range all {
		match(key, key) // Two interfaces may have the same MAC.
	}
	for _, key := range all {
		for _, other := range others {
			match(key, other)
		}
	}
	return keys
}

// alignKeys gives live devices the keys that they have in the persistent definition, and what they don't say.
func (t devices[V]) alignKeys(live *Spec, persistent Spec) {
	t.adopt(live, persistent, t.commonKeys(*t.in(live), *t.in(&persistent)))
}

// adopt gives live devices new keys, and complements them.
func (t devices[V]) adopt(live *Spec, persistent Spec, keys map[string]string) {
	*t.in(live) = t.rekey(*t.in(live), keys)
	for key, device := range *t.in(live) {
		if other, ok := (*t.in(&persistent))[key]; ok && t.complement != nil && t.sameInLive(device, other) {
			(*t.in(live))[key] = t.complement(device, other, live.Started)
		}
	}
}

// wantedKeys maps the keys of a definition's devices that also run to the keys under which they are declared. A device
// that already runs under the declared key keeps it, if the other one is no longer that device since a staged change.
func (t devices[V]) wantedKeys(live, definition, want Spec) map[string]string {
	keys := map[string]string{}
	declared := *t.in(&want)
	if declared == nil {
		return keys
	}
	running := *t.in(&live)
	for key, old := range t.pairDevices(*t.in(&definition), declared) {
		device, runs := running[old]
		other, taken := running[key]
		settled := taken && t.same(other, declared[key]) && !t.same(device, declared[key])
		if runs && !settled {
			keys[old] = key
		}
	}
	return keys
}

// prepareLive maps the keys of the running VM's devices to the keys that the changes use.
func (t devices[V]) prepareLive(p *stepper, before Spec) {
	have := t.in(&p.have)
	own := rekeyed(*have, t.commonKeys(*have, *t.in(&before)))
	t.adopt(&p.have, before, own)
	wanted := rekeyed(*have, t.wantedKeys(p.have, before, p.want))
	*have = t.rekey(*have, wanted)
	p.keys[t.path] = map[string]string{}
	for key, name := range own {
		p.keys[t.path][key] = wanted[name]
	}
}

// step adds the call for a device.
func (t devices[V]) step(p *stepper, c change) {
	keys, path := p.keys[t.path], t.path+"."+c.key
	switch c.step {
	case Detach:
		if e := find(p.live, t.kind, keys, c.key); e != nil {
			p.step(Step{Kind: Detach, Path: path, XML: render(e)})
		}
	case Update, ChangeMedium:
		old := t.pairDevices(*t.in(&p.have), *t.in(&p.want))[c.key]
		if before := find(p.live, t.kind, keys, old); before != nil {
			e := before.Copy()
			want := (*t.in(&p.want))[c.key]
			t.update(p, e, c.key, want)
			updated := func(a Attribute) bool { return a.Live == Update }
			if t.attributes.patch(e, path, *t.values(&want), updated) == nil {
				network := ""
				if t.supplier != nil {
					network = t.supplier(before, e, find(p.persistent, t.kind, nil, c.key))
				}
				if t.first != nil {
					if first := t.first(before, e); first != nil {
						p.step(Step{Kind: c.step, Path: path, XML: render(first), Network: network})
					}
				}
				p.step(Step{Kind: c.step, Path: path, XML: render(e), Network: network})
			}
		}
	case Attach:
		if e := find(p.persistent, t.kind, nil, c.key); e != nil {
			e = e.Copy()
			dropChildren(e, "address") // The address may be taken in the running domain.
			if t.keepsAlias(p, c.key) {
				dropChildren(e, "alias") // libvirt chooses one. The next start has ours.
			}
			if t.prepare != nil {
				t.prepare(p, path, e)
			}
			p.step(Step{Kind: Attach, Path: path, XML: render(e)})
		}
	case SetBlockIOTune:
		old := t.pairDevices(*t.in(&p.have), *t.in(&p.want))[c.key]
		have, want := (*t.in(&p.have))[old], (*t.in(&p.want))[c.key]
		if e := find(p.live, t.kind, keys, old); e != nil {
			p.step(Step{Kind: c.step, Path: path, Target: t.id(e), Value: ioTuneLimits(*t.values(&have), *t.values(&want))})
		}
	default:
	}
}

// keepsAlias reports whether a running device that isn't unplugged still has the alias of that key: its key has changed
// since it was plugged in.
func (t devices[V]) keepsAlias(p *stepper, key string) bool {
	for _, device := range p.live.keyed(t.kind, p.live.recordedNames()) {
		now := p.keys[t.path][device.key]
		_, stays := inverse(t.pairDevices(*t.in(&p.have), *t.in(&p.want)))[now]
		if now != key && stays && t.alias(device.element) == key {
			return true
		}
	}
	return false
}

// find returns the device with a key. keys maps the definition's own keys to the requested ones.
func find(d *Definition, k kind, keys map[string]string, key string) *etree.Element {
	for _, have := range d.keyed(k, d.recordedNames()) {
		if name, ok := keys[have.key]; have.key == key && keys == nil || ok && name == key {
			return have.element
		}
	}
	return nil
}

func hasKey[V any](m map[string]V, key string) bool {
	_, there := m[key]
	return there
}
