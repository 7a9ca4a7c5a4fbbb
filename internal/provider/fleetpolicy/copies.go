package fleetpolicy

import (
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// foundAndSilent returns a policy that some host has, and a host whose answer is missing.
func foundAndSilent[P policy.Policy](copies []records.PolicyCopy[P]) (found *P, silent *records.PolicyCopy[P]) {
	for i, c := range copies {
		switch {
		case c.Err != nil:
			silent = &copies[i]
		case found == nil:
			found = c.Policy
		}
	}
	return found, silent
}

// setFromCopies sets the state from the copies on the hosts. If any host has the policy as in the state, the state
// stays. Otherwise it becomes the policy that was found first. Hosts whose copy differs are stale. A host that didn't
// answer stays as it was.
func setFromCopies[P policy.Policy](m Model[P], copies []records.PolicyCopy[P], found P) {
	if m.Known() {
		before := m.ToFleet(found.Identified().ID)
		for _, c := range copies {
			if c.Policy != nil && policy.Same(*c.Policy, before) {
				found = before
			}
		}
	}
	// A policy that means the same keeps its notation.
	if !m.Known() || !policy.Same(m.ToFleet(found.Identified().ID), found) {
		m.Shared().fromIdentity(found.Identified())
		m.FromFleet(found)
	}
	was := value.StringList(m.Shared().StaleHosts)
	stale := []string{}
	for _, c := range copies {
		switch {
		case c.Err != nil:
			if slices.Contains(was, c.Host) {
				stale = append(stale, c.Host)
			}
		case c.Policy == nil || !policy.Same(*c.Policy, found):
			stale = append(stale, c.Host)
		}
	}
	m.Shared().StaleHosts = value.NewStringList(stale)
}
