package fleet

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A host whose maintenance is over is no host that may be switched off, whatever a host says that couldn't be told.
func TestLab_maintenanceIsOverEverywhere(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	a, b, c := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", a, b, c)

	// Every maintenance has an id of its own, as those of the resource have.
	id := func(host *lab.Host) string { return "maintenance of " + host.Name }
	drainHost := func(host *lab.Host) {
		t.Helper()

		if _, err := f.Drain(t.Context(), Drain{Host: host.Name, ID: id(host), Why: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	off := func(what string, f *Fleet, want bool) {
		t.Helper()
		f.ForgetAll()

		if got := f.SwitchedOff(t.Context(), a.Name); got != want {
			t.Errorf("%s: it counts as switched off: %t", what, got)
		}
	}

	drainHost(a)
	off("drained", f, true)

	// It loses its record, and isn't cordoned any more. That isn't forgotten when another host is drained.
	for line := range strings.Lines(l.Virsh(t, a.Name, "secret-list")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == inventory.RecordUsage {
			l.Virsh(t, a.Name, "secret-undefine", fields[0])
		}
	}

	f.ForgetAll()
	drainHost(b)
	f.ForgetAll()

	if f.LostMaintenance(t.Context(), a.Name, id(a), &hostrecord.Record{}) == nil {
		t.Error("when another host is drained, a maintenance is forgotten whose host has lost its record")
	}

	drainHost(a)

	on := l.PowerOff(t, b)

	if _, err := f.Release(t.Context(), a.Name, id(a), drain.Restore{}); err != nil {
		t.Fatal(err)
	}

	on()
	off("released while another was off", ownFleet(t, "alice", b, c), false)
	off("released while the only other one was off", ownFleet(t, "alice", a, b), false)

	// Drained again, it may be off again; given up, it isn't under maintenance.
	drainHost(a)
	off("drained again", f, true)

	if _, err := f.Release(t.Context(), a.Name, "an earlier maintenance", drain.Restore{}); err != nil {
		t.Fatal(err)
	}

	off("an earlier maintenance was destroyed", f, true)

	given := labFleet(t, &lab.Lab{Hosts: []*lab.Host{a, b, c}}, "alice", func(name string, hc *inventory.HostConfig) {
		hc.Fenced = name == a.Name
	})
	if _, err := given.Release(t.Context(), a.Name, id(a), drain.Restore{}); err != nil {
		t.Fatal(err)
	}

	off("released when it was given up", f, false)
}
