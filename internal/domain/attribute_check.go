package domain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validate checks what is declared of the group.
func (g Group) validate(s Spec, c *checker) {
	// The functions below get what they need alone: with all of g and s, each call would copy these to the heap.
	at, values, isDevice, model, beside := g.Path, s.Values, g.Device != "", g.model(), g.Beside
	g.rows().validate(c, at, values, func(path, value string) bool {
		return isDevice && path == model && (value == None || value == Any)
	})
	if !g.isDeclared(values) {
		return
	}
	if isDevice && values[model] == None {
		for _, a := range g.Attributes[1:] {
			c.require(values[g.At(a)] == "", g.At(a), "A device that isn't there (model none) has no "+a.Name+".")
		}
		return
	}
	if beside != nil {
		attribute, problem := beside(values)
		c.require(problem == "", join(at, attribute), problem)
	}
	if g.Check != nil {
		attribute, problem := g.Check(func(attribute string) string { return values[join(at, attribute)] })
		c.require(problem == "", join(at, attribute), problem)
	}
}

// Complete returns the declared values, completed with the defaults of each declared device that the VM doesn't have
// yet. have are the VM's current values.
func (f Values) Complete(have Values, arch string) Values {
	for _, g := range deviceGroups {
		if g.isDeclared(f) && f[g.model()] != None && !g.Has(have) {
			f = g.withDefaults(f, arch)
		}
	}
	return f
}

// GroupAttribute returns the group and the attribute with that path, and false if there is none.
func GroupAttribute(path string) (Group, Attribute, bool) {
	for _, g := range Groups {
		for _, a := range g.Attributes {
			if g.At(a) == path {
				return g, a, true
			}
		}
	}
	return Group{}, Attribute{}, false
}

// Since returns, by path, what the spec declares that libvirt has only since some version.
func (s Spec) Since() map[string]Since {
	all := map[string]Since{}
	note := func(path string, a Attribute, value string) {
		switch version := a.SinceOf[value]; {
		case version != "":
			all[path] = Since{fmt.Sprintf("%s = %q", path, value), version}
		case a.Since != "" && value != "":
			all[path] = Since{path, a.Since}
		}
	}
	noteRows := func(r rows, prefix string, facts Values) {
		for _, a := range r {
			note(join(prefix, a.Name), a, facts[a.Name])
		}
	}
	for path, value := range s.Values {
		if _, a, ok := GroupAttribute(path); ok {
			note(path, a, value)
		}
	}
	for key, disk := range s.Disks {
		noteRows(diskRows, "disks."+key, disk.Values)
		if disk.Source.Network != nil {
			noteRows(networkRows, "disks."+key+".network", disk.Source.Network.Values)
		}
	}
	for key, nic := range s.Interfaces {
		noteRows(interfaceRows, "interfaces."+key, nic.Values)
	}
	for _, f := range Families {
		for key, row := range f.Of(s) {
			noteRows(f.Attributes, join(f.Path, key), Values(row))
		}
	}
	return all
}

// Since is a part of a configuration, in the user's words, and the version of libvirt that has it.
type Since struct{ What, Version string }

// Demands returns, in order, the values of devices that a host may not support, as the domain capabilities of a host
// list them.
func (f Values) Demands() []Demand {
	var all []Demand
	for _, g := range Groups {
		for _, a := range g.Attributes {
			value := f[g.At(a)]
			device, enum, listed := strings.Cut(a.Capability, "/")
			off := a.Kind == Switch && value == "no"
			if listed && value != "" && value != None && value != Any && !off {
				all = append(all, Demand{
					Path: g.At(a), Value: cmp.Or(a.Listed, value), Device: device, Enum: enum, Needs: a.Needs[value],
					Usual: value == a.Default && a.Needs[value] == "",
				})
			}
		}
	}
	return all
}

// The packages with UEFI firmware, by architecture.
var firmwarePackages = map[string]string{
	"x86_64":  "UEFI firmware (Debian: ovmf, Fedora: edk2-ovmf)",
	"aarch64": "UEFI firmware (Debian: qemu-efi-aarch64, Fedora: edk2-aarch64)",
}

// Demands returns what Values.Demands does, together with what the firmware and the interfaces demand of a host. arch
// is the host's architecture.
func (s Spec) Demands(arch string) []Demand {
	return append(s.Values.Demands(), s.partDemands(arch)...)
}

// partDemands are the demands of the firmware and the interfaces.
func (s Spec) partDemands(arch string) []Demand {
	var all []Demand
	if s.Firmware.Type != nil && *s.Firmware.Type == "efi" && s.Values[firmwareLoader] == "" {
		firmware := cmp.Or(firmwarePackages[cmp.Or(s.Arch, arch)], "UEFI firmware")
		all = append(all, Demand{Path: "firmware.type", Value: "efi", Device: "os", Enum: "firmware", Needs: firmware})
		// Elsewhere libvirt doesn't list it: it looks at SMM, which only x86 has.
		if pick(s.Firmware.SecureBoot, nil, false) && cmp.Or(s.Arch, arch) == "x86_64" {
			all = append(all, Demand{
				Path: "firmware.secure_boot", Value: "yes", Device: "loader", Enum: "secure",
				Needs: firmware + " with secure boot for the machine type",
			})
		}
	}
	for _, key := range sortedKeys(s.Interfaces) {
		if s.Interfaces[key].Values["backend.type"] == "passt" {
			all = append(all, Demand{
				Path: "interfaces." + key + ".backend.type", Value: "passt", Device: "interface", Enum: "backendType",
				Needs: "the package passt",
			})
		}
	}
	return all
}

// Demand is a value that a host supports if an enumeration of its domain capabilities lists it.
type Demand struct {
	Path, Value, Device, Enum string
	// Needs are the packages that provide the value, "" if it doesn't depend on a package. Usual says that every host
	// has it.
	Needs string
	Usual bool
}

// Missing returns the words that say that a host lacks the value.
func (d Demand) Missing() string {
	text := fmt.Sprintf("has no %s %q", d.Path, d.Value)
	if d.Needs != "" {
		text += ": that needs " + d.Needs
	}
	return text
}

// WithFact returns the spec with a fact added, unless the spec declares that fact itself.
func (s Spec) WithFact(path, value string) Spec {
	if _, declared := s.Values[path]; declared {
		return s
	}
	facts := Values{path: value}
	maps.Copy(facts, s.Values)
	s.Values = facts
	return s
}

// groupOf returns the path of the block or device that a group's path belongs to, and "" for other paths. For an
// attribute that isn't part of a device it returns the path itself: such attributes don't belong together.
func groupOf(path string) string {
	for _, g := range deviceGroups {
		if path == g.Path || strings.HasPrefix(path, g.Path+".") {
			return g.Path
		}
	}
	if _, _, ok := GroupAttribute(path); ok {
		return path
	}
	return ""
}

// validate checks what is declared below a prefix. It skips the values for which free returns true.
func (r rows) validate(c *checker, prefix string, facts Values, free func(path, value string) bool) {
	for i := range r {
		if value, ok := facts[r[i].fact()]; ok {
			r[i].validate(c, join(prefix, r[i].Name), value, free)
		}
	}
}

func (a Attribute) validate(c *checker, path, value string, free func(path, value string) bool) {
	c.readable(path, value)
	for line := range strings.Lines(value) {
		if slices.Contains([]AttributeKind{Texts, Switches, Table}, a.Kind) && !strings.Contains(line, "=") {
			c.require(false, path, fmt.Sprintf("%q isn't a name and its value.", line))
		}
	}
	c.require(value == "" || a.Check == nil || strings.TrimSpace(value) != "", path, "It is nothing but white space.")
	// In definitions, a limit of -1 is none: nothing to declare.
	if a.Kind == Count && !a.Signed && strings.HasPrefix(value, "-") {
		c.require(false, path, fmt.Sprintf("%q isn't a number from 0.", value))
		return
	}
	if value == "" || free(path, value) || value == a.Unset || a.Values == nil && a.normal(value) == "" {
		return
	}
	if a.Values == nil {
		value = a.normal(value)
	}
	if len(a.Values)+len(a.Kept) > 0 && !slices.Contains(a.Values, value) && !slices.Contains(a.Kept, value) {
		c.require(false, path, fmt.Sprintf("%q isn't one of %s.", value, strings.Join(a.Values, ", ")))
		return
	}
	switch a.Kind {
	case Count, Amount:
		amount, from := value, " from 0"
		if a.Signed {
			amount, from = strings.TrimPrefix(value, "-"), ""
		}
		_, isNumber := number(amount)
		c.require(isNumber, path, fmt.Sprintf("%q isn't a number%s.", value, from))
	case Table:
		a.validateTable(c, path, value)
	case Text, Numbers, Texts, Words: // These kinds have Check functions of their own.
	case Switches:
		for name, text := range ParseTexts(value) {
			c.require(text == "yes" || text == "no", path, fmt.Sprintf("%s is %q, not yes or no.", name, text))
		}
	case Switch, Flag:
		c.require(value == "yes" || value == "no", path, fmt.Sprintf("%q isn't yes or no.", value))
	}
	if a.Check != nil {
		wrong := a.Check(value)
		if said, ok := strings.CutPrefix(wrong, "It isn't"); ok && (a.Kind == Text || a.Kind == Count) &&
			len(value) <= maxShown {
			wrong = fmt.Sprintf("%q isn't%s", value, said)
		}
		c.require(wrong == "", path, wrong)
	}
}

// maxShown is the length of the longest value that a problem shows.
const maxShown = 60
