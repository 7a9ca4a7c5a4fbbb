package domain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// Facts are what a VM's groups of attributes say, by attribute path. Declared: a path that is missing is not declared,
// and "" declares that nothing is there. Read back: what is missing isn't there.
type Facts map[string]string

// None is the model of a device that isn't there, as libvirt has it for balloons and USB controllers.
const None = "none"

// Any is the model of a device that is declared to be there, whatever it is like.
const Any = "any"

// Auto is what libvirt chooses when the VM starts.
const Auto = "auto"

// AttributeKind is how the value of an attribute is written.
type AttributeKind int

// The kinds of attributes. In Facts all are the text that the definition has.
const (
	// Text is any text.
	Text AttributeKind = iota
	// Count is a number from 0.
	Count
	// Switch is yes or no, which On and Off say in the definition's words.
	Switch
	// Flag is an element that is there or isn't: "yes", or "" for no.
	Flag
	// Amount is an amount of memory, in bytes.
	Amount
	// Numbers are numbers, each of an element: "1,2". Place is the element and its attribute: "vlan/tag@id".
	Numbers
	// Words are texts in their order: see ParseWords. They are in more than one place.
	Words
	// Texts are texts by name, each of an element: see ParseTexts. Place is the element and its two attributes:
	// "cputune/vcpupin@vcpu@cpuset".
	Texts
	// Table are rows by key, each of an element: see ParseTable. Place is the element and its key: "cpu/numa/cell@id".
	Table
)

// Attribute is a fact that is one place in the definition and has one effect, as plain data: the definition's reading
// and patching, the schema and the plan all follow from it.
type Attribute struct {
	// Name is the attribute's name in its group; one with dots is nested.
	Name string
	// Place is where the fact is, below the group's element: "@model", "backend@type", "clock/timer[name=rtc]@track", or
	// "backend" for a text.
	Place string
	Kind  AttributeKind
	// Columns are what each row of a Table says, below its element. A row is complete: what isn't declared isn't there.
	Columns []Attribute
	// Key says what is wrong with the key of a row; nil: it is a number. Ignore says that an element is no row.
	Key    func(key string) string
	Ignore func(*etree.Element) bool
	// Values are those that can be declared; nil: any. Kept are those that VMs from elsewhere may have, too.
	Values, Kept []string
	// On and Off are the words of a Switch; "": yes and no.
	On, Off string
	// Unset is the value that declares that nothing is there; "": there is none but "". Zero says that it is 0.
	Unset string
	Zero  bool
	// Reset is what a running VM is told where nothing is declared any more; it means the same as nothing.
	Reset string
	// Normal writes what means the same in the same way; nil: there is one way only.
	Normal func(value string) string
	// Read and Write are for what is more than one place. "" is nothing.
	Read  func(e *etree.Element) string
	Write func(e *etree.Element, value string) error
	// Default is the value of a new device that declares none; Defaults are others, by architecture.
	Default  string
	Defaults map[string]string
	// DefaultDoc says what the default is where Default doesn't: one that differs between VMs, or is libvirt's own.
	DefaultDoc string
	// Filled says that libvirt chooses a value where none is declared. What isn't filled stays null.
	Filled bool
	// Follows is the attribute that gives this one its meaning: another value there makes this one void.
	Follows string
	// Live is the call that changes a running VM; none: it needs a restart. Why says so to the user.
	Live StepKind
	Why  string
	// Cold says why a running VM can't take a change, though it takes others; nil or "": it takes it.
	Cold func(have, want string) string
	// Met says that a running VM has what is declared, though its definition says it in other words.
	Met func(have Spec, want string) bool
	// Echo says that libvirt may put a value of its own into the definition of a running VM.
	Echo bool
	// Capability is where libvirt's domain capabilities list what a host has: "tpm/model". Listed is its name there,
	// where that isn't the value itself.
	Capability, Listed string
	// Needs says in words what a host needs for a value: the package that has it.
	Needs map[string]string
	// Recorded says that the definition doesn't say it, but what we record of the VM.
	Recorded bool
	// Since is the version of libvirt that has the attribute: "7.0.0".
	Since string
	// Check says what is wrong with a value; nil or "": nothing.
	Check func(value string) string
	// Doc describes the attribute to users.
	Doc string

	// path is the whole path of a group's attribute; "" for attributes of devices with keys.
	path string
}

// fact is what the attribute's value is known by in Facts: those of a VM have whole paths, those of a device names.
func (a Attribute) fact() string { return cmp.Or(a.path, a.Name) }

// Group is attributes that share an element of the definition.
type Group struct {
	// Path is the attribute that holds them: "devices.tpm"; "" for attributes of the VM itself. Block says that it is a
	// block with code of its own, which has other attributes too.
	Path  string
	Block bool
	// Device is the tag of the device that they describe; its first attribute is the model. "": the domain itself.
	Device string
	// Attributes are in the order in which they are applied.
	Attributes []Attribute
	// Added and Removed say how the device comes and goes. PCI says that it needs a slot.
	Added, Removed Transition
	PCI            bool
	// Cold says why a running VM can't be given the device or deprived of it; nil or "": it can.
	Cold func(have Spec) string
	// Explicit says that libvirt adds the device to a VM without one, unless one of the model none is there.
	Explicit bool
	// Skip says that an element of that tag isn't the device that is meant; nil: all are.
	Skip func(*etree.Element) bool
	// Check says what doesn't fit together, as a problem of an attribute; nil: everything fits.
	Check func(value func(attribute string) string) (attribute, problem string)
	// Doc describes the group to users.
	Doc string
}

// Transition is how a device comes or goes.
type Transition struct {
	Live bool
	Why  string
}

// Groups are all groups of attributes.
var Groups = slices.Concat(withPaths(
	descriptionGroup, eventsGroup, cpuGroup, memoryGroup, firmwareGroup, iothreadsGroup, clockGroup, hypervGroup,
	featuresGroup, smbiosGroup, fwCfgGroup, resourcesGroup, seclabelGroup, launchSecurityGroup, hotplugGroup, commandlineGroup,
), deviceGroups)

// deviceGroups are devices of which a VM has one.
var deviceGroups = withPaths(
	tpmGroup, rngGroup, watchdogGroup, graphicsGroup, videoGroup, soundGroup, panicGroup, vsockGroup, iommuGroup,
	smartcardGroup,
)

// withPaths notes the attributes' paths once: whatever happens to a VM's facts asks for all of them.
func withPaths(groups ...Group) []Group {
	for i, g := range groups {
		groups[i].Attributes = slices.Clone(g.Attributes)
		for j, a := range g.Attributes {
			groups[i].Attributes[j].path = join(g.Path, a.Name)
		}
	}
	return groups
}

// At is the path of an attribute.
func (g Group) At(a Attribute) string {
	if a.path != "" {
		return a.path
	}
	return join(g.Path, a.Name)
}

// model is the path of the attribute that says whether the device is there.
func (g Group) model() string { return g.At(g.Attributes[0]) }

// Has says whether a device is among the facts.
func (g Group) Has(facts Facts) bool {
	return g.any(func(fact string) bool { return facts[fact] != "" }) && facts[g.model()] != None
}

// says tells whether the facts declare anything about the group.
func (g Group) says(facts Facts) bool {
	return g.any(func(fact string) bool { _, ok := facts[fact]; return ok })
}

// any tells whether something holds for the fact of one of the group's attributes.
func (g Group) any(holds func(fact string) bool) bool {
	for i := range g.Attributes {
		if holds(g.Attributes[i].fact()) {
			return true
		}
	}
	return false
}

// block is the group as a block of a Spec.
func (g Group) block() block {
	return block{
		group: &g, rules: g.rules(), texts: g.texts(),
		read: g.read, apply: g.apply, classify: g.classify, validate: g.validate, complete: g.complete, step: g.step,
		normal: func(s *Spec) { s.Facts = g.rows().normal(s.Facts) },
		align:  func(live *Spec, persistent Spec) { live.Facts = g.rows().align(live.Facts, persistent.Facts) },
	}
}

// rows are the group's attributes.
func (g Group) rows() rows { return g.Attributes }

// rules are those for a device that comes or goes.
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
	if g.Cold != nil {
		all[g.Path+" cold"] = rule{why: g.Cold(Spec{})}
	}
	all[g.Path+" no slot"] = rule{why: "The running VM has no free PCI slot for another device."}
	return all
}

func (g Group) texts() map[string]func(a, b string) bool { return g.rows().texts(g.Path) }

// element is what the group's places are below, nil when there is none.
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
	if s.Facts == nil {
		s.Facts = Facts{}
	}
	if e := g.element(d); !g.absent(e) {
		g.rows().read(e, s.Facts)
	}
}

// absent says that an element stands for a device that isn't there.
func (g Group) absent(e *etree.Element) bool {
	return e != nil && g.Explicit && at(e, g.Attributes[0].Place) == None
}

// remove takes the device away.
func (g Group) remove(d *Definition) {
	for _, e := range g.elements(d) {
		drop(e)
	}
	if g.Explicit {
		e := element(g.Device)
		put(e, g.Attributes[0].Place, None)
		d.addDevice(e)
	}
}

// apply patches the group's places.
func (g Group) apply(d *Definition, want Spec) error {
	if !g.says(want.Facts) {
		return nil
	}
	var have Spec
	g.read(d, &have)
	e := g.element(d)
	if g.Device != "" {
		switch there, wanted := e != nil && !g.absent(e), want.Facts[g.model()] != None; {
		case !wanted && (there || e == nil && g.Explicit):
			g.remove(d)
			return nil
		case !wanted:
			return nil
		case !there:
			drop(e)
			e = element(g.Device)
			d.addDevice(e)
			want.Facts = g.withDefaults(want.Facts, attr(child(d.root(), "os", "type"), "arch"))
		}
	}
	changed := map[string]bool{}
	for _, a := range g.Attributes {
		path := g.At(a)
		value, declared := want.Facts[path]
		if a.Follows != "" && changed[a.Follows] && !declared {
			value, declared = "", true
		}
		if !declared || value == Any || value == have.Facts[path] {
			continue
		}
		changed[a.Name] = true
		if err := a.put(e, path, value); err != nil {
			return err
		}
	}
	return nil
}

// withDefaults completes what is declared of a new device.
func (g Group) withDefaults(declared Facts, arch string) Facts {
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
	have, want := c.have.Facts, c.want.Facts
	if !g.says(want) {
		return
	}
	if g.Device != "" {
		there, wanted := g.Has(have), want[g.model()] != None
		switch {
		case there != wanted:
			c.add(g.Path, g.transition(c, wanted), "")
			return
		case !there:
			return
		}
	}
	g.rows().classify(c, g.Path, "", have, want)
}

// transition is the rule for a device that comes or goes.
func (g Group) transition(c *classifier, comes bool) string {
	switch {
	case g.Cold != nil && g.Cold(c.have) != "":
		return g.Path + " cold"
	case comes && g.PCI && !c.takeSlot():
		return g.Path + " no slot"
	case comes:
		return g.Path + " added"
	case g.PCI:
		c.freeSlot()
	}
	return g.Path + " removed"
}

// complete declares that nothing is there where the persistent definition has nothing.
func (g Group) complete(persistent *Spec, live Spec) {
	said := maps.Clone(persistent.Facts)
	if said == nil {
		said = Facts{}
	}
	if g.Device != "" && !g.Has(said) {
		if g.Has(live.Facts) {
			said[g.model()] = None
		}
	} else {
		said = g.rows().complete(said, live.Facts)
	}
	persistent.Facts = said
}

// step makes the call for a change of a running VM.
func (g Group) step(p *stepper, c change) {
	switch c.step {
	case Detach:
		if e := g.element(p.live); e != nil {
			p.step(Step{Kind: Detach, Path: c.Path, XML: render(e)})
		}
	case Attach:
		if e := g.element(p.persistent); e != nil {
			e = e.Copy()
			dropChildren(e, "address") // Those of the persistent definition may be taken in the running domain.
			p.step(Step{Kind: Attach, Path: c.Path, XML: render(e)})
		}
	default:
		_, a, _ := GroupAttribute(c.Path)
		p.step(Step{Kind: c.step, Path: c.Path, Value: cmp.Or(p.want.Facts[c.Path], a.Reset)})
	}
}
