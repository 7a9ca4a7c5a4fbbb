package domain

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// Row holds the attributes of one device of a family, by name. As in Values, "" declares that the device doesn't have
// the attribute.
type Row map[string]string

// Family is a kind of devices that rows describe. A VM may have several devices of a family, each with a key; Group is
// for a device of which it has at most one. A declared map lists all of them.
type Family struct {
	// Path is the attribute that holds the devices: "devices.inputs". Tag is their element.
	Path, Tag string
	// Attributes are in the order in which they are applied.
	Attributes []Attribute
	// Added and Removed describe how a device is added and removed.
	Added, Removed Transition
	// Bus is the bus that every device of the family needs a place on. For families whose devices use different buses,
	// BusOf returns the bus of a device with these values, which is one of Buses or busNone.
	Bus   bus
	Buses []bus
	BusOf func(Row) bus
	// Skip reports whether an element with that tag is not a device of the family; if it is nil, all are.
	Skip func(*etree.Element) bool
	// RestartRequired says why a device can't be plugged into a running VM; if it is nil or returns "", it can be.
	RestartRequired func(have, want Spec) string
	// Fixed reports whether a device with these values can only be added or removed when the VM starts, although others
	// of the family are plugged, and FixedWhy says why; if Fixed is nil, none is.
	Fixed    func(Row) bool
	FixedWhy string
	// begin adds what a new device's element has in addition to its attributes.
	begin func(*etree.Element)
	// prepare changes a device before it is plugged into a running VM; if it is nil, the device is what the definition
	// has.
	prepare func(p *stepper, path string, e *etree.Element)
	// around changes the devices in a definition through change, and updates what depends on them elsewhere; if it is
	// nil, nothing does.
	around func(d *Definition, change func() error) error
	// recall adds to the devices that were read what the VM's metadata records of them; if it is nil, nothing is
	// recorded.
	recall func(m Metadata, all map[string]Row)
	// Check returns the attribute and the problem if the values don't fit together; if it is nil, every combination is
	// valid.
	Check combination
	// fits checks the devices against the rest of the spec; if it is nil, they always fit.
	fits func(Spec, *checker)
	// Doc describes the family to users.
	Doc string

	in func(*Spec) *map[string]Row
}

// Families are all families.
var Families = []Family{
	inputFamily, serialFamily, consoleFamily, channelFamily, filesystemFamily, hostDeviceFamily,
	redirdevFamily, virtioMemFamily, nvdimmFamily,
}

// Of returns the family's devices in a spec, and nil if they aren't declared.
func (f Family) Of(s Spec) map[string]Row { return *f.in(&s) }

// Declare sets the family's devices in a spec.
func (f Family) Declare(s *Spec, all map[string]Row) { *f.in(s) = all }

// bus returns the bus of a device with these values.
func (f Family) bus(row Row) bus {
	if f.BusOf != nil {
		return f.BusOf(row)
	}
	return f.Bus
}

// At returns the path of an attribute, with * for the key.
func (f Family) At(a Attribute) string { return f.Path + ".*." + a.Name }

// kind returns the kind of the family's devices.
func (f Family) kind() kind {
	name := strings.TrimSuffix(strings.TrimPrefix(f.Path, "devices."), "s")
	return kind{
		path: f.Path, tag: f.Tag, prefix: "ua-" + strings.ReplaceAll(name, "_", "-") + "-", skip: f.Skip,
		id:       func(*etree.Element) string { return "" },
		fallback: func(_ *etree.Element, index int) string { return f.Tag + strconv.Itoa(index) },
	}
}

// defined returns the attributes that the definition has, without those that are only recorded.
func (f Family) defined() iter.Seq[Attribute] {
	return func(yield func(Attribute) bool) {
		for _, a := range f.Attributes {
			if !a.Recorded && !yield(a) {
				return
			}
		}
	}
}

func (f Family) block() block {
	t := devices[Row]{
		kind: f.kind(), rules: f.rules(), attributes: slices.Collect(f.defined()), in: f.in, readOne: f.read,
		same: f.same, sameInLive: f.sameInLive,
		values: func(row *Row) *Values { return (*Values)(row) }, texts: map[string]func(a, b string) bool{},
		patch: f.patch, create: f.create, validate: f.validate,
		removed: f.removed, added: f.added,
		compare:  func(*classifier, string, Row, Row) {},
		update:   func(*stepper, *etree.Element, string, Row) {}, // Attributes cover everything.
		normal:   func(row Row) Row { return row },
		complete: func(row Row) Row { return row },
		order:    func(Row) *int { return nil },
		prepare:  f.prepare,
	}
	b := t.block()
	b.family, b.order = &f, nil
	b.bus = func(e *etree.Element) bus { return f.bus(f.read(e)) }
	if read := b.read; f.recall != nil {
		b.read = func(d *Definition, s *Spec) {
			if read(d, s); len(*f.in(s)) > 0 {
				f.recall(d.Metadata(), *f.in(s))
			}
		}
	}
	each := b.validate
	b.validate = func(s Spec, c *checker) {
		if each(s, c); f.fits != nil {
			f.fits(s, c)
		}
	}
	if change := b.apply; f.around != nil {
		b.apply = func(d *Definition, want Spec) error {
			if *f.in(&want) == nil {
				return nil // Undeclared devices are left alone.
			}
			return f.around(d, func() error { return change(d, want) })
		}
	}
	return b
}

func (f Family) rules() map[string]rule {
	all := map[string]rule{
		f.Path + ".* renamed": {effect: live, why: onlyRenamed},
	}
	plugged := func(on bus) bool { return f.Added.Live && (f.Bus == on || slices.Contains(f.Buses, on)) }
	if plugged(busPCI) || plugged(busConventional) {
		all[f.Path+".* no slot"] = rule{why: "The running VM has no free PCI slot for it."}
	}
	if plugged(busUSB) || plugged(busSerial) {
		all[f.Path+".* no bus"] = rule{why: "The running VM has no controller for it."}
	}
	if plugged(busConventional) {
		all[f.Path+".* conventional"] = rule{why: noConventionalSlot}
	}
	for name, t := range map[string]Transition{" added": f.Added, " removed": f.Removed} {
		r := rule{why: t.Why}
		if t.Live {
			r.effect, r.step = live, map[string]StepKind{" added": Attach, " removed": Detach}[name]
		}
		all[f.Path+".*"+name] = r
	}
	if f.Fixed != nil {
		all[f.Path+".* fixed"] = rule{why: f.FixedWhy}
	}
	if f.RestartRequired != nil {
		all[f.Path+".* cold"] = rule{why: f.RestartRequired(Spec{}, Spec{})}
	}
	return all
}

func (f Family) read(e *etree.Element) Row {
	row := Row{}
	for a := range f.defined() {
		if value := a.read(e); value != "" {
			row[a.Name] = value
		}
	}
	return row
}

// same reports whether a device declared under another key is the existing one: it is if everything that is declared
// matches.
func (f Family) same(have, want Row) bool {
	declared := false
	for a := range f.defined() {
		value, ok := want[a.Name]
		if ok && have[a.Name] != value {
			return false
		}
		declared = declared || ok
	}
	return declared
}

// sameInLive reports whether a live and a persistent device are the same device. The live device may say more, and lack
// what it is still to be updated with.
func (f Family) sameInLive(live, persistent Row) bool {
	persistent = maps.Clone(persistent)
	for a := range f.defined() {
		if a.Live == Update {
			delete(persistent, a.Name)
		}
	}
	return f.same(live, persistent)
}

func (f Family) patch(_ *Definition, e *etree.Element, path string, want Row, _ map[string]bool) error {
	have, changed := f.read(e), map[string]bool{}
	for a := range f.defined() {
		value, declared := want[a.Name]
		if !declared && !changed[a.Follows] || a.read(e) == value { // A new type may have removed what was there.
			continue
		}
		changed[a.Name] = true
		if err := a.put(e, join(path, a.Name), value); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return f.Check.patched(path, Values(have), Values(f.read(e)), Values(want))
}

func (f Family) create(d *Definition, key string, want Row, _ map[string]bool) (*etree.Element, error) {
	e := element(f.Tag)
	if f.begin != nil {
		f.begin(e)
	}
	all := maps.Clone(want)
	for a := range f.defined() {
		if all[a.Name] == "" && a.Default != "" {
			all[a.Name] = a.Default
		}
	}
	if err := f.patch(d, e, join(f.Path, key), all, nil); err != nil {
		return nil, err
	}
	f.kind().setAlias(e, key)
	d.addDevice(e)
	return e, nil
}

// added returns the rule for a device that is added.
func (f Family) added(c *classifier, row Row) string {
	on := busNone
	if f.Added.Live {
		on = f.bus(row)
	}
	switch {
	case f.RestartRequired != nil && f.RestartRequired(c.have, c.want) != "":
		return f.Path + ".* cold"
	case f.Fixed != nil && f.Fixed(row):
		return f.Path + ".* fixed"
	case on == busConventional && expressFamily(c.have.Machine):
		if !c.takeConventionalSlot() {
			return f.Path + ".* conventional"
		}
	case on.isPCI():
		if !c.takeSlot() {
			return f.Path + ".* no slot"
		}
	case !c.hasBus(on):
		return f.Path + ".* no bus"
	}
	return f.Path + ".* added"
}

// removed returns the rule for a device that is removed.
func (f Family) removed(c *classifier, row Row) string {
	if f.Fixed != nil && f.Fixed(row) {
		return f.Path + ".* fixed"
	}
	if f.Removed.Live && f.bus(row) == busPCI {
		c.freeSlot()
	}
	return f.Path + ".* removed"
}

func (f Family) validate(c *checker, all map[string]Row) {
	for _, key := range sortedKeys(all) {
		path, row := join(f.Path, key), all[key]
		c.require(keyPattern.MatchString(key), path, `Keys consist of letters, digits, "-" and "_".`)
		for _, a := range f.Attributes {
			a.validate(c, join(path, a.Name), row[a.Name], func(string, string) bool { return false })
		}
		if f.Check != nil {
			said := rows(f.Attributes).normal(Values(row)) // White space declares nothing.
			attribute, problem := f.Check(func(name string) string { return said[name] })
			c.require(problem == "", join(path, attribute), problem)
		}
	}
}

// deviceOf splits the path of an attribute of a device with a key. It returns the path of the device's kind and the
// key.
func deviceOf(path string) (kind, key string, ok bool) {
	for _, b := range blocks {
		if b.kind == nil {
			continue
		}
		if rest, below := strings.CutPrefix(path, b.kind.path+"."); below {
			key, _, _ = strings.Cut(rest, ".")
			return b.kind.path, key, true
		}
	}
	return "", "", false
}
