package domain

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// identityBlock is the VM's name, domain type, architecture and machine type.
var identityBlock = block{
	rules: identityRules,
	texts: map[string]func(a, b string) bool{"machine_type": SameMachineType},
	read:  (*Definition).readIdentity, apply: (*Definition).applyIdentity, classify: classifyIdentity,
	validate: validateIdentity,
	complete: func(persistent *Spec, _ Spec) { persistent.Name = "" }, // libvirt can't rename a running VM.
	observe: func(merged *Spec, live Spec) {
		merged.FreeSlots, merged.Buses = live.FreeSlots, live.Buses
		merged.ConventionalSlots, merged.BusyIOThread = live.ConventionalSlots, live.BusyIOThread
		merged.BuiltInWatchdog = live.BuiltInWatchdog
	},
}

var identityRules = map[string]rule{
	"name": {effect: restart, why: "libvirt renames a VM only while it is off."},
	"type": {effect: restart, why: "The domain type is chosen when the VM starts."},
	"arch": {effect: replace, why: "The architecture of a VM can't change."},
	"machine_type": {
		effect: replace, why: "Another kind, such as pc instead of q35, has other buses: " +
			"the VM's devices have no place in it.",
	},
	"machine_type version": {
		effect: restart, why: "A running VM keeps the version of its machine type.",
	},
}

func (d *Definition) readIdentity(s *Spec) {
	osType := child(d.root(), "os", "type")
	s.Name, s.UUID, s.Type = d.Name(), d.UUID(), attr(d.root(), "type")
	s.Arch, s.Machine = attr(osType, "arch"), attr(osType, "machine")
	s.FreeSlots, s.ConventionalSlots, s.Buses = d.freeSlots(), d.conventionalSlots(), d.buses()
	s.BusyIOThread, s.FixedVirtualPorts = d.busyIOThread(), d.fixedVirtualPorts
	s.BuiltInWatchdog, s.Started, s.Held = d.builtInWatchdog(), d.startedWith(), d.heldDevices()
}

// applyIdentity sets name, domain type and machine type. It returns an error for changes that a VM can't make in place.
func (d *Definition) applyIdentity(want Spec) error {
	var have Spec
	d.readIdentity(&have)
	var problems []error
	if want.UUID != "" && have.UUID != "" && !strings.EqualFold(want.UUID, have.UUID) {
		problems = append(problems, Problem{"id", "The VM has the UUID " + have.UUID + ", which can't be changed."})
	}
	c := &classifier{have: have, want: want, block: &block{rules: identityRules}}
	classifyIdentity(c)
	for _, found := range c.found {
		if found.Replace {
			problems = append(problems, Problem{found.Path, found.Why})
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	if want.Name != "" {
		setChild(d.root(), "name", want.Name)
	}
	if want.Type != "" {
		setAttr(d.root(), "type", want.Type)
	}
	if want.Arch != "" && want.Arch != have.Arch {
		setAttr(ensure(ensure(d.root(), "os"), "type"), "arch", want.Arch)
	}
	if !SameMachineType(have.Machine, want.Machine) {
		setAttr(ensure(ensure(d.root(), "os"), "type"), "machine", want.Machine)
	}
	return nil
}

func classifyIdentity(c *classifier) {
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
	if !SameMachineType(have.Machine, want.Machine) {
		row := "machine_type"
		if machineFamily(have.Machine) == machineFamily(want.Machine) {
			row = "machine_type version"
		}
		c.add("machine_type", row, "")
	}
}

func validateIdentity(s Spec, c *checker) {
	if s.Name != "" {
		c.require(strings.TrimSpace(s.Name) == s.Name && !strings.ContainsAny(s.Name, "/\n\r\t"), "name",
			"A name can't contain slashes or line breaks, or begin or end with a space.")
		c.require(s.Name != "." && s.Name != "..", "name", "libvirt makes file names of it.")
		c.readable("name", s.Name)
		c.require(len(s.Name) <= maxNameLength, "name", "A name can have at most "+strconv.Itoa(maxNameLength)+" bytes.")
	}
	c.oneOf(s.Type, "type", DomainTypes)
	c.readable("machine_type", s.Machine)
	c.readable("arch", s.Arch)
	checkIDE(s, c)
}

// checkIDE checks that no disk is on IDE if the machine type has none.
func checkIDE(s Spec, c *checker) {
	for _, key := range sortedKeys(s.Disks) {
		instead := "\"virtio\" or \"scsi\"."
		if machineFamily(s.Machine) == "q35" {
			instead = "\"sata\", which guests without virtio drivers also boot from, \"virtio\" or \"scsi\". Or use " +
				"machine_type = \"pc\"."
		}
		c.require(s.Disks[key].Bus != "ide" || !expressFamily(s.Machine), "disks."+key+".bus", fmt.Sprintf(
			"The machine type %q has no IDE. Use %s", s.Machine, instead))
	}
}
