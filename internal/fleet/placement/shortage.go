package placement

import (
	"cmp"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// shortage is what a VM needs of a host and can't have there: the host doesn't have it, or others use it. The message
// continues a sentence that begins with the host.
type shortage struct {
	domain.Problem

	// reason is the reason of the blocker of a move: HostResourcesNotAvailable if the host doesn't have it.
	reason string
	// remedy says how to change the host, "" if another remedy is enough.
	remedy string
	// lacks is what the host has too little of, if a resource of the same apply may give it more.
	lacks status.HostObject
}

const takenRemedy = "Choose another host, or stop or move the other VM before, or end the other programs that " +
	"use it."

// shortageProblems returns the shortages as problems of the VM's attributes.
func shortageProblems(short []shortage) []inventory.Problem {
	problems := make([]inventory.Problem, len(short))
	for i, s := range short {
		problems[i] = inventory.Problem{Attribute: s.Path, Detail: "it " + s.Message, Remedy: s.remedy}
	}

	return problems
}

// shortageBlockers returns the shortages of a host as blockers of a move. The remedy is for what the host doesn't have.
func shortageBlockers(host string, short []shortage, remedy string) []migration.Blocker {
	blockers := make([]migration.Blocker, len(short))
	for i, s := range short {
		blockers[i] = migration.Blocker{
			Reason: s.reason, Status: status.False, Attribute: s.Path,
			Message: fmt.Sprintf("host %q %s", host, s.Message), Remedy: takenRemedy,
			Lacks: s.lacks,
		}
		if s.lacks != (status.HostObject{}) {
			blockers[i].Remedy = s.remedy
		}

		if s.reason == migration.HostResourcesNotAvailable {
			blockers[i].Remedy = cmp.Or(s.remedy, remedy)
		}
	}

	return blockers
}
