package domain

import (
	"slices"

	"github.com/beevik/etree"
)

// IgnitionKey is the key, among the own disks, of the file with the configuration for Ignition. Users' disks can't have
// it.
const IgnitionKey = "ignition"

// ignitionEntry is the name by which Ignition finds its configuration in what QEMU's firmware hands on.
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

// ignitionEntries are the entries with that name, whether they lead to a file or not.
func (d *Definition) ignitionEntries() []*etree.Element {
	var found []*etree.Element
	for _, list := range children(d.root(), "sysinfo") {
		if attr(list, "type") == "fwcfg" {
			found = append(found, slices.DeleteFunc(children(list, "entry"), func(e *etree.Element) bool {
				return attr(e, "name") != ignitionEntry
			})...)
		}
	}
	return found
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

// applyIgnition makes it the only entry of its name; "" removes it.
func (d *Definition) applyIgnition(want *string) {
	if want == nil || *want == pick(d.readIgnition(), nil, "") {
		return
	}
	for _, e := range d.ignitionEntries() {
		list := e.Parent()
		drop(e)
		if len(list.ChildElements()) == 0 {
			drop(list)
		}
	}
	if *want == "" {
		return
	}
	lists := slices.DeleteFunc(children(d.root(), "sysinfo"), func(e *etree.Element) bool {
		return attr(e, "type") != "fwcfg"
	})
	if len(lists) == 0 {
		list := element("sysinfo", "type", "fwcfg")
		insert(d.root(), list, "sysinfo", "os")
		lists = append(lists, list)
	}
	add(lists[0], "entry", "name", ignitionEntry, "file", *want)
}
