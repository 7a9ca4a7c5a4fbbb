package inventory

import (
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/location"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// pickDefined returns the host whose definition of the stopped VM is the right one, if that is proven. A definition
// that a migration left behind never counts. A definition on another host proves nothing if the VM's last host can't be
// queried.
func pickDefined(defined, answers []Reply, uuid string, last LastKnown) (*Reply, error) {
	if len(defined) == 0 {
		return nil, absent(answers, uuid, last)
	}

	here := slices.DeleteFunc(slices.Clone(defined), func(a Reply) bool { return a.MigratedAway() })
	if len(here) == 0 {
		if !wasFenced(answers, last) {
			return nil, onlyLeftover(defined[0], answers)
		}

		here = defined // the migration's target is fenced: the definitions left at the source are all that remains
	}

	i := slices.IndexFunc(here, func(a Reply) bool { return a.isLast(last) })
	if i < 0 && last.Host != "" {
		if err := lastHostAnswered(answers, uuid, last); err != nil {
			return nil, err
		}
	}

	chosen, proven := location.Choose(definitionsOf(here, last))
	if !proven {
		return nil, undecided(here, uuid)
	}

	return &here[chosen], nil
}

// MigratedAway reports whether the definition was left behind by a migration.
func (a Reply) MigratedAway() bool {
	return a.Domain.State == libvirt.Shutoff && a.Domain.Reason == libvirt.ReasonMigrated
}

// onlyLeftover returns the error that the only definition found is one that a migration left behind.
func onlyLeftover(left Reply, answers []Reply) error {
	for _, a := range answers {
		if a.Err != nil {
			return Unreachable(a, left.Domain.Name,
				fmt.Sprintf("the VM was migrated away from host %q, and may be there", left.Host.Name))
		}
	}

	return &Error{
		VM: left.Domain.Name, Host: left.Host.Name, Kind: ErrUnconfigured,
		Detail: fmt.Sprintf("it was migrated away from host %q, which has a stale definition only, "+
			"and no configured host has the VM", left.Host.Name),
		Remedy: fmt.Sprintf("In hosts, add the host that it was moved to. If that copy no longer exists, "+
			"undefine with virsh what is left of the VM on host %q, or start it there.", left.Host.Name),
	}
}

// wasFenced reports whether the VM's last host is fenced.
func wasFenced(answers []Reply, last LastKnown) bool {
	return slices.ContainsFunc(answers, func(a Reply) bool { return a.Fenced() && a.Host.Name == last.Host })
}
