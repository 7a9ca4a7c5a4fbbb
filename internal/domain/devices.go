package domain

import (
	"cmp"
	"errors"
	"slices"

	"github.com/beevik/etree"
)

// devices is a kind of devices with keys, as disks and interfaces are: what differs between such kinds. Of a value V
// only these functions know what it is.
type devices[V any] struct {
	kind
	rules map[string]rule
	texts map[string]func(a, b string) bool
	// attributes are those that are plain data, and values is where a device has them.
	attributes rows
	values     func(*V) *Values
	// in is the kind's field of a Spec.
	in func(*Spec) *map[string]V

	// readOne reads a device.
	readOne func(*etree.Element) V
	// same says whether a device that is declared under another key is the one that is there.
	same func(have, want V) bool
	// identifies says that a declaration tells by itself which device it is, whatever its key; nil: none does.
	identifies func(want V) bool
	// twin says whether a live and a persistent device are one.
	twin func(live, persistent V) bool
	// patch changes what differs. gone are the ids of the devices that are just being removed.
	patch func(d *Definition, e *etree.Element, path string, want V, gone map[string]bool) error
	// create adds a device; those that are bootable get their names first if bootableFirst says so.
	create        func(d *Definition, key string, want V, gone map[string]bool) (*etree.Element, error)
	bootableFirst bool

	// removed and added return the rule for a device that goes or comes; compare classifies what differs in one.
	removed, added func(c *classifier, device V) string
	compare        func(c *classifier, key string, have, want V)
	// validate checks what is declared of all.
	validate func(c *checker, all map[string]V)
	// normal and complete are those of a block, for one device.
	normal, complete func(V) V
	// order is a device's place in the boot order.
	order func(V) *int

	// update changes the copy of a running VM's device to what can be changed while it runs.
	update func(p *stepper, e *etree.Element, key string, want V)
	// prepare notes what has to be there before a device is plugged in; nil: nothing.
	prepare func(p *stepper, path string, e *etree.Element)
}

// block is the kind as a block of a Spec.
func (t devices[V]) block() block {
	return block{
		rules: t.rules, texts: merged(t.texts, t.attributes.texts(t.path+".*")), kind: &t.kind,
		read:  func(d *Definition, s *Spec) { *t.in(s) = readDevices(d, t.kind, t.readOne) },
		apply: t.apply, classify: t.classify, begin: t.begin, step: t.step,
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
		align: func(live *Spec, persistent Spec) {
			*t.in(live) = rekey(*t.in(live), t.commonKeys(*t.in(live), *t.in(&persistent)))
			t.eachFacts(t.in(live), *t.in(&persistent), t.attributes.align)
		},
		complete: func(persistent *Spec, live Spec) {
			*t.in(persistent) = mapValues(*t.in(persistent), t.complete)
			t.eachFacts(t.in(persistent), *t.in(&live), t.attributes.complete)
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

// eachFacts gives the devices the values that follow from theirs and from those of the same devices elsewhere.
func (t devices[V]) eachFacts(
	all *map[string]V, others map[string]V, of func(values, other Values) Values,
) {
	for key, device := range *all {
		if other, ok := others[key]; ok {
			*t.values(&device) = of(*t.values(&device), *t.values(&other))
			(*all)[key] = device
		}
	}
}

// readDevices reads all devices of a kind, whatever they are.
func readDevices[V any](d *Definition, k kind, read func(*etree.Element) V) map[string]V {
	found := map[string]V{}
	for _, have := range d.keyed(k, d.Metadata().Devices) {
		found[have.key] = read(have.element)
	}
	return found
}

// apply makes the devices the declared ones; nil leaves them alone.
func (t devices[V]) apply(d *Definition, spec Spec) error {
	want := *t.in(&spec)
	if want == nil {
		return nil
	}
	have := d.keyed(t.kind, d.Metadata().Devices)
	pairs := t.pair(readDevices(d, t.kind, t.readOne), want)
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
	for _, key := range t.fresh(want, pairs) {
		e, err := t.create(d, key, want[key], gone)
		problems = append(problems, err)
		if err == nil {
			wanted[e] = key
		}
	}
	return errors.Join(append(problems, d.applyKeys(t.kind, wanted))...)
}

// fresh returns the keys of devices that aren't there, in the order in which they get their names.
func (t devices[V]) fresh(want map[string]V, pairs map[string]string) []string {
	keys := slices.DeleteFunc(sortedKeys(want), func(key string) bool { _, ok := pairs[key]; return ok })
	if !t.bootableFirst {
		return keys
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(pick(t.order(want[a]), nil, 1<<30), pick(t.order(want[b]), nil, 1<<30))
	})
	return keys
}

// classify classifies devices that go, stay and come, in this order: one that goes leaves its slot to one that comes.
func (t devices[V]) classify(c *classifier) {
	have, want := *t.in(&c.have), *t.in(&c.want)
	if want == nil {
		return
	}
	pairs := t.pair(have, want)
	stay := inverse(pairs)
	for _, key := range sortedKeys(have) {
		if _, ok := stay[key]; !ok {
			c.add(t.path+"."+key, t.removed(c, have[key]), key)
		}
	}
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

// commonKeys returns the persistent definition's keys of the live devices that are known by others there.
func (t devices[V]) commonKeys(live, persistent map[string]V) map[string]string {
	keys := map[string]string{}
	taken := map[string]bool{}
	match := func(key, other string) {
		candidate, ok := persistent[other]
		if ok && keys[key] == "" && !taken[other] && t.twin(live[key], candidate) {
			keys[key], taken[other] = other, true
		}
	}
	for _, key := range sortedKeys(live) {
		match(key, key) // Two interfaces may have one address.
	}
	for _, key := range sortedKeys(live) {
		for _, other := range sortedKeys(persistent) {
			match(key, other)
		}
	}
	return keys
}

// begin gives the running VM's devices the keys that the changes use.
func (t devices[V]) begin(p *stepper, after Spec) {
	have := t.in(&p.have)
	p.keys[t.path] = rekeyed(*have, t.commonKeys(*have, *t.in(&after)))
	*have = rekey(*have, p.keys[t.path])
}

// step makes the call for a device.
func (t devices[V]) step(p *stepper, c change) {
	keys, path := p.keys[t.path], t.path+"."+c.key
	switch c.step {
	case Detach:
		if e := find(p.live, t.kind, keys, c.key); e != nil {
			p.step(Step{Kind: Detach, Path: path, XML: render(e)})
		}
	case Update, ChangeMedium:
		old := t.pair(*t.in(&p.have), *t.in(&p.want))[c.key]
		if e := find(p.live, t.kind, keys, old); e != nil {
			e = e.Copy()
			want := (*t.in(&p.want))[c.key]
			t.update(p, e, c.key, want)
			updated := func(a Attribute) bool { return a.Live == Update }
			if t.attributes.patch(e, path, *t.values(&want), updated) == nil {
				p.step(Step{Kind: c.step, Path: path, XML: render(e)})
			}
		}
	case Attach:
		if e := find(p.persistent, t.kind, nil, c.key); e != nil {
			e = e.Copy()
			dropChildren(e, "address") // Those of the persistent definition may be taken in the running domain.
			if t.prepare != nil {
				t.prepare(p, path, e)
			}
			p.step(Step{Kind: Attach, Path: path, XML: render(e)})
		}
	case SetBlockIOTune:
		old := t.pair(*t.in(&p.have), *t.in(&p.want))[c.key]
		have, want := (*t.in(&p.have))[old], (*t.in(&p.want))[c.key]
		if e := find(p.live, t.kind, keys, old); e != nil {
			p.step(Step{Kind: c.step, Path: path, Target: t.id(e), Value: ioTuneLimits(*t.values(&have), *t.values(&want))})
		}
	default:
	}
}

// find returns the device with a key, where keys leads from the definition's own keys to those asked for.
func find(d *Definition, k kind, keys map[string]string, key string) *etree.Element {
	for _, have := range d.keyed(k, d.Metadata().Devices) {
		if name, ok := keys[have.key]; have.key == key && keys == nil || ok && name == key {
			return have.element
		}
	}
	return nil
}
