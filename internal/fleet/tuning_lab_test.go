package fleet

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A policy holds for every run from the moment that it is written, and what another host says of it counts where the
// VM's own says nothing. A record keeps what a move began with.
func TestLab_migrationPolicyHoldsForEveryRun(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alice, bob := ownFleet(t, "alice", from, to), ownFleet(t, "bob", from, to)
	vm := create(t, ownFleet(t, "alice", from), l, evacuee(t, l, "tuned", map[string]string{"tier": "prod"}))

	vm, err := alice.FindNow(t.Context(), vm.UUID, lastOf(vm))
	if err != nil {
		t.Fatal(err)
	}

	effective, err := alice.MigrationOptionsOf(t.Context(), vm, migration.Options{})
	if err != nil || effective.Policy != "" || *effective.Options.Bandwidth != 0 {
		t.Fatalf("before: %+v, %v", effective, err)
	}

	prod := migration.Policy{
		Identity: policy.Identity{ID: "1", Name: "prod", Selector: policy.Selector{Labels: vm.Metadata.Labels}},
		Options:  migration.Options{Bandwidth: new(uint64(64 << 20)), AllowAutoConverge: new(true)},
	}
	if lacking, err := bob.MigrationPolicies().Put(t.Context(), prod); err != nil || len(lacking) > 0 {
		t.Fatalf("%q, %v", lacking, err)
	}

	moved := func(own migration.Options, target string, parts ...string) {
		t.Helper()

		now, _, err := alice.Move(t.Context(), vm.UUID, lastOf(vm), target, own)
		if err != nil || now.Host != target {
			t.Fatalf("%+v, %v", now, err)
		}

		vm = now
		recorded(t, l, target, vm.UUID, parts...)
	}

	// Alice has read the host's record before.
	moved(migration.Options{}, to.Name, `policy="prod"`, `"Bandwidth":67108864`, `"AllowAutoConverge":true`)

	// The host that has the VM lost its copy.
	if err := bob.ChangeRecord(t.Context(), bob.Host(to.Name), func(r *hostrecord.Record) error {
		r.MigrationPolicies = nil

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	moved(migration.Options{Bandwidth: new(uint64(96 << 20))}, from.Name, `policy="prod"`, `"Bandwidth":100663296`,
		`"Bandwidth":67108864`, `"AllowAutoConverge":true`)

	if left, err := bob.MigrationPolicies().Remove(t.Context(), "1"); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}

	moved(migration.Options{}, to.Name, `"AllowAutoConverge":false`)

	last := vm.Metadata.Migrations[len(vm.Metadata.Migrations)-1]
	if o, err := migration.ParseOptions(last.Options); err != nil || last.Policy != "" || *o.Bandwidth != 0 {
		t.Errorf("without a policy: %+v, %v", last, err)
	}

	for _, h := range []*lab.Host{from, to} {
		if out := l.Virsh(t, h.Name, "secret-list"); strings.Contains(out, inventory.RecordUsage) {
			t.Errorf("left on host %s: %s", h.Name, out)
		}
	}
}
