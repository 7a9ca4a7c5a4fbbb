package domain

import (
	"slices"

	"github.com/beevik/etree"
)

// IgnitionKey is the key, among the own disks, of the file with the configuration for Ignition. Disks of users can't
// have this key.
const IgnitionKey = "ignition"

// ignitionEntry is the name under which Ignition finds its configuration among the entries of QEMU's firmware
// configuration device.
const ignitionEntry = "opt/com.coreos/config"

// ignitionBlock is the file with the configuration for Ignition.
var ignitionBlock = block{
	rules: map[string]rule{
		"ignition": {effect: restart, why: "QEMU reads the configuration for Ignition when the VM starts."},
	},
	read:  func(d *Definition, s *Spec) { s.Ignition = d.readIgnition() },
	apply: func(d *Definition, want Spec) error { d.applyIgnition(want.Ignition); return nil },
	classify: func(c *classifier) {
		if c.want.Ignition != nil && *c.want.Ignition != pick(c.have.Ignition, nil, "") {
			c.add("ignition", "ignition", "")
		}
	},
	validate: func(s Spec, c *checker) {
		if s.Ignition != nil {
			c.hostPath("ignition", *s.Ignition)
		}
	},
	complete: func(persistent *Spec, _ Spec) {
		if persistent.Ignition == nil {
			persistent.Ignition = new("")
		}
	},
}

// ignitionEntries returns the entries with that name, whether their source is a file or not.
func (d *Definition) ignitionEntries() []*etree.Element {
	return slices.DeleteFunc(children(sysinfo(d.root(), "fwcfg"), "entry"), func(e *etree.Element) bool {
		return attr(e, "name") != ignitionEntry
	})
}

// readIgnition reads the file of the entry.
func (d *Definition) readIgnition() *string {
	for _, e := range d.ignitionEntries() {
		if file := attr(e, "file"); file != "" {
			return &file
		}
	}
	return nil
}

// applyIgnition makes the file the only entry of that name; "" removes the entries.
func (d *Definition) applyIgnition(want *string) {
	if want == nil || *want == pick(d.readIgnition(), nil, "") {
		return
	}
	for _, e := range d.ignitionEntries() {
		drop(e)
	}
	if *want != "" {
		add(ensureSysinfo(d.root(), "fwcfg"), "entry", "name", ignitionEntry, "file", *want)
	}
	dropSysinfo(d.root(), "fwcfg")
}
