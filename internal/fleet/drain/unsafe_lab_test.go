package drain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A disk that its pool doesn't list leaves it open whether the target has it, and libvirt refuses to move the VM live.
// The drain doesn't try that again: it ends with the remedy, or does what the policy falls back to. Steps that are to
// be followed exactly end, too, and the next plan has the fallback.
func TestLab_drainTakesUnsafeAsFinal(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	name := lab.Name(t)
	image := unlistedImage(t, l, from, name)
	uuid := small(t, l, from, name+"-db", fmt.Sprintf(`<devices><disk type="file">
		<driver name="qemu" type="qcow2"/><source file="%s"/><target dev="vda" bus="virtio"/></disk></devices>`, image))
	rule := evacuation.Policy{Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate}
	put := func(fallback string) {
		t.Helper()

		rule.Fallback = fallback
		if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
			t.Fatal(err)
		}

		f.ForgetAll()
	}
	plan := func() []evacuation.Step {
		t.Helper()

		p, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
		if err != nil || len(p.Steps) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}

		return p.Steps
	}
	refused := func(steps []evacuation.Step) {
		t.Helper()

		ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience/4)
		defer cancel()

		_, err := f.Drain(ctx, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: steps})
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "virsh pool-refresh") {
			t.Errorf("%v, %v; want that it ends with the remedy", err, ctx.Err())
		}

		if got := howStarted(t, f, uuid); got != from.Name+" Running Booted" {
			t.Errorf("it is %s", got)
		}

		// Terraform ends the maintenance, which it replaces.
		if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
			t.Fatal(err)
		}

		f.ForgetAll()
	}

	put(evacuation.Save)

	live := plan()
	if live[0].Method != evacuation.MethodLive || len(live[0].Doubts) == 0 {
		t.Fatalf("planned is %+v; want one that libvirt will refuse", live)
	}

	for _, want := range []string{`storage pool "default" of host "` + from.Name + `"`, "virsh pool-refresh default"} {
		if !strings.Contains(live[0].Doubts[0], want) {
			t.Errorf("%q is missing in %q", want, live[0].Doubts)
		}
	}

	refused(live)

	if next := plan(); next[0].Method != evacuation.MethodSave {
		t.Errorf("after the refusal, planned is %+v", next)
	}

	put("")

	if next := plan(); next[0].Method != evacuation.MethodBlocked ||
		!strings.Contains(strings.Join(next[0].Blockers, ""), "libvirt refused") {
		t.Errorf("without a fallback, planned is %+v", next)
	}

	forget(t, f, from)
	refused(nil)
	put(evacuation.Save)
	forget(t, f, from)

	if next := plan(); next[0].Method != evacuation.MethodLive {
		t.Fatalf("planned is %+v; want one that libvirt will refuse", next)
	}

	d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name, ID: "m"}, hostrecord.RecordedStep{Step: live[0]})
	if _, err := d.Try(t.Context(), 0, d.Rule(0)); !errors.Is(err, libvirt.ErrUnsafe) || d.Stuck(t.Context(), 0, err) {
		t.Errorf("the move itself: %v; want that the fallback is tried", err)
	}

	if d.Retarget(t.Context(), 0); d.Step(0).Method != evacuation.MethodSave || !d.Step(0).Unsafe {
		t.Errorf("after the refusal its step is %+v", *d.Step(0))
	}

	maintained(t, f, from, *d.Step(0))
	f.ForgetAll()

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: plan()})
	if err != nil || len(steps) != 1 || steps[0].Result != hostrecord.ResultSaved {
		t.Errorf("with a fallback: %+v, %v", steps, err)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
		t.Fatal(err)
	}

	// Refreshed, it is known that the target lacks it.
	l.RefreshPool(t, from.Name)
	f.ForgetAll()

	if next := plan(); next[0].Method != evacuation.MethodSave {
		t.Errorf("with the image listed, planned is %+v", next)
	}

	if got := howStarted(t, f, uuid); !strings.HasPrefix(got, from.Name+" Running") {
		t.Errorf("brought back, it is %s", got)
	}
}

// forget has the host forget what its drains noted.
func forget(t *testing.T, f *fleet.Fleet, h *lab.Host) {
	t.Helper()

	if err := f.ChangeRecord(t.Context(), f.Host(h.Name), func(r *hostrecord.Record) error {
		r.Evacuation = nil

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	f.ForgetAll()
}

// unlistedImage makes an image in the directory of a host's pool, which doesn't list it.
func unlistedImage(t *testing.T, l *lab.Lab, on *lab.Host, name string) string {
	t.Helper()

	path := "/var/lib/libvirt/images/" + name + ".qcow2"
	l.Run(t, on.Name, "qemu-img", "create", "-q", "-f", "qcow2", path, "1M")
	t.Cleanup(func() {
		if err := os.Remove(on.Path(path)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})

	return path
}
