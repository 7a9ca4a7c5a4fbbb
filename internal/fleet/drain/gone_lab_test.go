package drain_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Only a VM that no host has is gone: a drain has nothing left to do for it, and whoever ends the maintenance nothing
// to restore. One that lacks something else that isn't found stays to be restored. The step of one that runs twice ends
// at once: a person has to see to it.
func TestLab_drainTellsWhatIsGone(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	removed := create(t, alone, l, light(t, l, "removed", nil))
	d := light(t, l, "off", nil)
	d.Metadata.RunStrategy = "Manual"
	off := create(t, alone, l, d)

	// Another run removes it while the drain waits for its lock.
	_, unlock, err := ownFleet(t, "bob", from).Lock(t.Context(), f.Host(from.Name), removed.UUID, "deleting")
	if err != nil {
		t.Fatal(err)
	}

	over := draining(t.Context(), f, from.Name)

	awaitResult(t, f.Host(from.Name), removed.UUID, "")
	l.Virsh(t, from.Name, "destroy", removed.UUID)
	l.Virsh(t, from.Name, "undefine", removed.UUID)
	unlock()

	done := fleettest.Await(t, over)
	if done.err != nil || !slices.ContainsFunc(done.steps, func(s hostrecord.RecordedStep) bool {
		return s.UUID == removed.UUID && s.Result == hostrecord.ResultMoved && s.Reason == drain.ErrGone.Error()
	}) {
		t.Errorf("with a VM that was removed: %+v, %v", done.steps, done.err)
	}

	// One that was shut down has lost its network since.
	l.Virsh(t, from.Name, "attach-interface", off.UUID, "network", "nowhere", "--config")

	if err := f.ChangeRecord(t.Context(), f.Host(from.Name), func(r *hostrecord.Record) error {
		r.Evacuation.Steps = []hostrecord.RecordedStep{{
			Step:   evacuation.Step{UUID: off.UUID, Name: off.Name, Method: evacuation.MethodShutdown},
			Result: hostrecord.ResultShutDown,
		}}

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	left := func() int {
		t.Helper()

		r, _, err := inventory.ReadRecord(t.Context(), f.Host(from.Name))
		if err != nil {
			t.Fatal(err)
		}

		if r.Evacuation == nil {
			return 0
		}

		return len(r.Evacuation.Steps)
	}

	_, err = f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true})
	if !errors.Is(err, inventory.ErrNotFound) || !strings.Contains(err.Error(), "nowhere") || left() != 1 {
		t.Errorf("of one that can't start %d steps are left: %v", left(), err)
	}

	l.Virsh(t, from.Name, "undefine", off.UUID)

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil || left() != 0 {
		t.Errorf("of one that is gone %d steps are left: %v", left(), err)
	}

	labels := map[string]string{"kind": "twin"}

	twin := create(t, alone, l, light(t, l, "twin", labels))

	if _, err := f.Host(to.Name).Conn.DefineDomain(t.Context(), twin.Entry.PersistentXML); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, to.Name, "start", twin.UUID)

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)

	again := errors.New("it is tried again")
	asking := ownFleet(t, "alice", from, to)
	listen(asking, &onLog{Message: "eviction failed, will be tried again", Do: func() { cancel(again) }})

	step := evacuation.Step{UUID: twin.UUID, Name: twin.Name, Method: evacuation.MethodLive, Target: to.Name}
	exact := drain.Begun(asking.Drainer, drain.Drain{Host: from.Name, Steps: []evacuation.Step{step}},
		hostrecord.RecordedStep{Step: step})
	exact.RunStep(ctx, 0)

	if context.Cause(ctx) != nil || !strings.Contains(exact.Step(0).Reason, twin.Name) {
		t.Errorf("with one that runs twice: %+v", *exact.Step(0))
	}

	// One that a user moves while it is to be shut down was moved.
	d = light(t, l, "moved", nil)
	d.Metadata.TerminationGracePeriod = new(5 * time.Minute)
	moved := create(t, alone, l, d)
	listen(f, &onLog{Message: "shutting down guest", Do: func() {
		if err := from.Migrate(t.Context(), moved.Name, to); err != nil {
			t.Error(err)
		}
	}})
	shutsDown := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: moved.UUID, Method: evacuation.MethodShutdown},
	})

	if _, err := shutsDown.Try(t.Context(), 0, evacuation.Rule{}); !errors.Is(err, inventory.ErrBusy) {
		t.Errorf("while it is moved: %v", err)
	}

	if result, err := shutsDown.Try(t.Context(), 0, evacuation.Rule{}); err != nil || result != hostrecord.ResultMoved {
		t.Errorf("once it is moved: %s, %v", result, err)
	}

	// What the hosts said is known for a minute: it says that both have it.
	f.ForgetAll()

	if _, err := f.FindByLabels(t.Context(), labels); !errors.Is(err, inventory.ErrTwoCopies) {
		t.Errorf("found, though it runs twice: %v", err)
	}

	for _, h := range []*lab.Host{from, to} {
		l.Virsh(t, h.Name, "destroy", twin.UUID)
		l.Virsh(t, h.Name, "undefine", twin.UUID)
	}

	if found, err := f.FindByLabels(t.Context(), labels); err != nil || len(found) > 0 {
		t.Errorf("found once they are gone: %+v, %v", found, err)
	}
}
