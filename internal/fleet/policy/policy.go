package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Identity is what every policy has, to be embedded in it.
type Identity struct {
	// ID tells it from all others, Name is what people call it.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Selector picks the VMs. The zero value picks all.
	Selector Selector `json:"selector"`
}

// Identified makes everything that embeds an identity a Policy.
func (i Identity) Identified() Identity { return i }

// Policy is anything with an identity.
type Policy interface{ Identified() Identity }

// Selector picks VMs: by all of the labels, and one of the names, and one of the hosts. What is empty picks all.
type Selector struct {
	Labels map[string]string `json:"labels,omitempty"`
	Names  []string          `json:"names,omitempty"`
	Hosts  []string          `json:"hosts,omitempty"`
}

// VM is what a selector sees of a VM: Host is the one that it is on.
type VM struct {
	Name, Host string
	Labels     map[string]string
}

// Matches says whether the selector picks the VM.
func (s Selector) Matches(m VM) bool {
	return HasLabels(m.Labels, s.Labels) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, m.Name)) &&
		(len(s.Hosts) == 0 || slices.Contains(s.Hosts, m.Host))
}

// HasLabels says whether all that are wanted are there, with the same values.
func HasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Winner is the policy that holds for the VM: of those that select it the one with the most labels, of those one
// that names VMs before one that names hosts before one that names neither, then the smallest name. It is nil when
// none selects the VM.
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

// Same says that two policies say the same, whoever wrote them: their ids don't count. What is kept is what counts, so
// that a nil map is an empty one.
func Same[P Policy](a, b P) bool {
	first, err := said(a)
	second, err2 := said(b)
	return err == nil && err2 == nil && maps.EqualFunc(first, second, func(a, b json.RawMessage) bool {
		return bytes.Equal(a, b)
	})
}

// said is a policy without its id. A name that is no more than the id says nothing either.
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
