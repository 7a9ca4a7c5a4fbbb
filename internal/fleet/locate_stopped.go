package fleet

import (
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// pickDefined returns the host whose definition of the stopped machine counts:
// the one where it was last. A definition that a migration left behind never
// counts, and one elsewhere says nothing about a machine whose last host can't
// be asked.
func pickDefined(defined, answers []answer, uuid string, last LastKnown) (*answer, error) {
	if len(defined) == 0 {
		return nil, absent(answers, uuid, last)
	}

	here := slices.DeleteFunc(slices.Clone(defined), func(a answer) bool { return a.migratedAway() })
	if len(here) == 0 {
		if !wasFenced(answers, last) {
			return nil, onlyLeftover(defined[0], answers)
		}

		here = defined // where it went to was given up: this is what is left of it
	}

	i := slices.IndexFunc(here, func(a answer) bool { return a.isLast(last) })
	if i < 0 && last.Host != "" {
		if err := lastHostAnswered(answers, uuid, last); err != nil {
			return nil, err
		}
	}

	switch {
	case len(here) == 1:
		return &here[0], nil
	case i >= 0 && !outdated(here, i):
		return &here[i], nil
	}

	return nil, &Error{
		VM: here[0].vm.Name, Kind: ErrAmbiguous,
		Detail: fmt.Sprintf("it (UUID %s) is defined and stopped on hosts %s, and nothing says where it ran last",
			uuid, quoteList(hostNamesOf(here))),
		Remedy: "Undefine the leftover definitions with virsh on their hosts.",
	}
}

// migratedAway says that the definition is what a migration left behind.
func (a answer) migratedAway() bool {
	return a.vm.State == libvirt.Shutoff && a.vm.Reason == libvirt.ReasonMigrated
}

// outdated says that the last host knows nothing of a run of the machine, while
// another host does: it may have run there after it was seen last.
func outdated(defined []answer, last int) bool {
	const forgotten = "Unknown" // never started there, or before the daemon was restarted

	return defined[last].vm.Reason == forgotten &&
		slices.ContainsFunc(defined, func(a answer) bool { return a.vm.Reason != forgotten })
}

// onlyLeftover explains why a definition that a migration left behind is not
// the machine, though no other was found.
func onlyLeftover(left answer, answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			return unreachable(a, left.vm.Name,
				fmt.Sprintf("the machine was migrated away from host %q, and may be there", left.host.name))
		}
	}

	return &Error{
		VM: left.vm.Name, Host: left.host.name, Kind: ErrUnconfigured,
		Detail: fmt.Sprintf("it was migrated away from host %q, which has a leftover definition only, "+
			"and no configured host has the machine", left.host.name),
		Remedy: fmt.Sprintf("Add the host that it was moved to to the provider's hosts. If the machine is gone for good, "+
			"undefine what is left of it with virsh on host %q, or start it there.", left.host.name),
	}
}

// wasFenced says that the machine's last host was given up.
func wasFenced(answers []answer, last LastKnown) bool {
	return slices.ContainsFunc(answers, func(a answer) bool { return a.fenced() && a.host.name == last.Host })
}
