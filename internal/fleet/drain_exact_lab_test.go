package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// What a drain does itself, and what others do to those that it doesn't touch any
// more, keeps no step from holding; all else does.
func TestChanged_inTheMiddle(t *testing.T) {
	t.Parallel()

	machine := func(name string) evacuation.VM {
		return evacuation.VM{
			UUID: name, Name: name, Active: true, Persistent: true, Memory: 1,
			Live: map[string][]migration.Blocker{"kvm2": nil},
		}
	}
	in := evacuation.Input{
		Host: "kvm1", Hosts: []evacuation.Host{{Name: "kvm2", Free: 2}}, Default: evacuation.LiveMigrate,
	}
	step := func(name, method, result string) hostrecord.Step {
		s := stepOf(name, method, result)
		s.Strategy, s.Origin = evacuation.LiveMigrate, evacuation.OriginProvider

		if method == evacuation.MethodLive {
			s.Target = "kvm2"
		}

		return s
	}
	live := evacuation.MethodLive
	off := func(m evacuation.VM) evacuation.VM {
		m.Active = false

		return m
	}

	for name, tt := range map[string]struct {
		step     hostrecord.Step
		machine  evacuation.VM
		underWay bool
		want     string
	}{
		"it waits":               {step("a", live, ""), machine("a"), false, ""},
		"it will be tried again": {step("a", live, hostrecord.ResultFailed), machine("a"), false, ""},
		"it is off":              {step("a", live, ""), off(machine("a")), false, `"a" was to be`},
		"it is being moved cold": {step("a", evacuation.MethodCold, ""), off(machine("a")), true, ""},
		"it is shut down": {
			step("a", evacuation.MethodShutdown, hostrecord.ResultShutDown), off(machine("a")), false,
			"",
		},
		"its owner stopped it": {step("a", evacuation.MethodExternal, hostrecord.ResultMoved), off(machine("a")), false, ""},
		"it came back":         {step("a", live, hostrecord.ResultMoved), machine("a"), false, `"a" was Moved, and runs`},
		"somebody started it": {
			step("a", evacuation.MethodShutdown, hostrecord.ResultShutDown), machine("a"), false,
			`"a" was Shut`,
		},
		"it was off, and started": {
			step("a", evacuation.MethodLeave, hostrecord.ResultLeft), machine("a"), false,
			`"a" was to be`,
		},
		"another one has come": {step("a", live, hostrecord.ResultMoved), machine("b"), false, `"b" has come`},
	} {
		now := in
		now.VMs = []evacuation.VM{tt.machine}

		got := strings.Join(changed([]hostrecord.Step{tt.step}, map[string]bool{"a": tt.underWay}, now), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	half := step("a", evacuation.MethodCold, hostrecord.ResultFailed)
	half.Ran = true // An earlier attempt has shut it down to move it.
	in.VMs = []evacuation.VM{off(machine("a"))}

	if got := changed([]hostrecord.Step{half}, nil, in); len(got) > 0 {
		t.Errorf("half moved: %v", got)
	}
}

// While a drain follows given steps the world changes: nothing more is begun, what
// runs is broken off as by a cancel, and the error says what changed and what is
// where. What is planned then goes on with it, and is what is recorded.
func TestLab_drainStopsWhereStepsNoLongerHold(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to, away := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to, away)
	bob := ownFleet(t, "bob", from, to, away)

	for _, fleet := range []*Fleet{f, bob} {
		fleet.Host(to.Name).Config.MemoryLimit = 1 << 50 // The emptiest, so all go there.
	}

	made := map[string]*inventory.VM{}

	for _, name := range []string{"quick", "slow", "waiting"} {
		d := light(t, l, name, map[string]string{"kind": name})

		if name != "waiting" {
			d = drainer(t, l, name, d.Metadata.Labels)
			d.Spec.Kernel.Cmdline += " dirty=16"
		}

		made[name] = create(t, alone, l, d)
	}

	booted(t, l, made["quick"])
	booted(t, l, made["slow"])

	late := strings.ReplaceAll(made["waiting"].Name, "waiting", "late")
	rule := crawl(t, f, policy.Selector{Names: []string{made["quick"].Name, made["slow"].Name}})
	rule.Priority = 1

	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()

	steps := planned(t, f, from.Name, false)
	over := following(ctx, f, from.Name, steps)

	// Two are moved, as many as may be at a time, and one waits.
	for _, name := range []string{"quick", "slow"} {
		awaitCopying(t, alone.Host(from.Name), made[name].UUID)
	}

	l.Define(t, from.Name, fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">32</memory>
		<os><type arch="x86_64">hvm</type></os></domain>`, late))
	l.RemoveDomain(t, late)
	l.Virsh(t, from.Name, "start", late)

	if err := bob.Cordon(ctx, to.Name, "b", "another test"); err != nil {
		t.Fatal(err)
	}

	end := hurry(t, l, from, made["quick"].UUID, over)
	if got := resultsOf(end.steps); got != "quick=Moved slow=Failed waiting=" || !errors.Is(end.err, ErrNotMoved) {
		t.Fatalf("%s, %v", got, end.err)
	}

	for _, want := range []string{
		"the steps no longer hold", fmt.Sprintf("%q has come to host", late),
		fmt.Sprintf("%q can't go to host %q any more: %s", made["waiting"].Name, to.Name, migration.HostCordoned),
		fmt.Sprintf("done are %q Moved", made["quick"].Name),
		fmt.Sprintf("%q (LiveMigration): it was not moved", made["slow"].Name),
		fmt.Sprintf("%q (LiveMigration): it was not begun", made["waiting"].Name),
	} {
		if !strings.Contains(end.err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, end.err)
		}
	}

	for _, name := range []string{"slow", "waiting"} {
		vm, err := alone.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if got := howStarted(t, f, made[name].UUID); err != nil || got != from.Name+" Running Booted" ||
			vm.Metadata.Eviction != nil {
			t.Errorf("%s is %s; %+v, %v", name, got, vm, err)
		}
	}

	if err := bob.Uncordon(t.Context(), to.Name, "b"); err != nil {
		t.Fatal(err)
	}

	// What Terraform does next: it plans, deletes the unfinished one, and drains again.
	fresh := planned(t, bob, from.Name, true)

	if _, err := f.Release(t.Context(), from.Name, "m", true); err != nil {
		t.Fatal(err)
	}

	rule.Options = migration.Options{}
	if _, err := f.EvictionPolicies().Put(t.Context(), rule); err != nil {
		t.Fatal(err)
	}

	end = <-following(ctx, f, from.Name, fresh)
	if got := resultsOf(end.steps); end.err != nil || got != "late=Moved quick=Moved slow=Moved waiting=Moved" {
		t.Fatalf("again: %s, %v", got, end.err)
	}

	bob.ForgetAll()

	if now := planned(t, bob, from.Name, true); !slices.EqualFunc(now, fresh, sameStep) {
		t.Errorf("%+v was followed, and %+v is recorded", fresh, now)
	}

	if _, err := f.Release(t.Context(), from.Name, "m", true); err != nil {
		t.Fatal(err)
	}

	for name, want := range map[string]string{"quick": "Migrated", "slow": "Migrated", "waiting": "Migrated"} {
		if got := howStarted(t, f, made[name].UUID); got != from.Name+" Running "+want {
			t.Errorf("brought back, %s is %s", name, got)
		}
	}

	// One that has left in another way is not moved on from there.
	if _, _, err := bob.Move(t.Context(), made["waiting"].UUID, inventory.LastKnown{}, away.Name,
		migration.Options{}); err != nil {
		t.Fatal(err)
	}

	d := &drain{
		Drain: Drain{Host: from.Name, Steps: fresh}, fleet: f, host: f.Host(from.Name), looks: admission.NewSlots(1),
		stop: func(error) {},
	}
	for _, s := range fresh {
		if s.UUID == made["waiting"].UUID {
			d.steps = []hostrecord.Step{{Step: s}}
		}
	}

	err := d.begin(t.Context(), 0)
	want := fmt.Sprintf("virtual machine %q was to go to host %q, and somebody has moved it to host %q",
		made["waiting"].Name, to.Name, away.Name)

	if stopped, ok := errors.AsType[*changedError](err); !ok || !slices.Contains(stopped.changes, want) {
		t.Errorf("moved elsewhere: %v, want %q", err, want)
	}
}

// planned is what would happen to the host, which is under maintenance or isn't.
func planned(t *testing.T, f *Fleet, host string, recorded bool) []evacuation.Step {
	t.Helper()

	plan, err := f.PlanEvacuation(t.Context(), host, EvacuationQuery{})
	if err != nil || plan.Recorded != recorded {
		t.Fatalf("%+v, %v", plan, err)
	}

	return plan.Steps
}
