package inventory

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// withRecord returns the reply with a definition that has this record of a migration.
func withRecord(t *testing.T, a Reply, record domain.Migration) Reply {
	t.Helper()

	d, err := domain.Parse(a.Domain.PersistentXML)
	if err != nil {
		t.Fatal(err)
	}

	if err := d.SetMetadata(domain.Metadata{}.WithMigration(record)); err != nil {
		t.Fatal(err)
	}

	xml, err := d.XML()
	if err != nil {
		t.Fatal(err)
	}

	e := a.Domain.Domain
	e.PersistentXML = xml

	if e.Active() {
		e.LiveXML = xml
	}

	a.Domain = NewEntry(e)

	return a
}

// A host may have another name now than when a migration was recorded, and another host may have its name. The record's
// hosts are those with the recorded UUIDs. A record of an earlier version, without UUIDs, is read as it is.
func TestLocate_namesTheHostsOfRecords(t *testing.T) {
	t.Parallel()

	type hosts struct{ source, target string }

	swapped := domain.Migration{
		SourceHost: "kvm2", TargetHost: "kvm1", SourceUUID: "uuid-of-kvm1", TargetUUID: "uuid-of-kvm2",
	}
	old := swapped
	old.SourceUUID, old.TargetUUID = "", ""
	replaced := swapped
	replaced.SourceHost, replaced.SourceUUID = "kvm3", "uuid-of-a-host-that-is-gone"

	for what, c := range map[string]struct {
		record domain.Migration
		others []Reply
		want   hosts
	}{
		"two hosts swapped names":        {swapped, []Reply{hasNot("kvm2")}, hosts{"kvm1", "kvm2"}},
		"an earlier version recorded it": {old, []Reply{hasNot("kvm2")}, hosts{"kvm2", "kvm1"}},
		"a host that has the name is new": {
			replaced, []Reply{hasNot("kvm2"), hasNot("kvm3")}, hosts{"kvm3 (UUID uuid-of-a-host-that-is-gone)", "kvm2"},
		},
		"the host may be a silent one": {replaced, []Reply{hasNot("kvm2"), silent("kvm3")}, hosts{"kvm3", "kvm2"}},
		"the target is silent, and the source has its name": {
			swapped, []Reply{silent("kvm2")}, hosts{"kvm1", "kvm1 (UUID uuid-of-kvm2)"},
		},
	} {
		answers := append([]Reply{withRecord(t, runs("kvm1"), c.record)}, c.others...)

		vm, err := Locate(answers, vmUUID, LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		record := vm.OpenMigration()
		if got := (hosts{record.SourceHost, record.TargetHost}); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}

		if record.SourceUUID != c.record.SourceUUID || record.TargetUUID != c.record.TargetUUID {
			t.Errorf("%s: other UUIDs are recorded: %+v", what, record)
		}
	}
}

// A cold move that was interrupted before it removed the source's definition: that definition is the unfinished one,
// whatever the hosts are called by now.
func TestDefinitions_unfinishedMoveOfRenamedHosts(t *testing.T) {
	t.Parallel()

	cold := domain.Migration{Method: migration.MethodCold, SourceHost: "kvm1", TargetHost: "kvm2"}
	swapped := domain.Migration{
		Method: migration.MethodCold, SourceHost: "kvm2", TargetHost: "kvm1", SourceUUID: "uuid-of-kvm1",
		TargetUUID: "uuid-of-kvm2",
	}

	for what, record := range map[string]domain.Migration{
		"two hosts swapped names": swapped, "an earlier version recorded it": cold,
	} {
		var answers []Reply
		for _, name := range []string{"kvm1", "kvm2"} {
			answers = append(answers, withRecord(t, said(name, libvirt.Shutoff, "Unknown"), record))
		}

		definitions := definitionsOf(answers, LastKnown{})
		if got := definitions[0].Unfinished; !slices.Equal(got, []string{"uuid-of-kvm2"}) {
			t.Errorf("%s: the source has an unfinished move to %q", what, got)
		}

		if got := definitions[1].Unfinished; len(got) > 0 {
			t.Errorf("%s: the target has an unfinished move to %q", what, got)
		}
	}
}
