package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// awaitResult waits until the host has recorded that of the VM.
func awaitResult(t *testing.T, h *inventory.Host, uuid, result string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for {
		r, _, err := inventory.ReadRecord(ctx, h)
		if err != nil {
			t.Fatal(err)
		}

		if r.Evacuation != nil && slices.ContainsFunc(r.Evacuation.Steps, func(s hostrecord.RecordedStep) bool {
			return s.UUID == uuid && s.Result == result
		}) {
			return
		}

		if err := admission.Pause(ctx, 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// planWhileMoving makes plans for the hosts between which a VM is moving just now: they leave it out, with a warning
// that names it. The plan of the drain that moves it has the recorded steps.
func planWhileMoving(t *testing.T, f *fleet.Fleet, from, to, moving string) {
	t.Helper()

	has := func(p drain.EvacuationPlan) bool {
		return slices.ContainsFunc(p.Steps, func(s evacuation.Step) bool { return s.Name == moving })
	}
	maintenance := drain.EvacuationQuery{Maintenance: true, ID: "another"}

	for _, asked := range []struct {
		host  string
		query drain.EvacuationQuery
	}{{to, drain.EvacuationQuery{}}, {to, maintenance}, {from, maintenance}} {
		p, err := f.PlanEvacuation(t.Context(), asked.host, asked.query)
		if err != nil || p.OnItsWay == nil || !p.OnItsWay.Warning || !strings.Contains(p.OnItsWay.Detail, moving) || has(p) {
			t.Errorf("%+v while %s moves: %+v, %v", asked, moving, p, err)
		}
	}

	if p, err := f.PlanEvacuation(t.Context(), from, drain.EvacuationQuery{}); err != nil || !p.Recorded || !has(p) {
		t.Errorf("the drain that moves %s: %+v, %v", moving, p, err)
	}
}

// A drain that is cancelled finishes what has begun where a policy says so, with all that belongs to it, and breaks off
// the rest. Nothing new begins, whatever its policy says, and the host stays cordoned.
func TestLab_drainCancelledByPolicy(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone := ownFleet(t, "alice", from)
	cfg := ownConfig("alice", from, to)
	cfg.Migration = crawling()
	cfg.MigrationLimits.OutboundPerHost, cfg.MigrationLimits.InboundPerHost = 3, 3
	f := openFleet(t, cfg)
	made := map[string]*inventory.VM{}

	for _, name := range []string{"aborted", "cold", "external", "finished", "waiting"} {
		d := light(t, l, name, map[string]string{"kind": name})

		switch name {
		case "aborted", "finished":
			d = evacuee(t, l, name, d.Metadata.Labels)
			d.Spec.Kernel.Cmdline += " dirty=16"
		case "cold":
			d.Spec.Interfaces["nat"] = domain.Interface{Network: "default"} // Each host's own, so it can't be moved live.
			d.Metadata.TerminationGracePeriod = new(time.Hour)
		case "external":
			d.Metadata.EvictionStrategy = evacuation.External // The drain doesn't move it.
		}

		made[name] = create(t, alone, l, d)
	}

	for _, name := range []string{"aborted", "finished"} { // Neither is to arrive before it is told to.
		booted(t, l, made[name])
	}

	for i, name := range []string{"cold", "finished", "waiting"} {
		if _, err := f.EvictionPolicies().Put(t.Context(), evacuation.Policy{
			Identity: policy.Identity{
				ID: name, Name: name, Selector: policy.Selector{Labels: map[string]string{"kind": name}},
			},
			Strategy: evacuation.LiveMigrate, Fallback: evacuation.ColdMigrate, OnCancel: evacuation.Finish, Priority: 1 - i,
		}); err != nil {
			t.Fatal(err)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	over := draining(ctx, f, from.Name)

	fleettest.AwaitCopying(t, alone.Host(from.Name), made["aborted"].UUID, over)
	fleettest.AwaitCopying(t, alone.Host(from.Name), made["finished"].UUID, over)

	for f.Calls()[from.Name]["virDomainShutdownFlags"] == 0 {
		if err := admission.Pause(ctx, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}

	// Who waits for its turn says so, too.
	for name, vm := range made {
		now, err := alone.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || now.Metadata.Eviction == nil || now.Metadata.Eviction.Host != from.Name {
			t.Errorf("%s doesn't carry the request: %+v, %v", name, now, err)
		}

		if why, err := alone.Evicting(t.Context(), now); err != nil || now.Active && why == "" {
			t.Errorf("%s is not said to be on its way: %q, %v", name, why, err)
		}
	}

	cancel()
	l.Virsh(t, from.Name, "destroy", made["cold"].UUID) // That is how its guest shuts down.

	end := hurry(t, l, from, made["finished"].UUID, over)
	want := "aborted=Failed cold=ColdMoved external=Failed finished=Moved waiting="

	if got := resultsOf(end.steps); got != want || !errors.Is(end.err, move.ErrNotMoved) {
		t.Fatalf("%s, %v; want %s", got, end.err, want)
	}

	for _, want := range []string{
		"it was interrupted; host \"" + from.Name + "\" is cordoned and not drained",
		fmt.Sprintf("%q Moved to host %q", made["finished"].Name, to.Name),
		fmt.Sprintf("%q ColdMoved to host %q", made["cold"].Name, to.Name),
		fmt.Sprintf("%q (LiveMigration): it was not moved", made["aborted"].Name),
		fmt.Sprintf("%q (LiveMigration): it was not begun", made["waiting"].Name),
		fmt.Sprintf("%q (External): its strategy is External, and it was not moved away", made["external"].Name),
	} {
		if !strings.Contains(end.err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, end.err)
		}
	}

	f.Host(from.Name).Forget()

	r, err := f.Record(t.Context(), from.Name)
	if err != nil || r.Cordon == nil || r.Evacuation == nil || r.Evacuation.Done || resultsOf(r.Evacuation.Steps) != want {
		t.Errorf("recorded: %+v, %v", r, err)
	}

	for name, want := range map[string]string{
		"aborted": from.Name + " Running Booted", "waiting": from.Name + " Running Booted",
		"finished": to.Name + " Running Migrated", "cold": to.Name + " Running Booted",
		"external": from.Name + " Running Booted",
	} {
		if got := howStarted(t, f, made[name].UUID); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}

	for name, want := range map[string]struct{ phase, abort string }{
		"aborted": {migration.PhaseFailed, migration.AbortSucceeded}, "waiting": {}, "external": {},
		"finished": {phase: migration.PhaseSucceeded}, "cold": {phase: migration.PhaseSucceeded},
	} {
		vm, err := f.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if err != nil || vm.Metadata.Eviction != nil || !vm.Autostart {
			t.Fatalf("%s: %+v, %v", name, vm, err)
		}

		var last domain.Migration
		if all := vm.Metadata.Migrations; len(all) > 0 {
			last = all[len(all)-1]
		}

		if last.Phase != want.phase || last.AbortStatus != want.abort {
			t.Errorf("%s: %s is recorded, abort %q", name, last.Phase, last.AbortStatus)
		}
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{}); err != nil {
		t.Error(err)
	}
}

// A drain that is interrupted leaves the host cordoned. One that is given up leaves nothing: no eviction request, no
// cordon, and no VM that is moved later although a user has started or moved it since. The next drain continues with
// VMs that nothing has changed since, whatever names the hosts have by then.
func TestLab_abandonedIsForgotten(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to, away := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	made := map[string]*inventory.VM{}
	gone := []string{"restarted", "travelled", "untouched"}

	for _, name := range gone {
		made[name] = create(t, alone, l, light(t, l, name, nil))
	}

	slow := evacuee(t, l, "slow", map[string]string{"kind": "slow"})
	slow.Spec.Kernel.Cmdline += " dirty=16"
	made["slow"] = booted(t, l, create(t, alone, l, slow))

	rule := crawl(t, f, policy.Selector{Labels: slow.Metadata.Labels})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	over := draining(ctx, f, from.Name)
	fleettest.AwaitCopying(t, alone.Host(from.Name), made["slow"].UUID, over)

	for _, name := range gone {
		awaitResult(t, alone.Host(from.Name), made[name].UUID, hostrecord.ResultMoved)
	}

	planWhileMoving(t, ownFleet(t, "carol", from, to), from.Name, to.Name, made["slow"].Name)
	cancel()

	end := fleettest.Await(t, over)
	if !errors.Is(end.err, move.ErrNotMoved) || !strings.Contains(end.err.Error(), "interrupted") ||
		!strings.Contains(end.err.Error(), "is cordoned and not drained") {
		t.Errorf("cancelled: %v", end.err)
	}

	if got := resultsOf(end.steps); got != "restarted=Moved slow=Failed travelled=Moved untouched=Moved" {
		t.Errorf("results %s", got)
	}

	f.Host(from.Name).Forget()

	if r, err := f.Record(t.Context(), from.Name); err != nil || r.Cordon == nil || r.Evacuation == nil ||
		r.Evacuation.Done {
		t.Errorf("recorded: %+v, %v", r, err)
	}

	// A run that is killed leaves its request, with the name or the UUID that the host had then.
	for name, old := range map[string]domain.Eviction{
		"slow":      {Host: "its old name", HostUUID: made["slow"].HostUUID},
		"travelled": {Host: from.Name, HostUUID: uuid.NewString()},
	} {
		vm, err := f.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		m := vm.Metadata
		old.Owner = "a run that is lost"
		m.Eviction = &old

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	f.Host(from.Name).Forget()

	if r, err := f.Record(t.Context(), from.Name); err != nil || r.Cordon != nil {
		t.Errorf("given up: %+v, %v", r, err)
	}

	// What is shown of the next drain are the VMs that it would move, not those that left before.
	if p, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{}); err != nil || p.Recorded ||
		len(p.Steps) != 1 || p.Steps[0].Name != made["slow"].Name {
		t.Errorf("planned after one that was given up: %+v, %v", p, err)
	}

	for name, want := range map[string]string{
		"slow": from.Name + " Running Booted", "restarted": to.Name + " Running Migrated",
		"travelled": to.Name + " Running Migrated", "untouched": to.Name + " Running Migrated",
	} {
		vm, err := f.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if got := howStarted(t, f, made[name].UUID); err != nil || got != want || vm.Metadata.Eviction != nil {
			t.Errorf("%s is %s, want %s; %+v, %v", name, got, want, vm, err)
		}
	}

	l.Virsh(t, to.Name, "destroy", made["restarted"].UUID)
	l.Virsh(t, to.Name, "start", made["restarted"].UUID)

	const renamedFrom, renamedTo = "renamed-source", "renamed-target"

	renamed := ownConfig("bob", from, to, away)
	for old, now := range map[string]string{from.Name: renamedFrom, to.Name: renamedTo} {
		renamed.Hosts[now] = renamed.Hosts[old]
		delete(renamed.Hosts, old)
	}

	bob := openFleet(t, renamed)
	for _, host := range []string{away.Name, renamedTo} {
		if _, _, err := bob.Move(t.Context(), made["travelled"].UUID, inventory.LastKnown{}, host,
			migration.Options{}); err != nil {
			t.Fatal(err)
		}
	}

	rule.Options = migration.Options{}
	if _, err := bob.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	steps, err := drainNow(t, bob, drain.Drain{Host: renamedFrom, ID: "m", Why: "another"})
	if got := resultsOf(steps); err != nil || got != "slow=Moved untouched=Moved" {
		t.Errorf("the next one: %s, %v", got, err)
	}

	if _, err := bob.Release(t.Context(), renamedFrom, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{
		"slow": renamedFrom + " Running Migrated", "untouched": renamedFrom + " Running Migrated",
		"restarted": renamedTo + " Running Booted", "travelled": renamedTo + " Running Migrated",
	} {
		if got := howStarted(t, bob, made[name].UUID); got != want {
			t.Errorf("after the next one %s is %s, want %s", name, got, want)
		}
	}
}
