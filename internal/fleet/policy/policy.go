package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Identity is what every policy has. Policies embed it.
type Identity struct {
	// ID identifies the policy, Name is its name for users.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Selector selects the VMs. The zero value selects all.
	Selector Selector `json:"selector"`
}

// Identified returns the identity. It makes every type that embeds an Identity a Policy.
func (i Identity) Identified() Identity { return i }

// Policy is anything with an identity.
type Policy interface{ Identified() Identity }

// Selector selects VMs that have all of the labels, one of the names, and one of the hosts. An empty field selects all
// VMs.
type Selector struct {
	Labels map[string]string `json:"labels,omitempty"`
	Names  []string          `json:"names,omitempty"`
	Hosts  []string          `json:"hosts,omitempty"`
}

// VM is what a selector needs of a VM. Host is the host that the VM is on.
type VM struct {
	Name, Host string
	Labels     map[string]string
}

// Matches reports whether the selector selects the VM.
func (s Selector) Matches(m VM) bool {
	return HasLabels(m.Labels, s.Labels) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, m.Name)) &&
		(len(s.Hosts) == 0 || slices.Contains(s.Hosts, m.Host))
}

// HasLabels reports whether have contains all wanted labels with the same values.
func HasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Winner returns the policy that applies to the VM, nil if none selects it. Of the policies that select the VM, the one
// with the most labels takes precedence; of those, one that names VMs, then one that names hosts, then the one with the
// smallest name, then the smallest ID.
func Winner[P Policy](policies []P, m VM) *P {
	var winner *P
	for i, p := range policies {
		selects := p.Identified().Selector.Matches(m)
		if selects && (winner == nil || precedence(p.Identified(), (*winner).Identified()) < 0) {
			winner = &policies[i]
		}
	}
	return winner
}

func precedence(a, b Identity) int {
	return cmp.Or(
		-cmp.Compare(len(a.Selector.Labels), len(b.Selector.Labels)),
		-cmp.Compare(min(len(a.Selector.Names), 1), min(len(b.Selector.Names), 1)),
		-cmp.Compare(min(len(a.Selector.Hosts), 1), min(len(b.Selector.Hosts), 1)),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.ID, b.ID),
	)
}

// Same reports whether two policies have the same content. Their ids don't count. The stored form is compared, so that
// a nil map equals an empty one.
func Same[P Policy](a, b P) bool {
	first, err := said(a)
	second, err2 := said(b)
	return err == nil && err2 == nil && maps.EqualFunc(first, second, func(a, b json.RawMessage) bool {
		return bytes.Equal(a, b)
	})
}

// said returns a policy without its id. A name that is equal to the id is left out too.
func said(p Policy) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if bytes.Equal(all["id"], all["name"]) {
		delete(all, "name")
	}
	delete(all, "id")
	return all, nil
}
