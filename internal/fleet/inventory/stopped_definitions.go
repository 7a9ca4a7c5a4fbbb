package inventory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/location"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// forgotten is libvirt's reason for a domain that was never started on its host, or not since the daemon was restarted.
const forgotten = "Unknown"

// definitionsOf returns what location.Choose needs to decide which of several definitions is the VM.
func definitionsOf(answers []Reply, last LastKnown) []location.Definition {
	all := make([]location.Definition, len(answers))

	for i, a := range answers {
		d := location.Definition{Ran: a.Domain.Reason != forgotten, Last: a.isLast(last), LocalData: a.Domain.ManagedSave}
		if a.Info != nil {
			d.HostUUID = a.Info.UUID
		}

		if definition := a.Domain.Parse().Persistent; definition != nil && len(answers) > 1 {
			m := definition.Metadata()
			d.Generation, d.Document = m.Generation, definition.Canonical()
			d.LocalData = d.LocalData || localData(definition)
			d.Unfinished = append(unfinishedCopies(m, d.HostUUID), unfinishedMove(m, a, answers)...)
		}

		all[i] = d
	}

	return all
}

// unfinishedCopies returns the UUIDs of the hosts on which a move from that host left files.
func unfinishedCopies(m domain.Metadata, from string) []string {
	var hosts []string

	for _, c := range m.Copies {
		if c.FromUUID == from && !c.Creating { // the definition is created after the copies
			hosts = append(hosts, c.HostUUID)
		}
	}

	return hosts
}

// unfinishedMove returns the UUID of the target of an unfinished move of the definition alone, if it started on the
// host of from. Such a move removes the source's definition last.
func unfinishedMove(m domain.Metadata, from Reply, answers []Reply) []string {
	n := len(m.Migrations)
	if n == 0 {
		return nil
	}

	last := named(m.Migrations, peers(answers))[n-1]
	if last.Completed() || last.Method != migration.MethodCold || last.SourceHost != from.Host.Name {
		return nil
	}

	for _, a := range answers {
		if a.Host.Name == last.TargetHost && a.Info != nil {
			return []string{a.Info.UUID}
		}
	}

	return nil
}

// localData reports whether a VM has data on its host that may differ from the data on another host.
func localData(definition *domain.Definition) bool {
	m := definition.Mobility()

	return m.NVRAM != "" || m.NVRAMOther != "" || m.NVRAMUnnamed || m.TPM == "emulator" ||
		slices.ContainsFunc(m.Disks, func(d domain.MobileDisk) bool {
			return !d.ReadOnly && !d.Empty && !d.Network && !d.Shared
		})
}

// undecided returns the error that nothing proves which of the definitions is the VM, with what is known of each.
func undecided(answers []Reply, uuid string) error {
	return &Error{
		VM: answers[0].Domain.Name, Kind: ErrAmbiguous,
		Detail: fmt.Sprintf("it (UUID %s) is defined and off on hosts %s, and nothing proves which definition is the right "+
			"one:%s", uuid, QuoteList(hostNamesOf(answers)), sides(answers)),
		Remedy: keepRemedy(uuid),
	}
}

// outdated returns an error if the VM runs from a definition older than the last one that was written.
func outdated(home Reply, defined []Reply, uuid string) error {
	generation := home.Domain.Generation()

	newer := location.Newer(generation, definitionsOf(append([]Reply{home}, defined...), LastKnown{})[1:])
	if len(newer) == 0 {
		return nil
	}

	both := []Reply{home}
	for _, i := range newer {
		both = append(both, defined[i])
	}

	return &Error{
		VM: home.Domain.Name, Host: home.Host.Name, Kind: ErrAmbiguous,
		Detail: fmt.Sprintf("it (UUID %s) runs on host %q, but was changed elsewhere after that definition was written:%s",
			uuid, home.Host.Name, sides(both)),
		Remedy: keepRemedy(uuid) + " If the running copy is the wrong one, shut it down before.",
	}
}

// sides describes what each host reports about the VM, as far as it helps to decide.
func sides(answers []Reply) string {
	var b strings.Builder

	for _, a := range answers {
		fmt.Fprintf(&b, "\n  - host %q: %s (%s)", a.Host.Name, a.Domain.State, a.Domain.Reason)

		definition := a.Domain.Parse().Definition()
		if definition == nil {
			continue
		}

		m := definition.Metadata()
		fmt.Fprintf(&b, ", generation %d", m.Generation)

		if n := len(m.Migrations); n > 0 {
			last := m.Migrations[n-1]
			fmt.Fprintf(&b, ", last recorded migration from %q to %q, begun %s", last.SourceHost, last.TargetHost,
				last.Start.UTC().Format("2006-01-02 15:04:05 MST"))
		}

		for _, d := range definition.Mobility().Disks {
			if d.Path != "" && !d.ReadOnly {
				fmt.Fprintf(&b, ", disk %q is %q", d.Key, d.Path)
			}
		}

		if a.Domain.ManagedSave {
			b.WriteString(", a memory image is saved")
		}
	}

	return b.String()
}

// keepRemedy returns the remedy: how a user decides which definition to keep.
func keepRemedy(uuid string) string {
	return fmt.Sprintf("Find out where it ran last (compare the times of its disks and of QEMU's logs on these hosts). "+
		"Then, on each other host, save the definition (\"virsh dumpxml --inactive %[1]s >old.xml\"), run \"virsh undefine "+
		"--keep-nvram --keep-tpm %[1]s\", and try again: the hosts may share what these options keep. (virsh "+
		"before 8.9.0 has no --keep-tpm, and removes the TPM's state.)", uuid)
}
