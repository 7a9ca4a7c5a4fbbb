package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// awaitResult waits until the host has recorded that of the machine.
func awaitResult(t *testing.T, h *host, uuid, result string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for {
		r, _, err := readRecord(ctx, h)
		if err != nil {
			t.Fatal(err)
		}

		if r.Evacuation != nil && slices.ContainsFunc(r.Evacuation.Steps, func(s EvacuationStep) bool {
			return s.UUID == uuid && s.Result == result
		}) {
			return
		}

		if err := pause(ctx, 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// planWhileMoving makes plans for the host that a machine is leaving just now: one
// that wants to know all of it says so, one that looks for another target for
// somebody else leaves it out.
func planWhileMoving(t *testing.T, f *Fleet, host, moving string) {
	t.Helper()

	if _, err := f.evacuationInput(t.Context(), f.host(host), false); !errors.Is(err, ErrBusy) ||
		!strings.Contains(err.Error(), moving) {
		t.Errorf("while %s leaves: %v", moving, err)
	}

	in, onItsWay, err := f.evacuationInputWithout(t.Context(), f.host(host), false)
	if err != nil || onItsWay == nil || slices.ContainsFunc(in.Machines, func(m eviction.Machine) bool {
		return m.Name == moving
	}) {
		t.Errorf("without %s: %+v, %v, %v", moving, in.Machines, onItsWay, err)
	}
}

// A drain that is interrupted leaves the host cordoned, every machine running
// and unmarked, and goes on with the next attempt.
func TestLab_drainInterrupted(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	quick := create(t, alone, l, drainer(t, l, "quick", nil))
	slow := drainer(t, l, "slow", map[string]string{"kind": "slow"})
	slow.Spec.Kernel.Cmdline += " dirty=16"
	stuck := booted(t, l, create(t, alone, l, slow))

	rule := crawl(t, f, policy.Selector{Labels: slow.Metadata.Labels})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	over := draining(ctx, f, from.Name)

	// One has arrived, and the other one is on its way.
	bob := ownFleet(t, "bob", from, to)
	awaitCopying(t, bob.host(from.Name), stuck.UUID)
	awaitResult(t, bob.host(from.Name), quick.UUID, ResultMoved)
	planWhileMoving(t, bob, from.Name, stuck.Name)
	cancel()

	interrupted := <-over
	steps, err := interrupted.steps, interrupted.err

	if !errors.Is(err, ErrNotMoved) || !strings.Contains(err.Error(), "interrupted") ||
		!strings.Contains(err.Error(), "is cordoned and not empty") {
		t.Errorf("interrupted: %v", err)
	}

	if got := resultsOf(steps); got != "quick=Moved slow=Failed" {
		t.Errorf("results %s", got)
	}

	vm, err := f.findNow(t.Context(), stuck.UUID, LastKnown{})
	if err != nil || vm.Host != from.Name || !vm.Running() || vm.Metadata.Eviction != nil {
		t.Errorf("the slow one: %+v, %v", vm, err)
	}

	f.host(from.Name).forget()

	r, err := f.Record(t.Context(), from.Name)
	if err != nil || r.Cordon == nil || r.Evacuation == nil || r.Evacuation.Done {
		t.Errorf("recorded: %+v, %v", r, err)
	}

	// What Terraform does next: it deletes the unfinished one, which restores nothing, and drains again.
	if err := f.Release(t.Context(), from.Name, "m", true); err != nil {
		t.Fatal(err)
	}

	onlyOn(t, f, quick.UUID, to.Name)

	rule.Options = migration.Options{}
	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	steps, err = f.Drain(t.Context(), Drain{Host: from.Name, ID: "m", Why: "a test"})
	if got := resultsOf(steps); err != nil || got != "quick=Moved slow=Moved" {
		t.Errorf("again: %s, %v", got, err)
	}

	if err := f.Release(t.Context(), from.Name, "m", true); err != nil {
		t.Fatal(err)
	}

	onlyOn(t, f, quick.UUID, from.Name)
	onlyOn(t, f, stuck.UUID, from.Name)
}
