package domain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// Group is a set of attributes that share an element of the definition: of a device of which a VM has at most one, or
// of the domain itself. Family is for devices with keys.
type Group struct {
	// Path is the attribute that holds the group: "devices.tpm"; "" for attributes of the VM itself. Block says that
	// Path is a block with code of its own, which also has other attributes.
	Path  string
	Block bool
	// Device is the tag of the device that the attributes describe, of which the first is the model. If it is "", the
	// attributes are those of the domain itself.
	Device string
	// Attributes are in the order in which they are applied.
	Attributes []Attribute
	// Added and Removed describe how the device is added and removed. Bus is the bus that it needs a place on.
	Added, Removed Transition
	Bus            bus
	// RestartRequired reports whether a device with these values can't be added to or removed from the running VM, and
	// RestartWhy says why; if RestartRequired is nil, it can be.
	RestartRequired func(device Values, vm Spec) bool
	RestartWhy      string
	// Explicit says that libvirt adds the device to a VM whose definition has none. A device with the model none
	// prevents that.
	Explicit bool
	// Skip reports whether an element with that tag is not the group's device; if it is nil, all are.
	Skip func(*etree.Element) bool
	// Check returns the attribute and the problem if the values don't fit together; if it is nil, every combination is
	// valid.
	Check combination
	// After is the path of the device that comes before this one in the same list, and is of another model: without it,
	// this device would be that one. "" means that there is none.
	After string
	// begin adds what a new device's element has in addition to its attributes.
	begin func(*etree.Element)
	// Beside returns the attribute and the problem if the values don't fit to those of other groups; if it is nil, they
	// fit to all.
	Beside func(all Values) (attribute, problem string)
	// Doc describes the group to users.
	Doc string
}

// Transition describes how a device is added or removed.
type Transition struct {
	Live bool
	Why  string
}

// Groups are all groups of attributes.
var Groups = slices.Concat(withPaths(
	descriptionGroup, eventsGroup, cpuGroup, memoryGroup, firmwareGroup, iothreadsGroup, clockGroup, hypervGroup,
	featuresGroup, smbiosGroup, fwCfgGroup, resourcesGroup, seclabelGroup, launchSecurityGroup, hotplugGroup,
	commandlineGroup,
), deviceGroups)

// deviceGroups are the groups of devices that a VM has at most one of.
var deviceGroups = withPaths(
	tpmGroup, rngGroup, watchdogGroup, graphicsGroup, secondGraphicsGroup, eglGroup, videoGroup, soundGroup, audioGroup,
	panicGroup, vsockGroup, iommuGroup, smartcardGroup,
)

// withPaths stores the path of each attribute once, because every operation on a VM's values needs all of them.
func withPaths(groups ...Group) []Group {
	for i, g := range groups {
		groups[i].Attributes = slices.Clone(g.Attributes)
		for j, a := range g.Attributes {
			groups[i].Attributes[j].path = join(g.Path, a.Name)
		}
	}
	return groups
}

// At returns the path of an attribute.
func (g Group) At(a Attribute) string {
	if a.path != "" {
		return a.path
	}
	return join(g.Path, a.Name)
}

// model returns the path of the attribute that says whether the VM has the device.
func (g Group) model() string { return g.At(g.Attributes[0]) }

// Has reports whether the values include a device.
func (g Group) Has(values Values) bool {
	return g.any(func(fact string) bool { return values[fact] != "" }) && values[g.model()] != None
}

// groupAt returns the group of devices with that path.
func groupAt(path string) Group {
	return deviceGroups[slices.IndexFunc(deviceGroups, func(g Group) bool { return g.Path == path })]
}

// isDeclared reports whether the values declare anything about the group, which must be one of Groups: only those know
// the paths of their attributes.
func (g Group) isDeclared(values Values) bool {
	return g.any(func(fact string) bool { _, ok := values[fact]; return ok })
}

// any reports whether holds returns true for the fact of at least one of the group's attributes.
func (g Group) any(holds func(fact string) bool) bool {
	for i := range g.Attributes {
		if holds(g.Attributes[i].fact()) {
			return true
		}
	}
	return false
}

// block returns the group as a block of a Spec.
func (g Group) block() block {
	b := block{
		group: &g, rules: g.rules(), texts: g.texts(),
		read: g.read, apply: g.apply, classify: g.classify, validate: g.validate, complete: g.complete, step: g.step,
		normal: func(s *Spec) { s.Values = g.rows().normal(s.Values) },
		align:  func(live *Spec, persistent Spec) { g.align(live, persistent.Values) },
	}
	if g.Device != "" {
		b.bus = func(*etree.Element) bus { return g.Bus }
	}
	return b
}

// align aligns a running VM's spec. Values that its guest changes become those that it was started with.
func (g Group) align(live *Spec, persistent Values) {
	if len(live.Started) > 0 {
		persistent = withRecorded(g.rows(), "", persistent, live.Values, live.Started)
	}
	live.Values = g.rows().align(live.Values, persistent)
}

// rows returns the group's attributes.
func (g Group) rows() rows { return g.Attributes }

// rules returns the rules for adding and removing the device.
func (g Group) rules() map[string]rule {
	all := map[string]rule{}
	for name, t := range map[string]struct {
		Transition
		step StepKind
	}{" added": {g.Added, Attach}, " removed": {g.Removed, Detach}} {
		r := rule{why: t.Why}
		if t.Live {
			r.effect, r.step = live, t.step
		}
		all[g.Path+name] = r
	}
	if g.RestartRequired != nil {
		all[g.Path+" cold"] = rule{why: g.RestartWhy}
	}
	if g.Bus == busConventional {
		all[g.Path+" conventional"] = rule{why: noConventionalSlot}
	}
	all[g.Path+" no slot"] = rule{why: "The running VM has no free PCI slot for it."}
	return all
}

func (g Group) texts() map[string]func(a, b string) bool { return g.rows().texts(g.Path) }

// element returns the element that the group's places are relative to, and nil if there is none.
func (g Group) element(d *Definition) *etree.Element {
	if g.Device == "" {
		return d.root()
	}
	if found := g.elements(d); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (g Group) elements(d *Definition) []*etree.Element {
	found := d.devices(g.Device)
	if g.Skip != nil {
		found = slices.DeleteFunc(found, g.Skip)
	}
	return found
}

func (g Group) read(d *Definition, s *Spec) {
	if s.Values == nil {
		s.Values = Values{}
	}
	if e := g.element(d); !g.absent(e) {
		g.rows().read(e, s.Values)
	}
}

// absent reports whether an element says that the VM doesn't have the device.
func (g Group) absent(e *etree.Element) bool {
	return e != nil && g.Explicit && textAt(e, g.Attributes[0].Place) == None
}

// remove removes the device.
func (g Group) remove(d *Definition) {
	for _, e := range g.elements(d) {
		drop(e)
	}
	if g.Explicit {
		e := g.newElement()
		setTextAt(e, g.Attributes[0].Place, None)
		d.addDevice(e)
	}
}

// newElement returns a new device without attributes.
func (g Group) newElement() *etree.Element {
	e := element(g.Device)
	if g.begin != nil {
		g.begin(e)
	}
	return e
}

// apply patches the group's places.
func (g Group) apply(d *Definition, want Spec) error {
	if !g.isDeclared(want.Values) {
		return nil
	}
	var have Spec
	g.read(d, &have)
	e, declared, isNew := g.element(d), want.Values, false
	if g.Device != "" {
		switch there, wanted := e != nil && !g.absent(e), want.Values[g.model()] != None; {
		case !wanted && (there || e == nil && g.Explicit):
			g.remove(d)
			return nil
		case !wanted:
			return nil
		case !there && g.After != "" && groupAt(g.After).element(d) == nil:
			return Problem{g.Path, "It needs " + g.After + ", which this VM doesn't have."}
		case !there:
			drop(e)
			e, isNew = g.newElement(), true
			d.addDevice(e)
			want.Values = g.withDefaults(want.Values, attr(child(d.root(), "os", "type"), "arch"))
		}
	}
	changed := map[string]bool{}
	for _, a := range g.Attributes {
		path := g.At(a)
		value, declared := want.Values[path]
		if a.Follows != "" && changed[a.Follows] && !declared {
			value, declared = "", true
		}
		if !declared || value == Any || value == have.Values[path] {
			continue
		}
		changed[a.Name] = true
		if err := a.put(e, path, value); err != nil {
			return err
		}
	}
	if len(changed) == 0 || g.Check == nil {
		return nil
	}
	now := Values{}
	g.rows().read(e, now)
	if isNew {
		have.Values = nil
	}
	return g.Check.patched(g.Path, g.byName(have.Values), g.byName(now), g.byName(declared))
}

// withDefaults adds the defaults to what is declared of a new device.
func (g Group) withDefaults(declared Values, arch string) Values {
	all := maps.Clone(declared)
	if all[g.model()] == Any {
		delete(all, g.model())
	}
	for _, a := range g.Attributes {
		followed := a.Follows == "" || !slices.ContainsFunc(g.Attributes, func(b Attribute) bool {
			return b.Name == a.Follows && b.Default != "" && all[g.At(b)] != b.Default
		})
		if value := cmp.Or(a.Defaults[arch], a.Default); all[g.At(a)] == "" && value != "" && followed {
			all[g.At(a)] = value
		}
	}
	return all
}

// classify classifies what differs.
func (g Group) classify(c *classifier) {
	have, want := c.have.Values, c.want.Values
	if !g.isDeclared(want) {
		return
	}
	if g.Device != "" {
		there, wanted := g.Has(have), want[g.model()] != None
		switch {
		case there != wanted:
			c.held = c.holds(g.Path)
			c.add(g.Path, g.transition(c, wanted), "")
			c.held = false
			return
		case !there:
			return
		}
	}
	g.rows().classify(c, g.Path, "", have, want)
}

// transition returns the rule for a device that is added or removed.
func (g Group) transition(c *classifier, comes bool) string {
	device := c.have.Values
	if comes {
		device = g.withDefaults(c.want.Values, c.have.Arch)
	}
	switch {
	case g.RestartRequired != nil && g.RestartRequired(device, c.have):
		return g.Path + " cold"
	case g.Bus == busConventional && expressFamily(c.have.Machine):
		if comes && !c.takeConventionalSlot() {
			return g.Path + " conventional"
		}
	case comes && g.Bus.isPCI() && !c.takeSlot():
		return g.Path + " no slot"
	case g.Bus.isPCI() && !comes:
		c.freeSlot()
	}
	if comes {
		return g.Path + " added"
	}
	return g.Path + " removed"
}

// complete declares as absent what only the live definition has.
func (g Group) complete(persistent *Spec, live Spec) {
	if g.Device == "" || g.Has(persistent.Values) {
		persistent.Values = g.rows().complete(persistent.Values, live.Values)
		return
	}
	if !g.Has(live.Values) {
		return
	}
	said := maps.Clone(persistent.Values)
	if said == nil {
		said = Values{}
	}
	said[g.model()] = None
	persistent.Values = said
}

// step adds the call for a change of a running VM.
func (g Group) step(p *stepper, c change) {
	switch c.step {
	case Detach:
		if e := g.element(p.live); e != nil {
			p.step(Step{Kind: Detach, Path: c.Path, XML: render(e)})
		}
	case Attach:
		if e := g.element(p.persistent); e != nil {
			e = e.Copy()
			dropChildren(e, "address") // The address may be taken in the running domain.
			p.step(Step{Kind: Attach, Path: c.Path, XML: render(e)})
		}
	case Update:
		if e := g.element(p.live); e != nil {
			e = e.Copy()
			if g.patchUpdated(e, p.want.Values) == nil {
				p.step(Step{Kind: Update, Path: g.Path, XML: render(e)})
			}
		}
	default:
		_, a, _ := GroupAttribute(c.Path)
		s := Step{Kind: c.step, Path: c.Path, Value: cmp.Or(p.want.Values[c.Path], a.Reset), Was: p.have.Values[c.Path]}
		if a.Threads != nil {
			s.Value = FormatNumbers(a.Threads(g.element(p.persistent)))
			s.Was = FormatNumbers(a.Threads(g.element(p.live)))
		}
		p.step(s)
	}
}

// patchUpdated declares in the element of the running VM the values that an update of the device brings there.
func (g Group) patchUpdated(e *etree.Element, want Values) error {
	for _, a := range g.Attributes {
		if value, declared := want[g.At(a)]; declared && a.Live == Update && a.read(e) != value {
			if err := a.put(e, g.At(a), value); err != nil {
				return err
			}
		}
	}
	return nil
}
