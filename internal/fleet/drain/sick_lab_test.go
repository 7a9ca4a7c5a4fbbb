package drain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A VM whose QEMU doesn't answer and a VM that runs on two hosts cost their own steps: the plan has all VMs, the others
// leave, and the drain says which are left and why.
func TestLab_drainLeavesOnlyTheSick(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	frozen := create(t, alone, l, light(t, l, "frozen", nil))
	twin := create(t, alone, l, light(t, l, "twin", nil))
	well := create(t, alone, l, light(t, l, "well", nil))

	if _, err := f.Host(to.Name).Conn.DefineDomain(t.Context(), twin.Entry.PersistentXML); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, to.Name, "start", twin.UUID)

	if err := from.FreezeQEMU(t.Context(), frozen.Name); err != nil {
		t.Fatal(err)
	}

	defer func() {
		if err := from.ThawQEMU(context.WithoutCancel(t.Context()), frozen.Name); err != nil {
			t.Error(err)
		}
	}()

	plan, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil || len(plan.Steps) != 3 {
		t.Fatalf("%+v, %v", plan.Steps, err)
	}

	for _, s := range plan.Steps {
		if s.Method != evacuation.MethodLive || s.Target != to.Name || (len(s.Doubts) == 0) != (s.UUID != twin.UUID) {
			t.Errorf("planned is %+v", s)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()

	over := following(ctx, f, from.Name, plan.Steps)

	awaitResult(t, f.Host(from.Name), well.UUID, hostrecord.ResultMoved)
	awaitResult(t, f.Host(from.Name), twin.UUID, hostrecord.ResultFailed)
	cancel()

	done := fleettest.Await(t, over)
	for _, name := range []string{frozen.Name, twin.Name} {
		if done.err == nil || !strings.Contains(done.err.Error(), fmt.Sprintf("- %q (LiveMigration)", name)) {
			t.Errorf("%s is missing in %v", name, done.err)
		}
	}

	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Error("the drain took all its time")
	}

	onlyOn(t, f, well.UUID, to.Name)

	for _, h := range []*lab.Host{from, to} {
		if got := strings.TrimSpace(l.Virsh(t, h.Name, "domstate", twin.UUID)); got != "running" {
			t.Errorf("the twin on %s is %s", h.Name, got)
		}
	}

	l.Virsh(t, to.Name, "destroy", twin.UUID)
	l.Virsh(t, to.Name, "undefine", twin.UUID)
}
