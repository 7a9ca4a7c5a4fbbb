package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A policy that is removed while a host is given up, is not configured or doesn't answer is not in force again when
// that one is back, though it has its copy still. The next one who writes policies removes that, and the note of it.
func TestLab_removedPolicyStaysRemoved(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	here, away := l.StartHost(t), l.StartHost(t)
	all := ownFleet(t, "alice", here, away)
	named := policy.Identity{ID: "a-1", Name: "prod"}

	put := func(id string) {
		t.Helper()

		who := named
		who.ID = id

		if _, err := all.EvictionPolicies().Put(t.Context(), evacuation.Policy{
			Identity: who, Strategy: evacuation.None,
		}); err != nil {
			t.Fatal(err)
		}

		if _, err := all.MigrationPolicies().Put(t.Context(), migration.Policy{Identity: who}); err != nil {
			t.Fatal(err)
		}
	}
	// inForce are the ids of the policies that hold for VMs on the host.
	inForce := func(f *Fleet, host string) string {
		t.Helper()

		known, err := f.Records(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		evictions, err := f.EvictionPolicies().ForVMsOn(f.Host(host), known)
		if err != nil {
			t.Fatal(err)
		}

		migrations, err := f.MigrationPolicies().ForVMsOn(f.Host(host), known)
		if err != nil {
			t.Fatal(err)
		}

		var ids []string
		for _, p := range evictions {
			ids = append(ids, p.ID)
		}

		for _, p := range migrations {
			ids = append(ids, p.ID)
		}

		return strings.Join(ids, " ")
	}
	// kept is how often the host's record names the policy.
	kept := func(host, id string) int {
		t.Helper()

		secret, err := all.Host(host).Conn.OwnSecret(t.Context(), inventory.RecordUsage)
		if inventory.IsNotFound(err) {
			return 0
		}

		if err != nil {
			t.Fatal(err)
		}

		return strings.Count(string(secret.Value), id)
	}

	put(named.ID)

	if got := inForce(all, away.Name); got != "a-1 a-1" {
		t.Fatalf("in force are %q", got)
	}

	// remove destroys the policies of that id, as far as the fleet reaches.
	remove := func(cfg Config, id string) error {
		t.Helper()

		f := openFleet(t, cfg)
		_, evictionErr := f.EvictionPolicies().Remove(t.Context(), id)
		_, migrationErr := f.MigrationPolicies().Remove(t.Context(), id)

		for _, h := range all.Configured {
			h.Forget()
		}

		return errors.Join(evictionErr, migrationErr)
	}
	without := func(cfg inventory.HostConfig) Config {
		of := ownConfig("alice", here)
		of.Hosts[away.Name] = cfg

		return of
	}

	// goes destroys the policies of that id without the other host, which comes back then.
	goes := func(cfg Config, id, next string) {
		t.Helper()

		if err := remove(cfg, id); err != nil {
			t.Fatal(err)
		}

		if kept(away.Name, id) != 2 {
			t.Fatal("the host that was away has lost its copies, which are what this is about")
		}

		for _, h := range []string{here.Name, away.Name} {
			if got := inForce(all, h); got != "" {
				t.Errorf("on host %s %s is in force again", h, got)
			}
		}

		// Another of the same name is a new one, and writing it cleans up.
		put(next)

		for _, h := range []string{here.Name, away.Name} {
			if got := inForce(all, h); got != next+" "+next || kept(h, id) != 0 {
				t.Errorf("on host %s %s is in force, and %d traces of the removed one are left", h, got, kept(h, id))
			}
		}
	}
	goes(without(inventory.HostConfig{Fenced: true}), named.ID, "n-1")
	goes(ownConfig("alice", here), "n-1", "b-2") // Taken out of the configuration.

	// One that doesn't answer is told, and given up afterwards, so that no run tries again.
	err := remove(without(inventory.HostConfig{URI: "qemu+unix:///system?socket=/nowhere"}), "b-2")
	if err == nil || !strings.Contains(err.Error(), away.Name) {
		t.Errorf("removing it from a host that is silent: %v", err)
	}

	if got := inForce(all, away.Name); got != "" || kept(away.Name, "b-2") != 2 {
		t.Errorf("%q is in force again; %d copies", got, kept(away.Name, "b-2"))
	}

	// Who tries again after all leaves nothing.
	if err := remove(ownConfig("alice", here, away), "b-2"); err != nil {
		t.Error(err)
	}

	for _, h := range all.Configured {
		if _, err := h.Conn.OwnSecret(t.Context(), inventory.RecordUsage); !inventory.IsNotFound(err) {
			t.Errorf("a record is left on host %s: %v", h.Name, err)
		}
	}
}
