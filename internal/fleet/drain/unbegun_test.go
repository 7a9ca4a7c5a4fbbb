package drain

import (
	"context"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// A user who interrupts a drain doesn't wait for one VM after another: several at a time, the VMs whose turn hasn't
// come are told that they needn't leave. One that another operation holds keeps none of the others waiting, and is told
// when it is free.
func TestRunSteps_unmarksSeveralAtATime(t *testing.T) {
	t.Parallel()

	dr, held := builtIn(t)
	d := Begun(dr, Drain{Host: held.Host})
	d.moveSlots = admission.NewSlots(1)

	if _, err := d.moveSlots.Enter(t.Context()); err != nil { // None of them gets a turn.
		t.Fatal(err)
	}

	ids := []string{held.UUID}
	for range 2 {
		ids = append(ids, fleettest.DefineBuiltIn(t, held.On))
	}

	for _, id := range ids {
		vm, err := dr.hosts.FindNow(t.Context(), id, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		m := vm.Metadata
		m.Eviction = &domain.Eviction{Host: vm.Host, Owner: "alice"}

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}

		d.steps = append(d.steps, stepOf(id, evacuation.MethodLive, ""))
	}

	_, release, err := dr.records.Lock(t.Context(), held.On, held.UUID, "testing")
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()

	over := make(chan struct{}, 1)

	go func() {
		d.runSteps(interrupted)

		over <- struct{}{}
	}()

	isMarked := func(id string) bool {
		vm, err := dr.hosts.FindNow(t.Context(), id, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		return vm.Metadata.Eviction != nil
	}

	for _, id := range ids[1:] {
		for isMarked(id) {
			if err := admission.Pause(t.Context(), time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}

	release()
	fleettest.Await(t, over)

	for _, id := range ids { // One whose turn came only when the others had given up waiting would still be marked.
		if isMarked(id) {
			t.Errorf("%s is still asked to leave", id)
		}
	}
}

// A step that shuts a guest down doesn't wait for moves, although it comes after theirs.
func TestRunSteps_shutdownWaitsForNoMove(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)
	d := Begun(dr, Drain{Host: vm.Host},
		stepOf(fleettest.DefineBuiltIn(t, vm.On), evacuation.MethodLive, ""), stepOf(vm.UUID, evacuation.MethodShutdown, ""))
	d.moveSlots, d.endSlots = admission.NewSlots(1), admission.NewSlots(1)

	if _, err := d.moveSlots.Enter(t.Context()); err != nil { // No move gets a turn.
		t.Fatal(err)
	}

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()

	over := make(chan struct{}, 1)

	go func() {
		d.runSteps(ctx)

		over <- struct{}{}
	}()

	results := func() string {
		d.mu.Lock()
		defer d.mu.Unlock()

		return d.steps[0].Result + d.steps[1].Result
	}

	waiting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	for results() == "" {
		if admission.Pause(waiting, time.Millisecond) != nil {
			break
		}
	}

	if got := results(); got != hostrecord.ResultLeft { // It is off already.
		t.Errorf("%q; want that the second step is done while the first one waits", got)
	}

	interrupt()
	fleettest.Await(t, over)
}
