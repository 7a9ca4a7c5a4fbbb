package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Once cordoned, a host takes no VMs: neither new ones nor moved ones, and neither from the run that cordoned it nor
// from another.
func TestLab_cordonHoldsForEveryRun(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	own := l.StartHost(t).Name // Cordoned, a shared one would block other tests.
	alice, bob := labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)
	vm := create(t, bob, l, mover(t, l, "noagent"))
	const id = "test-cordon"

	// Bob has read the host before.
	if r, err := bob.Record(t.Context(), own); err != nil || r.Cordon != nil {
		t.Fatalf("before: %+v, %v", r, err)
	}

	if err := alice.Cordon(t.Context(), own, id, "new memory"); err != nil {
		t.Fatal(err)
	}

	defer func() {
		if err := alice.Uncordon(t.Context(), own, id); err != nil {
			t.Error(err)
		}
	}()

	if err := bob.Cordon(t.Context(), own, "another", "a test"); !errors.Is(err, inventory.ErrExists) ||
		!strings.Contains(err.Error(), `cordoned by alice since`) {
		t.Errorf("cordoned twice: %v", err)
	}

	if err := bob.Uncordon(t.Context(), own, "another"); err != nil {
		t.Error(err)
	}

	_, state, err := bob.Move(t.Context(), vm.UUID, lastOf(vm), own, migration.Options{})
	if !errors.Is(err, ErrBlocked) || !state.Start.IsZero() || !strings.Contains(err.Error(), migration.HostCordoned) ||
		!strings.Contains(err.Error(), "new memory") {
		t.Errorf("moving to it: %v", err)
	}

	// Who is pinned to it may be so after the maintenance, which the same plan may end.
	problems, err := alice.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: own}, nil)
	if err != nil || len(problems) == 0 || !problems[0].Warning || problems[0].Remedy == "" ||
		!strings.Contains(problems[0].Detail, "new memory") {
		t.Errorf("checking a pin to it: %+v, %v", problems, err)
	}

	problems, err = alice.CheckMigration(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: own})
	if err != nil || len(problems) == 0 || problems[0].Warning || problems[0].Remedy == "" ||
		!strings.HasSuffix(problems[0].Summary, migration.HostCordoned) {
		t.Errorf("checking a migration to it: %+v, %v", problems, err)
	}

	d := guest(l, lab.Name(t)+"-2", "noagent")
	d.Metadata.Host = own
	bob.Host(own).Forget()

	problems, err = bob.CheckCreate(t.Context(), d)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, "it is cordoned by alice since") ||
		!strings.Contains(problems[0].Remedy, fmt.Sprintf("end the maintenance of host %q", own)) ||
		problems[0].Next != EndMaintenance {
		t.Errorf("pinned to it: %+v, %v", problems, err)
	}

	if _, err := bob.Create(t.Context(), d); !errors.Is(err, placement.ErrNoHost) {
		t.Errorf("created on it: %v", err)
	}

	// Who is pinned nowhere goes elsewhere, although this host has the most room.
	bob.Host(own).Config.MemoryLimit = 1 << 50
	if placed := create(t, bob, l, light(t, l, "unpinned", nil)); placed.Host == own {
		t.Errorf("placed on it: %+v", placed)
	}

	if err := alice.Uncordon(t.Context(), own, id); err != nil {
		t.Fatal(err)
	}

	bob.Host(own).Forget()

	if placed := create(t, bob, l, light(t, l, "later", nil)); placed.Host != own {
		t.Errorf("placed on host %q; want the one that has the most room and takes VMs again", placed.Host)
	}

	_, err = alice.Host(own).Conn.OwnSecret(t.Context(), inventory.RecordUsage)
	if !errors.Is(err, inventory.ErrNotFound) {
		t.Errorf("an empty record is left: %v", err)
	}

	if now, _, err := bob.Move(t.Context(), vm.UUID, lastOf(vm), own, migration.Options{}); err != nil ||
		now.Host != own {
		t.Errorf("after it was uncordoned: %+v, %v", now, err)
	}
}

// Two runs that change one record at once lose nothing, and what a newer version wrote is refused with a way out.
func TestLab_recordIsChangedByOneAtATime(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	own := l.StartHost(t).Name
	fleets := []*Fleet{labFleet(t, l, "alice", nil), labFleet(t, l, "bob", nil)}
	prefix := lab.Name(t)
	timeout := 90 * time.Second
	done := make(chan error, len(fleets))

	for i, f := range fleets {
		go func() {
			done <- f.ChangeRecord(t.Context(), f.Host(own), func(r *hostrecord.Record) error {
				r.EvictionPolicies = append(r.EvictionPolicies, evacuation.Policy{
					Identity: policy.Identity{ID: prefix + string(rune('a'+i)), Name: prefix},
					Strategy: evacuation.LiveMigrate, Timeout: &timeout, Options: migration.Options{MaxDowntime: &timeout},
				})

				return nil
			})
		}()
	}

	for range fleets {
		if err := fleettest.Await(t, done); err != nil {
			t.Fatal(err)
		}
	}

	mine := func(p evacuation.Policy) bool { return strings.HasPrefix(p.ID, prefix) }

	fleets[0].Host(own).Forget()

	r, err := fleets[0].Record(t.Context(), own)
	if err != nil || !slices.ContainsFunc(r.EvictionPolicies, mine) {
		t.Fatalf("%+v, %v", r, err)
	}

	others := slices.DeleteFunc(slices.Clone(r.EvictionPolicies), mine)
	if len(r.EvictionPolicies)-len(others) != len(fleets) {
		t.Errorf("policies %+v; want one of each run", r.EvictionPolicies)
	}

	p := r.EvictionPolicies[slices.IndexFunc(r.EvictionPolicies, mine)]
	if *p.Timeout != timeout || *p.Options.MaxDowntime != timeout {
		t.Errorf("read back: %+v", p)
	}

	err = fleets[0].ChangeRecord(t.Context(), fleets[0].Host(own), func(r *hostrecord.Record) error {
		r.EvictionPolicies = slices.DeleteFunc(r.EvictionPolicies, mine)

		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A record that this version doesn't understand is left alone, with a way out.
func TestLab_newerRecordIsRefused(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	own := l.StartHost(t).Name
	f := labFleet(t, l, "alice", nil)
	h := f.Host(own)

	for value, want := range map[string]string{`{"version":99,"cordon":{}}`: "newer version", "{": "can't be read"} {
		secret := libvirt.OwnSecret{UsageID: inventory.RecordUsage, Value: []byte(value)}
		if err := h.Conn.DefineOwnSecret(t.Context(), secret); err != nil {
			t.Fatal(err)
		}

		err := f.Cordon(t.Context(), own, "x", "a test")
		if !errors.Is(err, inventory.ErrInvalid) || !strings.Contains(err.Error(), want) || errRemedy(err) == "" {
			t.Errorf("%s: %v", value, err)
		}

		if err := h.Conn.UndefineOwnSecret(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
}
