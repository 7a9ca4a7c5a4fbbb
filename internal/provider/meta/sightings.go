package meta

import (
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// Sightings are the objects that one plan has named: those that it keeps or changes, those that it destroys, and those
// that it creates.
//
// If a resource has another name or key in the configuration and no moved block, its object may be planned under both:
// it is destroyed under the former address, and kept under the other one after an import, or created. Terraform tells
// no address, so nothing but the object says that they belong together.
type Sightings struct {
	mu   sync.Mutex
	seen map[string][]Sighting
}

// Sighting is one object in a plan.
type Sighting struct {
	// Plan is what the plan does with the object.
	Plan Intent
	// Hosts are those that have it, or that are to have it. There are none for an object that moves between hosts.
	Hosts []string
}

// Intent is what a plan does with an object.
type Intent string

// The intents.
const (
	Keep    Intent = "keep"
	Destroy Intent = "destroy"
	Create  Intent = "create"
)

// Add records the sighting of the object with that key. It returns those of the same key that the same plan has named
// before, if one of the two is destroyed and the other one isn't.
func (s *Sightings) Add(key string, is Sighting) (opposed []Sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, before := range s.seen[key] {
		if (before.Plan == Destroy) != (is.Plan == Destroy) {
			opposed = append(opposed, before)
		}
	}
	if s.seen == nil {
		s.seen = map[string][]Sighting{}
	}
	s.seen[key] = append(s.seen[key], is)
	return opposed
}

// Shares reports whether both sightings may be of one object: they have a host in common, or one has no hosts.
func (s Sighting) Shares(other Sighting) bool {
	return len(s.Hosts) == 0 || len(other.Hosts) == 0 ||
		slices.ContainsFunc(s.Hosts, func(host string) bool { return slices.Contains(other.Hosts, host) })
}

// FormerAddressError returns the error that an object is destroyed under one address, and kept or created under another
// one.
func FormerAddressError(typeName, id string, created bool) diag.Diagnostic {
	does, then := "keeps", "The apply would delete what the other resource has."
	remedy := "If this configuration has an import block for it, remove that block. "
	rest := fmt.Sprintf("If both addresses are in the state already, run \"terraform state rm\" with the former address, "+
		"or add a removed block for it with lifecycle { destroy = false }:\n\nremoved {\n  from = %s.<former name>\n  "+
		"lifecycle { destroy = false }\n}\n\nIf the plan calls it a deposed object, \"terraform state rm\" and \"terraform "+
		"import\" make it this resource's again.", typeName)
	if created {
		does, then = "creates", "Terraform does both at once: the creation would fail, or what it creates would be deleted, "+
			"and what the object has now would be lost."
		remedy, rest = "", "If a create_before_destroy left it as a deposed object, \"terraform state rm\" and \"terraform "+
			"import\" make it this resource's again. To have a new one instead, remove the resource, apply, and add the "+
			"other one then."
	}
	return diag.NewErrorDiagnostic("Object is destroyed under its former address", fmt.Sprintf(
		"The plan destroys %s %q, and %s it under another address. %s\n\nIf the resource was renamed, moved to a module, or "+
			"has another key in for_each, tell Terraform. %sAdd:\n\nmoved {\n  from = %[1]s.<former name>\n  to   = "+
			"%[1]s.<name>\n}\n\n%[6]s %[7]s", typeName, id, does, then, remedy, rest, tfdiag.DestroyAnyway))
}
