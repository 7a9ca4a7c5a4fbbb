package network

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Unresolved is a VM that has an interface which lacks values for variables of a network filter.
type Unresolved struct {
	VM string
	// Runs says that an interface of the running VM lacks them: libvirt refuses the filter. Otherwise one of its
	// persistent definition does: libvirt refuses to start the VM.
	Runs bool
	// Variables are the names without the dollar sign.
	Variables []string
}

// UnresolvedVariables returns the VMs of a host whose interfaces lack values for the variables that a network filter,
// or one that is part of it, has once it is defined as want.
func UnresolvedVariables(ctx context.Context, h *libvirt.Host, name string, want Filter) ([]Unresolved, error) {
	document, err := want.Document(name)
	if err != nil {
		return nil, err
	}
	if len(variablesOf(document.Root())) == 0 && len(want.Referenced()) == 0 {
		return nil, nil
	}
	texts, err := h.NWFilters(ctx)
	if err != nil {
		return nil, err
	}
	filters := filterSet{all: map[string]*etree.Element{}, changed: name}
	for _, text := range texts {
		d := etree.NewDocument()
		if err := d.ReadFromString(text); err != nil {
			return nil, errors.Join(libvirt.ErrInternal, err)
		}
		filters.all[attr(d.Root(), "name")] = d.Root()
	}
	filters.all[name] = document.Root()
	domains, err := h.Domains(ctx)
	if err != nil {
		return nil, err
	}
	var all []Unresolved
	for _, d := range domains {
		u := Unresolved{VM: d.Name, Runs: true}
		if u.Variables, err = filters.unresolved(d.LiveXML); len(u.Variables) == 0 && err == nil {
			u.Runs = false
			u.Variables, err = filters.unresolved(d.PersistentXML)
		}
		if err != nil {
			return nil, err
		}
		if len(u.Variables) > 0 {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b Unresolved) int { return strings.Compare(a.VM, b.VM) })
	return all, nil
}

// filterSet are the network filters of a host by name, one of which is changed.
type filterSet struct {
	all     map[string]*etree.Element
	changed string
}

// unresolved returns the variables of the changed filter for which an interface of a VM lacks values.
func (s filterSet) unresolved(definition string) ([]string, error) {
	missing := map[string]bool{}
	_, err := anyInterface([]string{definition}, func(e *etree.Element) bool {
		if f := child(e, "filterref"); f != nil {
			// libvirt knows the MAC address, and learns the IP address from the guest's packets.
			s.collect(f, map[string]bool{"MAC": true, "IP": true}, false, nil, missing)
		}
		return false
	})
	return slices.Sorted(maps.Keys(missing)), err
}

// collect adds the variables of a filter that a reference names, and of those that are part of it, for which no
// reference on the way has a value. within says that the changed filter is on the way.
func (s filterSet) collect(reference *etree.Element, given map[string]bool, within bool, way []string,
	missing map[string]bool,
) {
	name := attr(reference, "filter")
	filter := s.all[name]
	if filter == nil || slices.Contains(way, name) {
		return
	}
	given, within = maps.Clone(given), within || name == s.changed
	for _, p := range children(reference, "parameter") {
		given[attr(p, "name")] = true
	}
	for _, v := range variablesOf(filter) {
		if within && !given[v] {
			missing[v] = true
		}
	}
	for _, next := range children(filter, "filterref") {
		s.collect(next, given, within, append(slices.Clone(way), name), missing)
	}
}

// variablesOf returns the variables in the rules of a filter: "$PORTS", "$PORTS[2]" and "$PORTS[@1]" are PORTS.
func variablesOf(filter *etree.Element) (names []string) {
	for _, rule := range children(filter, "rule") {
		for _, protocol := range rule.ChildElements() {
			for _, a := range protocol.Attr {
				if name, is := strings.CutPrefix(a.Value, "$"); is {
					name, _, _ = strings.Cut(name, "[")
					names = append(names, name)
				}
			}
		}
	}
	return names
}
