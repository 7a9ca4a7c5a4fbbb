package drain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A file in no storage pool may be on a shared filesystem, so that only libvirt's refusal says that the VM can't move
// live. The drain doesn't repeat what libvirt refused: it ends and says what to do, or does what its policy falls back
// to.
func TestLab_unsafeMoveIsNotRepeated(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	d := light(t, l, "unlisted", nil)
	d.Spec.Disks["data"] = domain.Disk{
		Source: domain.DiskSource{File: imageInNoPool(t, l, from, to)}, Format: "raw", Cache: "none",
	}
	vm := create(t, ownFleet(t, "alice", from), l, d)
	rule := evacuation.Policy{Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate}
	put := func(fallback string) {
		t.Helper()

		rule.Fallback = fallback
		if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
			t.Fatal(err)
		}

		f.ForgetAll()
	}
	run := func(steps []evacuation.Step) (string, error) {
		t.Helper()

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()

		done, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: steps})
		if ctx.Err() != nil {
			t.Errorf("the drain tried until its time was over: %v", err)
		}

		return resultsOf(done), err
	}

	put("")

	plan, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil || len(plan.Steps) != 1 || plan.Steps[0].Method != evacuation.MethodLive ||
		len(plan.Steps[0].Doubts) != 1 {
		t.Fatalf("planned is %+v, %v; want a live move that may be blocked", plan, err)
	}

	for how, steps := range map[string][]evacuation.Step{"its own steps": nil, "exactly the steps": plan.Steps} {
		got, err := run(steps)
		if got != "unlisted=Failed" || err == nil || !strings.Contains(err.Error(), "Unsafe migration") ||
			!strings.Contains(err.Error(), "disks.<key>.shared") {
			t.Errorf("%s: %s, %v", how, got, err)
		}

		if state := l.Virsh(t, from.Name, "domstate", vm.UUID); strings.TrimSpace(state) != "running" {
			t.Errorf("%s: the VM is %s", how, state)
		}
	}

	put(evacuation.Shutdown)

	if got, err := run(nil); got != "unlisted=ShutDown" || err != nil {
		t.Errorf("with a fallback: %s, %v", got, err)
	}

	if _, err := f.Find(t.Context(), vm.UUID, fleet.LastKnown{}); errors.Is(err, libvirt.ErrNotFound) {
		t.Error("the VM is gone")
	}
}
