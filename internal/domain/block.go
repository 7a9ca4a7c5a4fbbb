package domain

import (
	"errors"
	"maps"
	"slices"

	"github.com/beevik/etree"
)

// block is one part of a Spec, together with everything that this package knows about that part. Reading, applying,
// comparing, classifying and validating are loops over blocks. A nil function means that the block needs no special
// handling.
type block struct {
	// rules are the rules that classify the block's changes.
	rules map[string]rule
	// texts compare the block's texts that can have the same meaning in different forms, by attribute path with * for
	// keys.
	texts map[string]func(a, b string) bool

	// read reads the block's values from a definition.
	read func(*Definition, *Spec)
	// apply patches a definition so that it says what is declared.
	apply func(*Definition, Spec) error
	// classify adds the differences to the classifier.
	classify func(*classifier)
	// validate checks everything that can be checked without a host.
	validate func(Spec, *checker)
	// normal brings values with the same meaning into the one form in which they are written to definitions and read
	// from them.
	normal func(*Spec)

	// align copies to a running VM's spec what the live definition can't say, and the keys of the persistent
	// definition. alignKeys copies only the keys, and the networks that live interfaces don't name.
	align, alignKeys func(live *Spec, persistent Spec)
	// complete declares explicitly what a persistent definition says by omission: the meaning of nil.
	complete func(persistent *Spec, live Spec)
	// observe adds to merged definitions what only the live one knows.
	observe func(merged *Spec, live Spec)

	// prepareLive prepares the steps for a running VM. before is its persistent definition before the change.
	prepareLive func(p *stepper, before Spec)
	// step adds the calls for a live change.
	step func(*stepper, change)

	// kind, order, pairs, commonKeys, follow, has and without are set for devices. order returns the boot order of the
	// devices by key, and pairs the key in have for each key in want, nil if no devices are declared. commonKeys maps the
	// keys of live devices to their keys in the persistent definition, and follow is for FollowDefinition.
	kind       *kind
	order      func(Spec) map[string]*int
	pairs      func(have, want Spec) map[string]string
	commonKeys func(live, persistent Spec) map[string]string
	follow     func(live *Spec, definition, want Spec)
	// has reports whether a spec has the device with a key, and without declares all devices but that one.
	has     func(s Spec, key string) bool
	without func(s *Spec, key string)
	// bus returns the bus that a device needs a place on. It is set for blocks whose devices are in the definition.
	bus func(*etree.Element) bus
	// group is set for attributes that are plain data, and family for devices that are.
	group  *Group
	family *Family
}

// blocks is the one list of the parts of a Spec, in the order in which they are applied and their changes are listed.
var blocks = append([]block{
	identityBlock, cpuBlock, memoryBlock, firmwareBlock, kernelBlock, ignitionBlock, disks.block().on(busOfDisk),
	interfaces.block().on(func(*etree.Element) bus { return busPCI }), agentBlock, consoleBlock, extraBlock.on(busOfExtra),
}, append(familyBlocks(Families), groupBlocks(Groups)...)...)

// on returns the block of devices that need a place on a bus.
func (b block) on(bus func(*etree.Element) bus) block {
	b.bus = bus
	return b
}

// elements returns the devices of the block in a definition.
func (b block) elements(d *Definition) []*etree.Element {
	switch {
	case b.group != nil:
		return b.group.elements(d)
	case b.kind != nil && b.kind.path == ExtraDevices:
		return slices.Collect(maps.Values(d.extraElements()))
	case b.kind != nil:
		return d.elements(*b.kind)
	default:
		return nil
	}
}

func familyBlocks(families []Family) []block {
	all := make([]block, len(families))
	for i, f := range families {
		all[i] = f.block()
	}
	return all
}

func groupBlocks(groups []Group) []block {
	all := make([]block, len(groups))
	for i, g := range groups {
		all[i] = g.block()
	}
	return all
}

// rules are the rules of all blocks, the only classification of changes. Changes uses them to tell a plan what will
// happen, and LiveSteps uses them to make the changes that they call live.
var rules = func() map[string]rule {
	all := map[string]rule{}
	for _, b := range blocks {
		if b.group == nil && b.family == nil { // The rules of groups and families are built from their attributes.
			maps.Copy(all, b.rules)
		}
	}
	return all
}()

// sameTexts are the texts functions of all blocks. Plans, drift, applying and comparing definitions all use them.
var sameTexts = func() map[string]func(a, b string) bool {
	all := map[string]func(a, b string) bool{}
	for _, b := range blocks {
		maps.Copy(all, b.texts)
	}
	return all
}()

// Spec returns all modelled facts of the definition. It never fails: a fact that can't be understood is reported as not
// there.
func (d *Definition) Spec() Spec {
	var s Spec
	for _, b := range blocks {
		b.read(d, &s)
	}
	return s
}

// Apply patches the definition so that it says what want declares, and changes only what differs in meaning. If a
// declared key is new and its source is that of a device that isn't declared, Apply renames that device. The error is a
// Problem, several joined Problems, or ErrNewerMetadata. After an error the definition is unchanged.
func (d *Definition) Apply(want Spec) error {
	want = want.normal()
	want.Disks = want.withMedium(d.readDisks())
	patched := d.Clone()
	var problems []error
	for _, b := range blocks {
		problems = append(problems, b.apply(patched, want))
	}
	patched.followScreen(d, want.Values)
	if err := errors.Join(append(problems, patched.applyBootOrder(want), patched.checkCells(want),
		patched.checkMemorySlots(), patched.checkPages(want, d), patched.checkBeside(d, want.Values))...); err != nil {
		return err
	}
	d.doc = patched.doc
	return nil
}

// Validate checks everything that can be checked without a host. It returns one problem for each attribute: the first
// one says what to change, and the others often follow from it.
func (s Spec) Validate() []Problem {
	c := &checker{orders: map[int]string{}}
	for _, b := range blocks {
		if b.validate != nil {
			b.validate(s, c)
		}
	}
	said := map[string]bool{}
	return slices.DeleteFunc(c.problems, func(p Problem) bool {
		again := said[p.Path]
		said[p.Path] = true
		return again
	})
}

// normal returns the spec with values of the same meaning in the one form in which they are written to definitions and
// read from them.
func (s Spec) normal() Spec {
	for _, b := range blocks {
		if b.normal != nil {
			b.normal(&s)
		}
	}
	return s
}

// alignLive makes a running VM's spec comparable with the persistent one. Devices get the persistent spec's keys, and
// facts that the live definition can't express are copied from the persistent spec.
func alignLive(live, persistent Spec) Spec {
	for _, b := range blocks {
		if b.align != nil {
			b.align(&live, persistent)
		}
	}
	return live
}

func classify(have, want Spec) []change {
	have.Disks = have.withMedium(have.Disks)
	c := &classifier{have: have, want: want.normal(), conventional: have.ConventionalSlots}
	c.want.Disks = c.want.withMedium(have.Disks)
	if have.FreeSlots != nil {
		c.slots = new(*have.FreeSlots)
	}
	for i := range blocks {
		if blocks[i].order == nil {
			continue
		}
		for _, order := range blocks[i].order(have) {
			c.orders = append(c.orders, pick(order, nil, 0))
		}
	}
	for i := range blocks {
		c.block = &blocks[i]
		c.block.classify(c)
	}
	return c.found
}

// Pending returns the differences between a running VM and its persistent definition: what a restart would change.
func Pending(live, persistent Spec) []Change {
	live = alignLive(live, persistent)
	for _, b := range blocks {
		if b.complete != nil {
			b.complete(&persistent, live)
		}
	}
	persistent.FreeSlots, live.FreeSlots = nil, nil
	persistent.Buses, live.Buses = nil, nil
	persistent.ConventionalSlots, live.ConventionalSlots = 0, 0
	return Changes(live, persistent)
}
