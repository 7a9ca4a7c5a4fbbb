package drain_test

import (
	"context"
	"errors"
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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// loner is a wish for a light VM that shares a host with none of its kind.
func loner(t *testing.T, l *lab.Lab, name string) placement.Desired {
	t.Helper()

	d := light(t, l, name, map[string]string{"app": "web"})
	d.Placement.AntiAffinity = &placement.AntiAffinity{Labels: d.Metadata.Labels, Required: true}

	return d
}

// blocked fails the test unless the move was refused before anything was done, for that reason and naming that.
func blocked(t *testing.T, err error, reason, name string) {
	t.Helper()

	if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(err.Error(), reason) ||
		!strings.Contains(err.Error(), name) {
		t.Errorf("%v; want it refused for %s, with %q", err, reason, name)
	}
}

// Two runs drain two hosts at the same time. Each has planned a VM for the same target before the other's plan was
// known, and anti-affinity keeps the two VMs apart: only one moves there.
func TestLab_drainsKeepAntiAffinity(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from := []*lab.Host{l.StartHost(t), l.StartHost(t)}
	first, second := l.StartHost(t), l.StartHost(t)
	all := []*lab.Host{from[0], from[1], first, second}
	fleets := []*fleet.Fleet{ownFleet(t, "alice", all...), ownFleet(t, "bob", all...)}
	made := make([]*inventory.VM, len(from))

	for i, h := range from {
		made[i] = create(t, ownFleet(t, "carol", h), l, loner(t, l, h.Name))
		fleets[i].Host(first.Name).Config.MemoryLimit = 1 << 50 // The emptiest, so it is tried first.
	}

	for i, f := range fleets {
		plan, err := f.PlanEvacuation(t.Context(), from[i].Name, drain.EvacuationQuery{})
		if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Target != first.Name {
			t.Fatalf("%+v, %v; want it to go to host %s", plan.Steps, err, first.Name)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	ends := make([]chan error, len(fleets))

	for i, f := range fleets {
		ends[i] = make(chan error, 1)

		go func() {
			_, err := f.Drain(ctx, drain.Drain{Host: from[i].Name, ID: from[i].Name, Why: "a test"})
			ends[i] <- err
		}()
	}

	for i := range ends {
		if err := fleettest.Await(t, ends[i]); err != nil {
			t.Errorf("host %s: %v", from[i].Name, err)
		}
	}

	on := map[string]string{}

	for _, vm := range made {
		now, err := fleets[0].FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || !now.Running() || now.Metadata.Eviction != nil {
			t.Fatalf("%s: %+v, %v", vm.Name, now, err)
		}

		on[now.Host] += vm.Name
	}

	if on[first.Name] == "" || on[second.Name] == "" {
		t.Errorf("the VMs are on %v; want one on each of the other hosts", on)
	}

	for i, f := range fleets {
		if _, err := f.Release(t.Context(), from[i].Name, from[i].Name, drain.Restore{}); err != nil {
			t.Error(err)
		}
	}
}

// Who is on a host decides at the move itself, whatever the run that moves has read there before: of a VM that runs, of
// one that is off, and of one that is started afterwards.
func TestLab_moveMindsWhoCameMeanwhile(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	one, two, free := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alice, bob := ownFleet(t, "alice", one, two, free), ownFleet(t, "bob", one, two, free)
	quick := create(t, ownFleet(t, "alice", one), l, loner(t, l, "quick"))
	late := create(t, ownFleet(t, "alice", two), l, loner(t, l, "late"))

	// Bob sees it empty, and relies on that for a while.
	toFree := move.Order{UUID: late.UUID, Last: lastOf(late), Target: free.Name}
	if problems, err := bob.CheckMove(t.Context(), toFree, nil); err != nil ||
		len(problems) > 0 {
		t.Fatalf("%+v, %v", problems, err)
	}

	quick, _, err := alice.Move(t.Context(), quick.UUID, lastOf(quick), free.Name, migration.Options{})
	if err != nil {
		t.Fatal(err)
	}

	_, state, err := bob.Move(t.Context(), late.UUID, lastOf(late), free.Name, migration.Options{})
	if !state.Start.IsZero() {
		t.Errorf("something was done: %+v", state)
	}

	blocked(t, err, migration.AntiAffinity, quick.Name)

	// By now its plans know it too, for a VM that others avoid as well.
	problems, err := bob.CheckMove(t.Context(), toFree, nil)
	if err != nil || len(problems) != 1 || !strings.HasSuffix(problems[0].Summary, migration.AntiAffinity) ||
		problems[0].Remedy == "" {
		t.Errorf("%+v, %v", problems, err)
	}

	avoided := loner(t, l, "avoided")
	avoided.Placement.AntiAffinity, avoided.Metadata.Host = nil, free.Name

	problems, err = bob.CheckCreate(t.Context(), avoided)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, quick.Name) {
		t.Errorf("%+v, %v; want that %s avoids it", problems, err, quick.Name)
	}

	// No guest is shut down in vain.
	run := l.Virsh(t, two.Name, "domid", late.UUID)

	_, err = drain.Begun(bob.Drainer, drain.Drain{Host: two.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: late.UUID, Name: late.Name, Target: free.Name},
	}).MoveCold(t.Context(), 0)
	blocked(t, err, migration.AntiAffinity, quick.Name)

	if now := l.Virsh(t, two.Name, "domid", late.UUID); now != run {
		t.Errorf("it was run %s and is %s now", run, now)
	}

	l.Virsh(t, two.Name, "destroy", late.UUID)

	_, _, err = bob.Move(t.Context(), late.UUID, lastOf(late), free.Name, migration.Options{})
	blocked(t, err, migration.AntiAffinity, quick.Name)

	// One that comes while the definition is on its way decides too.
	if quick, _, err = alice.Move(t.Context(), quick.UUID, lastOf(quick), one.Name, migration.Options{}); err != nil {
		t.Fatal(err)
	}

	listen(bob, &onLog{Message: "moving definition", Do: func() {
		if _, _, err := alice.Move(t.Context(), quick.UUID, lastOf(quick), free.Name, migration.Options{}); err != nil {
			t.Error(err)
		}
	}})

	_, state, err = bob.Move(t.Context(), late.UUID, lastOf(late), free.Name, migration.Options{})
	blocked(t, err, migration.AntiAffinity, quick.Name)

	if state.Start.IsZero() || !state.Failed {
		t.Errorf("it was refused before it began: %+v", state)
	}

	onlyOn(t, bob, late.UUID, two.Name)

	bob.Host(one.Name).Config.MemoryLimit = 1 << 20

	_, _, err = bob.MoveForDrain(t.Context(), late.UUID, lastOf(late), move.Request{Target: one.Name, Starts: true})
	blocked(t, err, migration.InsufficientMemory, one.Name)

	if _, _, err := bob.MoveForDrain(t.Context(), late.UUID, lastOf(late), move.Request{Target: one.Name}); err != nil {
		t.Errorf("it needs no memory as long as it is off: %v", err)
	}

	onlyOn(t, bob, quick.UUID, free.Name)
	onlyOn(t, bob, late.UUID, one.Name)
}
