package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// While a drain follows given steps the world changes: nothing more is begun, what runs is broken off as by a cancel,
// and the error says what changed and what is where. What is planned then continues with it, and is what is recorded.
func TestLab_drainStopsWhereStepsNoLongerHold(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to, away := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to, away)
	bob := ownFleet(t, "bob", from, to, away)

	for _, fleet := range []*fleet.Fleet{f, bob} {
		fleet.Host(to.Name).Config.MemoryLimit = 1 << 50 // The emptiest, so all go there.
	}

	made := map[string]*inventory.VM{}

	for _, name := range []string{"quick", "slow", "waiting"} {
		d := light(t, l, name, map[string]string{"kind": name})

		if name != "waiting" {
			d = evacuee(t, l, name, d.Metadata.Labels)
			d.Spec.Kernel.Cmdline += " dirty=16"
		}

		made[name] = create(t, alone, l, d)
	}

	booted(t, l, made["quick"])
	booted(t, l, made["slow"])

	late := strings.ReplaceAll(made["waiting"].Name, "waiting", "late")
	rule := crawl(t, f, policy.Selector{Names: []string{made["quick"].Name, made["slow"].Name}})
	rule.Priority = 1

	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()

	steps := planned(t, f, from.Name, false)
	over := following(ctx, f, from.Name, steps)

	// Two are moved, as many as may be at a time, and one waits.
	for _, name := range []string{"quick", "slow"} {
		fleettest.AwaitCopying(t, alone.Host(from.Name), made[name].UUID, over)
	}

	l.Define(t, from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`, late))
	l.RemoveDomain(t, late)
	l.Virsh(t, from.Name, "start", late)

	if err := bob.Cordon(ctx, to.Name, "b", "another test"); err != nil {
		t.Fatal(err)
	}

	end := hurry(t, l, from, made["quick"].UUID, over)
	if got := resultsOf(end.steps); got != "quick=Moved slow=Failed waiting=" || !errors.Is(end.err, move.ErrNotMoved) {
		t.Fatalf("%s, %v", got, end.err)
	}

	for _, want := range []string{
		"the steps no longer hold", fmt.Sprintf("%q has come to host", late),
		fmt.Sprintf("%q can't go to host %q any more: %s", made["waiting"].Name, to.Name, migration.HostCordoned),
		fmt.Sprintf("done are %q Moved", made["quick"].Name),
		fmt.Sprintf("%q (LiveMigration): it was not moved", made["slow"].Name),
		fmt.Sprintf("%q (LiveMigration): it was not begun", made["waiting"].Name),
	} {
		if !strings.Contains(end.err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, end.err)
		}
	}

	for _, name := range []string{"slow", "waiting"} {
		vm, err := alone.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if got := howStarted(t, f, made[name].UUID); err != nil || got != from.Name+" Running Booted" ||
			vm.Metadata.Eviction != nil {
			t.Errorf("%s is %s; %+v, %v", name, got, vm, err)
		}
	}

	if err := bob.Uncordon(t.Context(), to.Name, "b"); err != nil {
		t.Fatal(err)
	}

	// What Terraform does next: it plans, deletes the unfinished one, and drains again.
	fresh := planned(t, bob, from.Name, true)

	if _, err := f.Release(ctx, from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	// Said, not left open: the way back goes by what held when a VM left, where its policy says nothing by then.
	rule.Options = migration.Options{Bandwidth: new(uint64(0)), MaxDowntime: new(2 * time.Second)}
	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	end = fleettest.Await(t, following(ctx, f, from.Name, fresh))
	if got := resultsOf(end.steps); end.err != nil || got != "late=Moved quick=Moved slow=Moved waiting=Moved" {
		t.Fatalf("again: %s, %v", got, end.err)
	}

	bob.ForgetAll()

	if now := planned(t, bob, from.Name, true); !slices.EqualFunc(now, fresh, sameStep) {
		t.Errorf("%+v was followed, and %+v is recorded", fresh, now)
	}

	if _, err := f.Release(ctx, from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{"quick": "Migrated", "slow": "Migrated", "waiting": "Migrated"} {
		if got := howStarted(t, f, made[name].UUID); got != from.Name+" Running "+want {
			t.Errorf("brought back, %s is %s", name, got)
		}
	}

	// One that has left in another way is not moved on from there.
	if _, _, err := bob.Move(t.Context(), made["waiting"].UUID, inventory.LastKnown{}, away.Name,
		migration.Options{}); err != nil {
		t.Fatal(err)
	}

	at := slices.IndexFunc(fresh, func(s evacuation.Step) bool { return s.UUID == made["waiting"].UUID })
	d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name, Steps: fresh}, hostrecord.RecordedStep{Step: fresh[at]})
	err := d.BeginStep(t.Context(), 0)
	want := fmt.Sprintf("virtual machine %q was to go to host %q, but was moved to host %q",
		made["waiting"].Name, to.Name, away.Name)

	if !slices.Contains(drain.ChangesOf(err), want) {
		t.Errorf("moved elsewhere: %v, want %q", err, want)
	}
}

// planned is what would happen to the host, which is under maintenance or isn't.
func planned(t *testing.T, f *fleet.Fleet, host string, recorded bool) []evacuation.Step {
	t.Helper()

	plan, err := f.PlanEvacuation(t.Context(), host, drain.EvacuationQuery{})
	if err != nil || plan.Recorded != recorded {
		t.Fatalf("%+v, %v", plan, err)
	}

	return plan.Steps
}
