package domain

import (
	"fmt"
	"slices"
	"strings"
)

// Change is one difference between what a VM has and what is declared.
type Change struct {
	// Path is the attribute's path, as in disks.data.cache; a device that comes or goes is disks.data.
	Path string
	// Live says that a running VM takes the change at once. Otherwise it needs a restart, or a new VM if Replace is set.
	Live    bool
	Replace bool
	// Why is a sentence for the user: how it is done live, or why it can't be.
	Why string
}

// ListChanges says the changes to people, one in a line.
func ListChanges(changes []Change) string {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = fmt.Sprintf("  - %s: %s", c.Path, c.Why)
	}
	return strings.Join(lines, "\n")
}

// effect says what a change takes.
type effect int

const (
	restart effect = iota
	live
	replace
)

// rule is how one kind of change is made, and with which call when that is live. The rules of a block are by attribute
// path with * for keys; where it depends, there is one for each case.
type rule struct {
	effect effect
	step   StepKind
	why    string
}

// onlyRenamed is why a running VM takes another key of a device.
const onlyRenamed = "The device is there already; only its key changes."

// change is a Change with what LiveSteps needs to make it.
type change struct {
	Change
	step StepKind
	// key is that of the device.
	key   string
	block *block
}

// classifier collects changes. What they are is in the files of the blocks.
type classifier struct {
	have, want Spec
	found      []change
	// block is the one whose turn it is.
	block *block
	// slots are the PCI slots that are left; nil when there is no telling.
	slots *int
	// orders are the places in the boot order that devices have.
	orders []int
}

// add notes a change by the row of the table that it falls under.
func (c *classifier) add(path, row, key string) {
	r, ok := c.block.rules[row]
	if !ok {
		panic("no rule for " + row) // A test goes through all of them.
	}
	c.found = append(c.found, change{
		Change: Change{Path: path, Live: r.effect == live, Replace: r.effect == replace, Why: r.why},
		step:   r.step,
		key:    key,
		block:  c.block,
	})
}

// takeSlot says whether a PCI slot is left for one more device, and takes it.
func (c *classifier) takeSlot() bool {
	if c.slots == nil {
		return true
	}
	*c.slots--
	return *c.slots >= 0
}

// hasBus says whether the running VM has a controller that devices of that bus are plugged into.
func (c *classifier) hasBus(bus string) bool {
	return bus == "" || c.have.Buses == nil || slices.Contains(c.have.Buses, bus)
}

func (c *classifier) freeSlot() {
	if c.slots != nil {
		*c.slots++
	}
}

// bootOrderFits says whether a running VM takes a new device with that boot order: libvirt refuses orders next to the
// older <os><boot dev>, which is there when no device has one, and one order for two devices.
func (c *classifier) bootOrderFits(order *int) bool {
	if order == nil || *order == 0 {
		return true
	}
	return slices.Max(append(c.orders, 0)) > 0 && !slices.Contains(c.orders, *order)
}

// Changes classifies how have would become what want declares. For a running VM have is its live definition's spec.
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

// addRow notes a change of an attribute that says itself what becomes of it.
func (c *classifier) addRow(path string, a Attribute, have, want, key string) {
	found := change{Change: Change{Path: path, Live: a.Live != 0, Why: a.Why}, step: a.Live, key: key, block: c.block}
	if a.Cold != nil {
		if why := a.Cold(have, want); why != "" {
			found.Live, found.Why, found.step = false, why, 0
		}
	}
	c.found = append(c.found, found)
}
