package drain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// crawl makes VMs move so.
func crawl(t *testing.T, f *fleet.Fleet, s policy.Selector) evacuation.Policy {
	t.Helper()

	rule := evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "slow", Selector: s}, Strategy: evacuation.LiveMigrate, Options: crawling(),
	}
	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	return rule
}

// drained is how a drain ended.
type drained struct {
	steps []hostrecord.RecordedStep
	err   error
}

// draining begins to empty the host, and returns where it will say how that ended.
func draining(ctx context.Context, f *fleet.Fleet, host string) <-chan drained {
	return following(ctx, f, host, nil)
}

// following is draining by given steps.
func following(ctx context.Context, f *fleet.Fleet, host string, given []evacuation.Step) <-chan drained {
	return beginning(ctx, f, drain.Drain{Host: host, ID: "m", Why: "a test", Steps: given})
}

// beginning begins a drain, and returns where it will say how that ended.
func beginning(ctx context.Context, f *fleet.Fleet, d drain.Drain) <-chan drained {
	over := make(chan drained, 1)

	go func() {
		steps, err := f.Drain(ctx, d)
		over <- drained{steps, err}
	}()

	return over
}

// drainNow drains, and waits for the end no longer than for any other run.
func drainNow(t *testing.T, f *fleet.Fleet, d drain.Drain) ([]hostrecord.RecordedStep, error) {
	t.Helper()

	end := fleettest.Await(t, beginning(t.Context(), f, d))

	return end.steps, end.err
}

// hurry lets every migration of the VM from the host come to its end, until over says that there will be no other.
func hurry[T any](t *testing.T, l *lab.Lab, from *lab.Host, uuid string, over <-chan T) T {
	t.Helper()

	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()

	late := time.After(fleettest.Patience)

	for {
		select {
		case end := <-over:
			return end
		case <-late:
			fleettest.Hung(t, "the end of a drain")
		case <-tick.C: // There may be none just now, which both say.
			_, _ = l.TryVirsh(t, from.Name, "migrate-setmaxdowntime", uuid, "2000")
			_, _ = l.TryVirsh(t, from.Name, "migrate-setspeed", uuid, "8192")
		}
	}
}

// A target that dies while a VM is on its way there costs that VM nothing: it runs where it was, and goes to another
// host.
func TestLab_drainTargetDies(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, dying, good := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, dying, good)
	f.Host(dying.Name).Config.MemoryLimit = 1 << 50 // The emptiest, so it is tried first.
	d := evacuee(t, l, "web", nil)
	d.Spec.Kernel.Cmdline += " dirty=16"
	vm := booted(t, l, create(t, alone, l, d))

	crawl(t, f, policy.Selector{})

	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()

	over := draining(ctx, f, from.Name)

	fleettest.AwaitCopying(t, alone.Host(from.Name), vm.UUID, over)

	powerOn := l.PowerOff(t, dying)

	e := hurry(t, l, from, vm.UUID, over)
	if e.err != nil || e.steps[0].Result != hostrecord.ResultMoved || e.steps[0].Target != good.Name {
		t.Fatalf("%+v, %v", e.steps, e.err)
	}

	if got := howStarted(t, f, vm.UUID); got != good.Name+" Running Migrated" {
		t.Errorf("it is %s", got)
	}

	// Once it is known that the host is gone, no run waits for its restart any more. The run that drained may still
	// be trying to give back a lock there.
	bob := ownFleet(t, "bob", from, dying, good)
	if _, err := bob.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
		t.Fatal(err)
	}

	opened := func() int { return bob.Calls()[dying.Name]["virConnectOpen"] }
	before := opened()

	if _, err := bob.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil || opened() != before+1 {
		t.Errorf("the dead host was tried %d times for one question, %v", opened()-before, err)
	}

	powerOn()
	onlyOn(t, f, vm.UUID, good.Name)

	now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil || now.Metadata.Eviction != nil || !now.Autostart || len(now.StaleHosts) > 0 {
		t.Fatalf("%+v, %v", now, err)
	}

	// The record says why the first move failed, although the lock on the dead host could not be confirmed.
	first := now.Metadata.Migrations[0]
	if !first.Failed || first.TargetHost != dying.Name || !strings.Contains(first.FailureReason, "host "+dying.Name) {
		t.Errorf("the record of the move that failed: %+v", first)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{}); err != nil {
		t.Error(err)
	}
}
