package drain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What only QEMU refuses to migrate gets what its policy falls back to, whether that is known when the drain begins
// or only when it is its turn. Without a fallback the drain touches nothing, and says what QEMU said. Steps that are
// to be followed exactly are refused where they didn't know it, and followed where they did.
func TestLab_drainAsksQEMU(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	prefix := lab.Name(t)
	prefix = prefix[len(prefix)-6:]
	uuid := small(t, l, from, prefix+"-refused", lab.UnmigratableDevice)
	rule := evacuation.Policy{Identity: policy.Identity{ID: "1", Name: "all"}, Strategy: evacuation.LiveMigrate}
	put := func(fallback string) {
		t.Helper()

		rule.Fallback = fallback
		if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
	}
	plan := func(ask bool) []evacuation.Step {
		t.Helper()

		p, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{AskQEMU: ask})
		if err != nil {
			t.Fatal(err)
		}

		return p.Steps
	}

	put("")

	_, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(err.Error(), "ivshmem") {
		t.Errorf("without a fallback: %v", err)
	}

	put(evacuation.Shutdown)
	f.ForgetAll()

	// A host that takes no VMs now might be a target later, but not of this one.
	f.Host(to.Name).Config.Unschedulable = true

	if step := plan(true)[0]; step.Method != evacuation.MethodShutdown {
		t.Errorf("a host isn't schedulable, and planned is %+v", step)
	}

	f.Host(to.Name).Config.Unschedulable = false
	f.ForgetAll()

	unasked := plan(false)
	if unasked[0].Method != evacuation.MethodLive {
		t.Errorf("QEMU was not asked, and planned is %+v", unasked)
	}

	_, err = drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: unasked})
	if !errors.Is(err, inventory.ErrBusy) || !strings.Contains(err.Error(), "would be by Shutdown") {
		t.Errorf("steps that don't know it: %v", err)
	}

	// As if it had got the device after the drain began: nothing but the move itself knows.
	d := drain.Begun(f.Drainer, drain.Drain{Host: from.Name, ID: "m"}, hostrecord.RecordedStep{Step: unasked[0]})

	_, refused := d.Try(t.Context(), 0, d.Rule(0))
	if b, ok := errors.AsType[*migration.BlockedError](refused); !ok ||
		b.Blockers[0].Reason != migration.QEMUNotLiveMigratable || drain.IsPermanent(refused) {
		t.Errorf("the move itself: %v", refused)
	}

	if d.Stuck(t.Context(), 0, refused) {
		t.Error("the fallback of the policy is not tried")
	}

	d.Retarget(t.Context(), 0)

	if s := d.Step(0); s.Method != evacuation.MethodShutdown || s.Target != "" {
		t.Errorf("after the refusal its step is %+v", *s)
	}

	put("")
	f.ForgetAll()

	d.Step(0).Step = unasked[0]
	if !d.Stuck(t.Context(), 0, refused) {
		t.Error("it is tried again and again, with no way out")
	}

	put(evacuation.Shutdown)
	f.ForgetAll()

	// Its firmware doesn't shut down when it is asked to.
	l.Virsh(t, from.Name, "metadata", uuid, domain.MetadataNamespace, "--live", "--config", "--key", domain.MetadataKey,
		"--set", `<vm version="1" uuid="`+uuid+`"><termination-grace-period>0s</termination-grace-period></vm>`)

	// A drain by steps that don't hold was killed: what is planned next is what can be done, and continues with its
	// mark.
	err = f.ChangeRecord(t.Context(), f.Host(from.Name), func(r *hostrecord.Record) error {
		r.Cordon = &hostrecord.Cordon{ID: "killed", Owner: "bob", Why: "a test"}
		r.Evacuation = &hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{{Step: unasked[0]}}}
		r.Evacuation.Steps[0].Strategy = evacuation.External

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: plan(true)})
	if got := resultsOf(steps); err != nil || got != "refused="+hostrecord.ResultShutDown {
		t.Fatalf("%s, %v", got, err)
	}

	// The maintenance that left it incomplete doesn't end this one, and another one doesn't begin.
	if _, err := f.Release(t.Context(), from.Name, "killed", drain.Restore{Wanted: true}); err != nil {
		t.Error(err)
	}

	if _, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "other", Why: "a test"}); !errors.Is(err,
		inventory.ErrExists) {
		t.Errorf("another maintenance: %v", err)
	}

	record, err := f.Record(t.Context(), from.Name)
	if err != nil || !record.Under("m") || record.Under("killed") || !record.Evacuation.Done {
		t.Errorf("recorded is %+v, %v", record, err)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{}); err != nil {
		t.Fatal(err)
	}
}
