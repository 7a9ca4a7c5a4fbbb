package domain

import (
	"errors"
	"maps"
)

// block is one part of a Spec, and all that this package knows of it. Reading, applying, comparing, classifying and
// validating are loops over blocks. A function that is nil says that there is nothing special about the block.
type block struct {
	// rules classify the block's changes, see rule.
	rules map[string]rule
	// texts tell which texts of the block say the same though they are written differently, by attribute path with *
	// for keys.
	texts map[string]func(a, b string) bool

	// read takes the block's facts from a definition.
	read func(*Definition, *Spec)
	// apply patches a definition so that it says what is declared.
	apply func(*Definition, Spec) error
	// classify notes what differs.
	classify func(*classifier)
	// validate checks what needs no host to check.
	validate func(Spec, *checker)
	// normal writes what means the same in the same way, as it is written to definitions and read from them.
	normal func(*Spec)

	// align gives a running VM's spec what its definition can't say, and the keys of the persistent one.
	align func(live *Spec, persistent Spec)
	// complete declares what a persistent definition says by leaving it out: the meaning of nil.
	complete func(persistent *Spec, live Spec)
	// observe gives merged definitions what only one of them knows.
	observe func(merged *Spec, live Spec)

	// begin prepares the steps for a running VM, given its persistent definition after the change.
	begin func(p *stepper, after Spec)
	// step makes the calls for a change that is live.
	step func(*stepper, change)

	// kind and order are for devices: order returns their places in the boot order by key.
	kind  *kind
	order func(Spec) map[string]*int
	// group is for attributes that are plain data, family for devices that are.
	group  *Group
	family *Family
}

// blocks is the one list of what a Spec consists of, in the order in which it is applied and its changes are told.
var blocks = append([]block{
	identityBlock, cpuBlock, memoryBlock, firmwareBlock, kernelBlock, ignitionBlock, disks.block(), interfaces.block(),
	agentBlock, consoleBlock, extraBlock,
}, append(familyBlocks(Families), groupBlocks(Groups)...)...)

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

// rules are those of all blocks: the one classification of changes. Changes tells a plan by them what will happen, and
// LiveSteps makes happen what they call live.
var rules = func() map[string]rule {
	all := map[string]rule{}
	for _, b := range blocks {
		if b.group == nil && b.family == nil { // Their rules stand with their attributes.
			maps.Copy(all, b.rules)
		}
	}
	return all
}()

// sameTexts are those of all blocks: plans, drift, applying and comparing definitions all ask here.
var sameTexts = func() map[string]func(a, b string) bool {
	all := map[string]func(a, b string) bool{}
	for _, b := range blocks {
		maps.Copy(all, b.texts)
	}
	return all
}()

// Spec reads back every modelled fact. It never fails: what can't be understood is reported as not there.
func (d *Definition) Spec() Spec {
	var s Spec
	for _, b := range blocks {
		b.read(d, &s)
	}
	return s
}

// Apply patches the definition so that it says what want declares, touching only what differs by meaning. A device that
// is declared under a new key but has the source of an undeclared one is that device, and is renamed. An error is a
// Problem, several joined, or ErrNewerMetadata, and leaves the definition as it was.
func (d *Definition) Apply(want Spec) error {
	want = want.normal()
	want.Disks = want.withMedium(d.readDisks())
	patched := d.Clone()
	var problems []error
	for _, b := range blocks {
		problems = append(problems, b.apply(patched, want))
	}
	if err := errors.Join(append(problems, patched.applyBootOrder(want), patched.checkCells(want),
		patched.checkMemorySlots())...); err != nil {
		return err
	}
	d.doc = patched.doc
	return nil
}

// Validate checks everything that needs no host to check.
func (s Spec) Validate() []Problem {
	c := &checker{orders: map[int]string{}}
	for _, b := range blocks {
		if b.validate != nil {
			b.validate(s, c)
		}
	}
	return c.problems
}

// normal writes what means the same in the same way, as it is written to definitions and read from them.
func (s Spec) normal() Spec {
	for _, b := range blocks {
		if b.normal != nil {
			b.normal(&s)
		}
	}
	return s
}

// alignLive makes a running VM's spec comparable with the persistent one's: devices take its keys, and what the live
// definition can't say is taken to be as it is there.
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
	c := &classifier{have: have, want: want.normal()}
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

// Pending lists how a running VM differs from its persistent definition: what a restart would change.
func Pending(live, persistent Spec) []Change {
	live = alignLive(live, persistent)
	for _, b := range blocks {
		if b.complete != nil {
			b.complete(&persistent, live)
		}
	}
	persistent.FreeSlots, live.FreeSlots = nil, nil
	persistent.Buses, live.Buses = nil, nil
	return Changes(live, persistent)
}
