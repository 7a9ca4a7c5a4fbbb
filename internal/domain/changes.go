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

// rule is how one kind of change is made, and with which call when that is live.
type rule struct {
	effect effect
	step   StepKind
	why    string
}

// rules is the one classification of changes. Changes tells a plan by it what will happen, and LiveSteps makes happen
// what it calls live. Rows are attribute paths with * for keys; where it depends, one row for each case.
var rules = map[string]rule{
	"name":    {effect: restart, why: "libvirt renames a VM only while it is off."},
	"type":    {effect: restart, why: "The domain type is chosen when the VM starts."},
	"arch":    {effect: replace, why: "A VM of another architecture is another VM."},
	"machine": {effect: replace, why: "Another machine type has other buses: the VM's devices have no place in it."},
	"machine version": {
		effect: restart, why: "A running VM keeps the version of its machine type.",
	},

	"cpu.count more": {
		effect: live, step: SetVcpus, why: "Virtual CPUs are plugged into the running VM.",
	},
	"cpu.count above the maximum": {
		effect: restart,
		why:    "The running VM has no sockets left; cpu.max_sockets can reserve some when it starts.",
	},
	"cpu.count fewer":      {effect: restart, why: "A guest can't be relied on to give up virtual CPUs while it runs."},
	"cpu.count fixed":      {effect: restart, why: "This architecture can't take virtual CPUs while it runs."},
	"cpu.count regrouped":  {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.cores":            {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.threads":          {effect: restart, why: "The topology of the virtual CPUs is fixed when the VM starts."},
	"cpu.max_sockets":      {effect: restart, why: "Sockets are reserved when the VM starts."},
	"cpu.mode":             {effect: restart, why: "A guest keeps the CPU that it started with."},
	"cpu.model":            {effect: restart, why: "A guest keeps the CPU that it started with."},
	"memory.size balloon":  {effect: live, step: SetMemory, why: "The balloon of the running VM is set."},
	"memory.size plugged":  {effect: live, step: Attach, why: "Memory is plugged into the running VM."},
	"memory.size unfit":    {effect: restart, why: "A running VM takes more memory in steps of 128Mi only."},
	"memory.size fixed":    {effect: restart, why: "The VM has no balloon, by which a running VM gives and takes memory."},
	"memory.size too much": {effect: restart, why: "The running VM can't grow that far; memory.max_size can reserve it."},
	"memory.max_size":      {effect: restart, why: "Room for more memory is reserved when the VM starts."},
	"firmware.type": {
		effect: restart, why: "The firmware is loaded when the VM starts, and begins with variables of its own.",
	},
	"firmware.secure_boot": {
		effect: restart, why: "The firmware is loaded when the VM starts, and begins with variables of its own.",
	},
	"kernel": {effect: restart, why: "The kernel is loaded when the VM starts."},

	"disks.* added":   {effect: live, step: Attach, why: "The disk is plugged into the running VM."},
	"disks.* removed": {effect: live, step: Detach, why: "The disk is unplugged from the running VM."},
	"disks.* renamed": {effect: live, why: "The disk is there already; only its key changes."},
	"disks.* medium":  {effect: live, step: Update, why: "The medium is changed in the running VM."},
	"disks.* drive": {
		effect: restart, why: "Drives can't be plugged into or out of a running VM; their media can.",
	},
	"disks.* cold bus": {
		effect: restart, why: "The bus takes no disks from a running VM and gives it none; virtio, scsi and usb do.",
	},
	"disks.* no slot": {effect: restart, why: "The running VM has no free PCI slot for another disk."},
	"disks.* boot order": {
		effect: restart, why: "A running VM takes a new disk into its boot order only when nothing is in its way.",
	},
	"disks.*.source":     {effect: restart, why: "Exchanging the disk under a running guest would corrupt its data."},
	"disks.*.device":     {effect: restart, why: "A device of another kind can't take the place of one in use."},
	"disks.*.bus":        {effect: restart, why: "A running guest can't do without the disk while it changes places."},
	"disks.*.format":     {effect: restart, why: "The disk is opened in its format when the VM starts."},
	"disks.*.cache":      {effect: restart, why: "The disk is opened with its cache mode when the VM starts."},
	"disks.*.serial":     {effect: restart, why: "The guest reads the serial number when it finds the disk."},
	"disks.*.read_only":  {effect: restart, why: "The guest learns that a disk is read-only when it finds it."},
	"disks.*.boot_order": {effect: restart, why: "The boot order is read when the VM starts."},

	"interfaces.* added":   {effect: live, step: Attach, why: "The interface is plugged into the running VM."},
	"interfaces.* removed": {effect: live, step: Detach, why: "The interface is unplugged from the running VM."},
	"interfaces.* renamed": {effect: live, why: "The interface is there already; only its key changes."},
	"interfaces.* no slot": {effect: restart, why: "The running VM has no free PCI slot for another interface."},
	"interfaces.* boot order": {
		effect: restart, why: "A running VM takes a new interface into its boot order only when nothing is in its way.",
	},
	"interfaces.*.connection": {
		effect: live, step: Update, why: "The interface of the running VM is connected to the other network.",
	},
	"interfaces.*.connection kind": {
		effect: restart, why: "Only between networks and bridges can an interface move while the VM runs.",
	},
	"interfaces.*.link_up":    {effect: live, step: Update, why: "The link of the running VM is set."},
	"interfaces.*.model":      {effect: restart, why: "A device of another kind can't take the place of one in use."},
	"interfaces.*.mac":        {effect: restart, why: "A running guest keeps the address of its interface."},
	"interfaces.*.boot_order": {effect: restart, why: "The boot order is read when the VM starts."},

	"guest_agent":    {effect: restart, why: "The channel of the guest agent is there from the start of the VM."},
	"serial_console": {effect: restart, why: "The serial port is there from the start of the VM."},
}

// change is a Change with what LiveSteps needs to make it.
type change struct {
	Change
	step StepKind
	// key is that of the device.
	key string
}

// classifier collects changes. Its methods are in the files of the blocks.
type classifier struct {
	have, want Spec
	found      []change
	// slots are the PCI slots that are left; nil when there is no telling.
	slots *int
}

func classify(have, want Spec) []change {
	c := &classifier{have: have, want: want}
	if have.FreeSlots != nil {
		c.slots = new(*have.FreeSlots)
	}
	c.identity()
	c.cpu()
	c.memory()
	c.os()
	c.disks()
	c.interfaces()
	c.characters()
	return c.found
}

// add notes a change by the row of the table that it falls under.
func (c *classifier) add(path, row, key string) {
	r, ok := rules[row]
	if !ok {
		panic("no rule for " + row) // A test goes through all of them.
	}
	c.found = append(c.found, change{
		Change: Change{Path: path, Live: r.effect == live, Replace: r.effect == replace, Why: r.why},
		step:   r.step,
		key:    key,
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

func (c *classifier) freeSlot() {
	if c.slots != nil {
		*c.slots++
	}
}

// bootOrderFits says whether a running VM takes a new device with that boot order: libvirt refuses orders beside the
// older <os><boot dev>, which is there when no device has one, and one order for two devices.
func (c *classifier) bootOrderFits(order *int) bool {
	if order == nil || *order == 0 {
		return true
	}
	var orders []int
	for _, disk := range c.have.Disks {
		orders = append(orders, pick(disk.BootOrder, nil, 0))
	}
	for _, nic := range c.have.Interfaces {
		orders = append(orders, pick(nic.BootOrder, nil, 0))
	}
	return slices.Max(append(orders, 0)) > 0 && !slices.Contains(orders, *order)
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

// Pending lists how a running VM differs from its persistent definition: what a restart would change.
func Pending(live, persistent Spec) []Change {
	live = alignLive(live, persistent)
	persistent.Name, persistent.FreeSlots = "", nil // A running VM can't be renamed, by anybody.
	live.FreeSlots = nil
	if persistent.Kernel == nil {
		persistent.Kernel = &Kernel{}
	}
	if persistent.Memory.MaxSize == nil {
		persistent.Memory.MaxSize = new(uint64(0))
	}
	none := new(0)
	persistent.Disks = mapValues(persistent.Disks, func(d Disk) Disk {
		if d.BootOrder == nil {
			d.BootOrder = none
		}
		if d.Cache == "" {
			d.Cache = "default"
		}
		return d
	})
	persistent.Interfaces = mapValues(persistent.Interfaces, func(i Interface) Interface {
		if i.BootOrder == nil {
			i.BootOrder = none
		}
		return i
	})
	return Changes(live, persistent)
}

// identity classifies name, type, arch and machine.
func (c *classifier) identity() {
	have, want := c.have, c.want
	if want.Name != "" && want.Name != have.Name {
		c.add("name", "name", "")
	}
	if want.Type != "" && want.Type != have.Type {
		c.add("type", "type", "")
	}
	if want.Arch != "" && have.Arch != "" && want.Arch != have.Arch {
		c.add("arch", "arch", "")
	}
	if !SameMachine(have.Machine, want.Machine) {
		row := "machine"
		if machineFamily(have.Machine) == machineFamily(want.Machine) {
			row = "machine version"
		}
		c.add("machine", row, "")
	}
}

// os classifies firmware and kernel.
func (c *classifier) os() {
	have, want := c.have, c.want
	if differs(have.Firmware.Type, want.Firmware.Type) {
		c.add("firmware.type", "firmware.type", "")
	}
	if differs(have.Firmware.SecureBoot, want.Firmware.SecureBoot) {
		c.add("firmware.secure_boot", "firmware.secure_boot", "")
	}
	if want.Kernel != nil && *want.Kernel != pick(have.Kernel, nil, Kernel{}) {
		c.add("kernel", "kernel", "")
	}
}

// characters classifies the character devices.
func (c *classifier) characters() {
	if differs(c.have.GuestAgent, c.want.GuestAgent) {
		c.add("guest_agent", "guest_agent", "")
	}
	if differs(c.have.SerialConsole, c.want.SerialConsole) {
		c.add("serial_console", "serial_console", "")
	}
}
