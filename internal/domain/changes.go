package domain

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one difference between what a VM has and what is declared.
type Change struct {
	// Path is the attribute's path, as in disks.data.cache. For a device that is added or removed it is disks.data.
	Path string
	// Live says that a running VM takes the change at once. Otherwise the change needs a restart, or a new VM if
	// Replace is set.
	Live    bool
	Replace bool
	// Why is a sentence for the user. It says how the change is made live, or why it can't be.
	Why string
}

// ListChanges returns the changes as text for users, one on each line.
func ListChanges(changes []Change) string {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = fmt.Sprintf("  - %s: %s", c.Path, c.Why)
	}
	return strings.Join(lines, "\n")
}

// effect says what a change requires.
type effect int

const (
	restart effect = iota
	live
	replace
)

// rule says how one kind of change is made, and with which call if it is live. Each block has its rules by attribute
// path with * for keys. If the effect depends on the VM, there is one rule for each case.
type rule struct {
	effect effect
	step   StepKind
	why    string
}

// onlyRenamed says why a running VM accepts a new key for a device.
const onlyRenamed = "The device is there already; only its key changes."

// change is a Change together with what LiveSteps needs to make it.
type change struct {
	Change
	step StepKind
	// key is the device's key.
	key   string
	block *block
}

// classifier collects changes. The classify functions are in the files of the blocks.
type classifier struct {
	have, want Spec
	found      []change
	// block is the block that is being classified.
	block *block
	// pairs are the keys of the running devices by declared key, for the kind of devices that is being classified.
	pairs map[string]string
	// slots is the number of free PCI slots; nil if unknown.
	slots *int
	// conventional is the number of free slots on conventional PCI buses, see Spec.ConventionalSlots.
	conventional int
	// orders are the boot orders that devices have.
	orders []int
	// held says that the guest holds the device that is being classified, so that its slot isn't free.
	held bool
}

// add adds a change, classified by a row of the rule table.
func (c *classifier) add(path, row, key string) {
	r, ok := c.block.rules[row]
	if !ok {
		panic("no rule for " + row) // A test covers every row.
	}
	if r.step == Detach && c.holds(path) {
		r = rule{effect: restart, why: heldWhy}
	}
	c.found = append(c.found, change{
		Change: Change{Path: path, Live: r.effect == live, Replace: r.effect == replace, Why: r.why},
		step:   r.step,
		key:    key,
		block:  c.block,
	})
}

// takeSlot reports whether a PCI slot is free for one more device, and takes the slot.
func (c *classifier) takeSlot() bool {
	if c.slots == nil {
		return true
	}
	*c.slots--
	return *c.slots >= 0
}

// takeConventionalSlot is takeSlot for a device that can't use PCI Express.
func (c *classifier) takeConventionalSlot() bool {
	c.conventional--
	return c.conventional >= 0
}

// hasBus reports whether the running VM has a controller for devices of that bus.
func (c *classifier) hasBus(on bus) bool {
	return on == busNone || c.have.Buses == nil || slices.Contains(c.have.Buses, string(on))
}

func (c *classifier) freeSlot() {
	if c.slots != nil && !c.held {
		*c.slots++
	}
}

// bootOrderFits reports whether a new device with that boot order can be plugged into the running VM. libvirt refuses
// two devices with one order. It also refuses an order together with the older <os><boot dev>, which the VM has if no
// device has an order.
func (c *classifier) bootOrderFits(order *int) bool {
	if order == nil || *order == 0 {
		return true
	}
	return slices.Max(append(c.orders, 0)) > 0 && !slices.Contains(c.orders, *order)
}

// Changes classifies the changes that turn have into what want declares. For a running VM, have is the spec of its live
// definition.
func Changes(have, want Spec) []Change {
	return changesOf(classify(have, want))
}

func changesOf(found []change) []Change {
	var changes []Change
	for _, c := range found {
		changes = append(changes, c.Change)
	}
	return changes
}

// addRow adds a change of an attribute, whose effect is given by the attribute itself.
func (c *classifier) addRow(path string, a Attribute, have, want, key string) {
	found := change{Change: Change{Path: path, Live: a.Live != 0, Why: a.Why}, step: a.Live, key: key, block: c.block}
	if why := a.restartRequired(c.have, have, want); why != "" {
		found.Live, found.Why, found.step = false, why, 0
	}
	c.found = append(c.found, found)
}
