package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Find returns the VM from the snapshot, on whichever host it is.
//
// It returns ErrNotFound if every host that could have the VM answered, and none has it; ErrUnreachable if such a host
// did not answer; ErrUnconfigured if the VM's last host is no longer configured; ErrTwoCopies if the VM runs twice.
func (inv *Inventory) Find(ctx context.Context, uuid string, last LastKnown) (*VM, error) {
	answers, err := inv.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	vm, err := Locate(RepliesAbout(answers, uuid), uuid, last)
	if Inconsistent(vm, err) {
		return inv.FindNow(ctx, uuid, last)
	}

	return vm, err
}

// FindNow is Find without the snapshot: every change of a VM begins with it.
func (inv *Inventory) FindNow(ctx context.Context, uuid string, last LastKnown) (*VM, error) {
	vm, _, err := inv.FindAmong(ctx, uuid, last)

	return vm, err
}

// FindAmong is FindNow and also returns the hosts' replies.
func (inv *Inventory) FindAmong(ctx context.Context, uuid string, last LastKnown) (*VM, []Reply, error) {
	vm, answers, err := inv.askFor(ctx, uuid, last)
	if Inconsistent(vm, err) {
		return inv.askFor(ctx, uuid, last)
	}

	return vm, answers, err
}

// IsGone reports whether the error means that no host has the VM. Other objects may be missing too: a network that the
// VM needs to start, a file, or the VM on the host that it has just left.
func (inv *Inventory) IsGone(ctx context.Context, uuid string, last LastKnown, err error) bool {
	if !IsNotFound(err) {
		return false
	}

	_, err = inv.FindNow(ctx, uuid, last)

	return IsNotFound(err)
}

// Inconsistent reports whether the hosts' replies may contradict each other, because hosts don't answer at the same
// moment. A VM that is handed over in between seems to run twice, or to be half of a migration without the other half.
// A VM that is off and is moved may have been on neither host when each was queried. A second query resolves it.
func Inconsistent(vm *VM, err error) bool {
	if err != nil {
		return errors.Is(err, ErrTwoCopies) || errors.Is(err, ErrAmbiguous) || IsNotFound(err)
	}

	return vm.Stranded || vm.StartInterrupted || !vm.Migrating && !vm.RestoredPaused && vm.Entry.InMigration() &&
		vm.Reason != libvirt.ReasonStartingUp
}

func (inv *Inventory) askFor(ctx context.Context, uuid string, last LastKnown) (*VM, []Reply, error) {
	answers, err := inv.AskAll(ctx, byUUID(uuid))
	if err != nil {
		return nil, nil, err
	}

	vm, err := Locate(answers, uuid, last)

	return vm, answers, err
}

// FindByName returns the VM of that name. Names are unique on a host, not in a fleet: if two VMs have the name, it
// returns ErrAmbiguous.
func (inv *Inventory) FindByName(ctx context.Context, name string) (*VM, error) {
	answers, err := inv.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	for i, a := range answers {
		if a.View == nil {
			continue
		}

		for _, e := range a.View.Domains {
			if e.Name == name {
				answers[i].Domain = e
			}
		}
	}

	uuid, err := Named(answers, name)
	if err != nil {
		return nil, err
	}

	return inv.Find(ctx, uuid, LastKnown{})
}

// Named returns the UUID of the only VM of that name among the replies.
func Named(answers []Reply, name string) (string, error) {
	uuids := make(map[string][]string)

	for _, a := range answers {
		if a.Domain != nil {
			uuids[a.Domain.UUID] = append(uuids[a.Domain.UUID], a.Host.Name)
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
		Detail: "several VMs have this name: " + strings.Join(found, "; "),
		Remedy: "Name the VM by its UUID.",
	}
}

// Locate decides where the VM is, from the hosts' replies about it.
func Locate(answers []Reply, uuid string, last LastKnown) (*VM, error) {
	var active, defined []Reply

	for _, a := range answers {
		switch {
		case a.Domain == nil:
		case a.Domain.Active():
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
	case home.Domain.InMigration() && len(active) == 1 && last.Host != "" && !home.isLast(last):
		// Only one half of the migration is seen; the other half may run on the unreachable host.
		err = lastHostAnswered(answers, uuid, last)
	}

	if err == nil && home.Domain.Active() && !migrating {
		err = outdated(*home, defined, uuid)
	}

	if err != nil {
		return nil, err
	}

	vm, err := NewVM(*home)
	if err != nil {
		return nil, err
	}

	vm.SilentHosts, vm.asked = SilentHosts(answers), hostNamesOf(answers)
	vm.SetPeers(peers(answers))

	vm.noteDefined(slices.DeleteFunc(slices.Clone(defined), func(a Reply) bool { return a.Host == home.Host }))

	vm.twins = twinsOf(vm, *home, defined)

	vm.Stranded = migrating && vm.strandedAmong(answers)
	restored := len(active) == 1 && vm.Entry.jobOver && vm.OpenMigration() == nil
	vm.StartInterrupted = restored && vm.startsFromSaved()
	vm.RestoredPaused = restored && !vm.StartInterrupted
	vm.Migrating = migrating && !vm.Stranded && !restored
	vm.LeftSource = leftSource(active)
	vm.ActiveHosts, vm.HostStates = roles(active, vm.Migrating), statesOf(active)

	return vm, nil
}

// pickActive returns the host that the VM runs on, or nil. During a migration two hosts have the VM: the target is the
// one that waits for the VM's memory.
func pickActive(active []Reply, uuid string, last LastKnown) (home *Reply, migrating bool, err error) {
	switch len(active) {
	case 0:
		return nil, false, nil
	case 1:
		return &active[0], active[0].leaving(last), nil
	case 2:
		switch first, second := active[0].Domain, active[1].Domain; {
		case second.InMigration() && !first.InMigration():
			return &active[0], true, nil
		case first.InMigration() && !second.InMigration():
			return &active[1], true, nil
		case first.InMigration() && (first.Reason != libvirt.ReasonStartingUp || second.Reason != libvirt.ReasonStartingUp):
			// It is handed over: the source has stopped, and the target hasn't resumed. Only the source has a definition that
			// outlives its process.
			if second.Persistent && !first.Persistent || second.Persistent == first.Persistent && active[1].isLast(last) {
				return &active[1], true, nil
			}

			return &active[0], true, nil
		}
	}

	return nil, false, &Error{
		VM: active[0].Domain.Name, Kind: ErrTwoCopies,
		Detail: fmt.Sprintf("it (UUID %s) runs on hosts %s at the same time; neither copy is touched",
			uuid, QuoteList(hostNamesOf(active))),
		Remedy: "Find out which copy is the right one, and destroy and undefine the other with virsh on its host.",
	}
}

// leaving reports whether the only visible copy is one half of a migration. A copy that waits for memory on a host that
// didn't have the VM before isn't one: it may as well be a VM that starts.
func (a Reply) leaving(last LastKnown) bool {
	switch a.Domain.Reason {
	case libvirt.ReasonStartingUp:
		return false
	case libvirt.ReasonMigration:
		return a.Domain.InMigration() && a.isLast(last)
	default:
		return a.Domain.InMigration()
	}
}

// roles returns the role of each host that has a hypervisor process of the VM.
func roles(active []Reply, migrating bool) map[string]status.Role {
	all := make(map[string]status.Role, len(active))

	for _, a := range active {
		switch {
		case !migrating:
			all[a.Host.Name] = status.RoleActive
		case a.Domain.isTarget(active):
			all[a.Host.Name] = status.RoleTarget
		default:
			all[a.Host.Name] = status.RoleSource
		}
	}

	return all
}

// statesOf returns the state of the VM on each host that has a process of it.
func statesOf(active []Reply) map[string]string {
	all := make(map[string]string, len(active))
	for _, a := range active {
		all[a.Host.Name] = fmt.Sprintf("%s (%s)", a.Domain.State,
			status.ShownReason(a.Domain.State.String(), a.Domain.Reason))
	}

	return all
}

// isTarget reports whether this copy of a migrating VM is the target's. The target gets its persistent definition at
// the end, so until then only the source has one. If that doesn't decide it, the state of the process does.
func (e *Entry) isTarget(active []Reply) bool {
	for _, a := range active {
		if a.Domain != e && a.Domain.Persistent != e.Persistent {
			return a.Domain.Persistent
		}
	}

	switch e.Reason {
	case libvirt.ReasonStartingUp:
		return true
	case libvirt.ReasonPostcopy, libvirt.ReasonPostcopyFailed:
		return e.State == libvirt.Running
	case libvirt.ReasonMigration:
		// A copy without a definition that is the only one is just arriving.
		return len(active) == 1 && !e.Persistent
	default:
		return e.State == libvirt.Running && e.Reason == libvirt.ReasonMigrated && e.Persistent && len(active) > 1
	}
}

// isLast reports whether this host had the VM last. The host's UUID decides if it is known: the name is only what the
// configuration calls it.
func (a Reply) isLast(last LastKnown) bool {
	if a.Info != nil && last.HostUUID != "" {
		return a.Info.UUID == last.HostUUID
	}

	return last.Host != "" && a.Host.Name == last.Host
}

// absent returns why the VM was not found: no host has it, or a host did not answer.
func absent(answers []Reply, vm string, last LastKnown) error {
	if last.Host != "" {
		if err := lastHostAnswered(answers, vm, last); err != nil {
			return err
		}
	}

	for _, a := range answers {
		if a.Err != nil {
			return Unreachable(a, vm, "the VM was not found on the others, and may be there")
		}
	}

	return &Error{VM: vm, Kind: ErrNotFound, Detail: "no host has it"}
}

// lastHostAnswered returns nil if the VM's last host was queried or is fenced, else why its reply is unknown.
func lastHostAnswered(answers []Reply, vm string, last LastKnown) error {
	for _, a := range answers {
		if a.Info != nil && last.HostUUID != "" && a.Info.UUID == last.HostUUID {
			return nil
		}
	}

	for _, a := range answers {
		if a.Host.Name != last.Host {
			continue
		}

		switch {
		case a.Fenced():
			return nil
		case a.Err != nil:
			return Unreachable(a, vm, "it had the VM last")
		case last.HostUUID == "" || a.Info.UUID == "":
			return nil
		default:
			return &Error{
				VM: vm, Host: last.Host, Kind: ErrUnconfigured,
				Detail: fmt.Sprintf("the VM was last on host %q with UUID %s, but that name now leads to the host "+
					"with UUID %s", last.Host, last.HostUUID, a.Info.UUID),
				Remedy: fmt.Sprintf("Set hosts.%s to the old host again. Or, if the old host is off, give the "+
					"new one another name and keep hosts.%s with fenced = true: its VMs are then created on other hosts.",
					last.Host, last.Host),
			}
		}
	}

	return &Error{
		VM: vm, Host: last.Host, Kind: ErrUnconfigured,
		Detail: fmt.Sprintf("the VM was last on host %q, which is not among the configured hosts any more", last.Host),
		Remedy: fmt.Sprintf("Add %q to hosts again. If the host is off, add it with fenced = true: its VMs are then "+
			"created on other hosts.", last.Host),
	}
}

// Unreachable returns the error that the host of the reply could have the VM and did not answer.
func Unreachable(a Reply, vm, why string) error {
	return &Error{
		VM: vm, Host: a.Host.Name, Kind: ErrUnreachable, Err: a.Err,
		Detail: fmt.Sprintf("host %q does not answer; %s", a.Host.Name, why),
		Remedy: fmt.Sprintf("Bring host %q back. Or make sure that it is off, then set hosts.%s.fenced = true: its VMs are "+
			"then created on other hosts.", a.Host.Name, a.Host.Name),
	}
}

// SilentHosts returns the names of the hosts that were queried and did not answer.
func SilentHosts(answers []Reply) []string {
	var names []string

	for _, a := range answers {
		if a.Err != nil {
			names = append(names, a.Host.Name)
		}
	}

	return names
}

func hostNamesOf(answers []Reply) []string {
	names := make([]string, len(answers))
	for i, a := range answers {
		names[i] = a.Host.Name
	}

	return names
}
