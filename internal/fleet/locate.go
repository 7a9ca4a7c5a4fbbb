package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Find returns the machine, wherever in the fleet it is, from the snapshot.
//
// ErrNotFound means that every host that could have it answered, and none has.
// As long as one did not answer it is ErrUnreachable; if the last host is not
// configured any more, ErrUnconfigured; if it runs twice, ErrTwoCopies.
func (f *Fleet) Find(ctx context.Context, uuid string, last LastKnown) (*VM, error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}

	vm, err := locate(about(answers, uuid), uuid, last)
	if isNotFound(err) || skewed(vm, err) {
		return f.findNow(ctx, uuid, last)
	}

	return vm, err
}

// findNow is Find without the snapshot: what every change begins with.
func (f *Fleet) findNow(ctx context.Context, uuid string, last LastKnown) (*VM, error) {
	vm, _, err := f.findAmong(ctx, uuid, last)

	return vm, err
}

// findAmong is findNow that also returns what the hosts said.
func (f *Fleet) findAmong(ctx context.Context, uuid string, last LastKnown) (*VM, []answer, error) {
	vm, answers, err := f.askFor(ctx, uuid, last)
	if skewed(vm, err) {
		return f.askFor(ctx, uuid, last)
	}

	return vm, answers, err
}

// isGone says that an error is that a machine was not found, and that no host has
// it. Other things are not found as well: a network that the machine needs to
// start, a file, or the machine on the host that it has just left.
func (f *Fleet) isGone(ctx context.Context, uuid string, last LastKnown, err error) bool {
	if !isNotFound(err) {
		return false
	}

	_, err = f.findNow(ctx, uuid, last)

	return isNotFound(err)
}

// skewed says that the hosts' answers may not fit together. They don't answer at
// one moment: a machine that is handed over in between seems to run twice, or
// to be half of a migration whose other half is gone. Asked once more, they say
// which it is.
func skewed(vm *VM, err error) bool {
	if err != nil {
		return errors.Is(err, ErrTwoCopies) || errors.Is(err, ErrAmbiguous)
	}

	return vm.Stranded || !vm.Migrating && vm.entry.InMigration() && vm.Reason != libvirt.ReasonStartingUp
}

func (f *Fleet) askFor(ctx context.Context, uuid string, last LastKnown) (*VM, []answer, error) {
	answers, err := f.askAll(ctx, byUUID(uuid))
	if err != nil {
		return nil, nil, err
	}

	vm, err := locate(answers, uuid, last)

	return vm, answers, err
}

// FindByName returns the machine of that name. Names are unique on a host, not
// in a fleet: two machines of one name are ErrAmbiguous.
func (f *Fleet) FindByName(ctx context.Context, name string) (*VM, error) {
	answers, err := f.snapshot(ctx)
	if err != nil {
		return nil, err
	}

	for i, a := range answers {
		if a.view == nil {
			continue
		}

		for _, e := range a.view.domains {
			if e.Name == name {
				answers[i].vm = e
			}
		}
	}

	uuid, err := named(answers, name)
	if err != nil {
		return nil, err
	}

	return f.Find(ctx, uuid, LastKnown{})
}

// named is the UUID of the one machine among the answers.
func named(answers []answer, name string) (string, error) {
	uuids := make(map[string][]string)

	for _, a := range answers {
		if a.vm != nil {
			uuids[a.vm.UUID] = append(uuids[a.vm.UUID], a.host.name)
		}
	}

	switch len(uuids) {
	case 0:
		return "", absent(answers, name, LastKnown{})
	case 1:
		for uuid := range uuids {
			return uuid, nil
		}
	}

	found := make([]string, 0, len(uuids))
	for uuid, hosts := range uuids {
		found = append(found, fmt.Sprintf("%s on %s", uuid, strings.Join(hosts, " and ")))
	}

	slices.Sort(found)

	return "", &Error{
		VM: name, Kind: ErrAmbiguous,
		Detail: "several machines have this name: " + strings.Join(found, "; "),
		Remedy: "Name the machine by its UUID.",
	}
}

// locate decides where the machine is, from what the hosts said of it.
func locate(answers []answer, uuid string, last LastKnown) (*VM, error) {
	var active, defined []answer

	for _, a := range answers {
		switch {
		case a.vm == nil:
		case a.vm.Active():
			active = append(active, a)
		default:
			defined = append(defined, a)
		}
	}

	home, migrating, err := pickActive(active, uuid, last)
	if err != nil {
		return nil, err
	}

	switch {
	case home == nil:
		home, err = pickDefined(defined, answers, uuid, last)
	case home.vm.InMigration() && len(active) == 1 && last.Host != "" && !home.isLast(last):
		// Half a migration is seen; the other half may run on the silent host.
		err = lastHostAnswered(answers, uuid, last)
	}

	if err != nil {
		return nil, err
	}

	vm, err := newVM(*home)
	if err != nil {
		return nil, err
	}

	vm.SilentHosts = silentHosts(answers)

	for _, a := range defined {
		// One without a definition is what its host is about to forget.
		if a.host != home.host && a.vm.Persistent {
			vm.StaleHosts = append(vm.StaleHosts, a.host.name)
		}
	}

	vm.Stranded = migrating && vm.strandedAmong(answers)
	vm.Migrating = migrating && !vm.Stranded
	vm.ActiveHosts, vm.HostStates = roles(active, vm.Migrating), statesOf(active)

	return vm, nil
}

// pickActive returns the host that the machine runs on, nil when none does. In
// a migration two have it: the one that waits for its memory is the target.
func pickActive(active []answer, uuid string, last LastKnown) (home *answer, migrating bool, err error) {
	switch len(active) {
	case 0:
		return nil, false, nil
	case 1:
		return &active[0], active[0].leaving(last), nil
	case 2:
		switch first, second := active[0].vm, active[1].vm; {
		case second.InMigration() && !first.InMigration():
			return &active[0], true, nil
		case first.InMigration() && !second.InMigration():
			return &active[1], true, nil
		case first.InMigration() && (first.Reason != libvirt.ReasonStartingUp || second.Reason != libvirt.ReasonStartingUp):
			// It is handed over: the source has stopped, the target not yet begun.
			// Only the source has a definition that outlives its process.
			if second.Persistent && !first.Persistent || second.Persistent == first.Persistent && active[1].isLast(last) {
				return &active[1], true, nil
			}

			return &active[0], true, nil
		}
	}

	return nil, false, &Error{
		VM: active[0].vm.Name, Kind: ErrTwoCopies,
		Detail: fmt.Sprintf("it (UUID %s) runs on hosts %s at the same time; neither copy is touched",
			uuid, quoteList(hostNamesOf(active))),
		Remedy: "Find out which copy is the right one, and destroy and undefine the other with virsh on its host.",
	}
}

// leaving says that the only copy that is seen is one half of a migration. One
// that waits for its memory on a host that didn't have it before isn't: it is
// no less than a machine that starts.
func (a answer) leaving(last LastKnown) bool {
	switch a.vm.Reason {
	case libvirt.ReasonStartingUp:
		return false
	case libvirt.ReasonMigration:
		return a.vm.InMigration() && a.isLast(last)
	default:
		return a.vm.InMigration()
	}
}

// roles says what each host with a hypervisor process of the machine is to it.
func roles(active []answer, migrating bool) map[string]status.Role {
	all := make(map[string]status.Role, len(active))

	for _, a := range active {
		switch {
		case !migrating:
			all[a.host.name] = status.RoleActive
		case a.vm.isTarget(active):
			all[a.host.name] = status.RoleTarget
		default:
			all[a.host.name] = status.RoleSource
		}
	}

	return all
}

// statesOf says how each process of a machine stands.
func statesOf(active []answer) map[string]string {
	all := make(map[string]string, len(active))
	for _, a := range active {
		all[a.host.name] = fmt.Sprintf("%s (%s)", a.vm.State, status.Reason(a.vm.State.String(), a.vm.Reason))
	}

	return all
}

// isTarget says whether a machine in migration is on its way to this host. The
// target gets its persistent definition when all is over, so until then only
// the source has one. Where that does not decide, it is seen in what runs.
func (e *entry) isTarget(active []answer) bool {
	for _, a := range active {
		if a.vm != e && a.vm.Persistent != e.Persistent {
			return a.vm.Persistent
		}
	}

	switch e.Reason {
	case libvirt.ReasonStartingUp:
		return true
	case libvirt.ReasonPostcopy, libvirt.ReasonPostcopyFailed:
		return e.State == libvirt.Running
	case libvirt.ReasonMigration:
		// Alone, a copy without a definition is one that is just arriving.
		return len(active) == 1 && !e.Persistent
	default:
		return e.State == libvirt.Running && e.Reason == libvirt.ReasonMigrated && e.Persistent && len(active) > 1
	}
}

// isLast says whether this is the host that had the machine last. The UUID is
// the host; its name is only what the configuration calls it.
func (a answer) isLast(last LastKnown) bool {
	if a.info != nil && last.HostUUID != "" {
		return a.info.UUID == last.HostUUID
	}

	return last.Host != "" && a.host.name == last.Host
}

// absent explains why the machine was not found: it is proven to be nowhere, or
// somebody could not be asked.
func absent(answers []answer, vm string, last LastKnown) error {
	if last.Host != "" {
		if err := lastHostAnswered(answers, vm, last); err != nil {
			return err
		}
	}

	for _, a := range answers {
		if a.err != nil {
			return unreachable(a, vm, "the machine was not found on the others, and may be there")
		}
	}

	return &Error{VM: vm, Kind: ErrNotFound, Detail: "no host has it"}
}

// lastHostAnswered returns nil when the machine's last host was asked or given
// up, else why what it has is not known.
func lastHostAnswered(answers []answer, vm string, last LastKnown) error {
	for _, a := range answers {
		if a.info != nil && last.HostUUID != "" && a.info.UUID == last.HostUUID {
			return nil
		}
	}

	for _, a := range answers {
		if a.host.name != last.Host {
			continue
		}

		switch {
		case a.fenced():
			return nil
		case a.err != nil:
			return unreachable(a, vm, "it had the machine last")
		case last.HostUUID == "" || a.info.UUID == "":
			return nil
		default:
			return &Error{
				VM: vm, Host: last.Host, Kind: ErrUnconfigured,
				Detail: fmt.Sprintf("the machine was last on host %q with UUID %s, but that name now leads to the host "+
					"with UUID %s", last.Host, last.HostUUID, a.info.UUID),
				Remedy: fmt.Sprintf("Let hosts.%s lead to the old host again; or, if that host is gone for good, give the "+
					"new one another name and keep hosts.%s with fenced = true.", last.Host, last.Host),
			}
		}
	}

	return &Error{
		VM: vm, Host: last.Host, Kind: ErrUnconfigured,
		Detail: fmt.Sprintf("the machine was last on host %q, which is not in the provider's hosts any more", last.Host),
		Remedy: fmt.Sprintf("Add %q to hosts again; if the host is gone for good, add it with fenced = true.", last.Host),
	}
}

func unreachable(a answer, vm, why string) error {
	return &Error{
		VM: vm, Host: a.host.name, Kind: ErrUnreachable, Err: a.err,
		Detail: fmt.Sprintf("host %q does not answer; %s", a.host.name, why),
		Remedy: fmt.Sprintf("Bring host %q back; or, if it is off for good, set hosts.%s.fenced = true.",
			a.host.name, a.host.name),
	}
}

// silentHosts are those that were asked and did not answer.
func silentHosts(answers []answer) []string {
	var names []string

	for _, a := range answers {
		if a.err != nil {
			names = append(names, a.host.name)
		}
	}

	return names
}

func hostNamesOf(answers []answer) []string {
	names := make([]string, len(answers))
	for i, a := range answers {
		names[i] = a.host.name
	}

	return names
}
