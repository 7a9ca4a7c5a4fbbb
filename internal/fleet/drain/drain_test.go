package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func stepOf(name, method, result string) hostrecord.RecordedStep {
	return hostrecord.RecordedStep{Step: evacuation.Step{UUID: name, Name: name, Method: method}, Result: result}
}

// A drain that failed also says that its host didn't answer at the end: some of its VMs may have left since.
func TestOutcomeError_silentHost(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)
	silent, cancel := context.WithCancel(t.Context())
	cancel()

	step := stepOf(vm.UUID, evacuation.MethodLive, hostrecord.ResultFailed)
	step.Reason = "it is stuck"

	err := Begun(dr, Drain{Host: vm.Host}, step).outcomeError(silent, nil)
	if !errors.Is(err, move.ErrNotMoved) || !strings.Contains(err.Error(), "it is stuck") {
		t.Errorf("what isn't done is lost: %v", err)
	}

	if !strings.Contains(err.Error(), `whether host "local" is drained is unknown`) {
		t.Errorf("that the host didn't answer is lost: %v", err)
	}
}

// What runs on the host is not gone, whatever was recorded.
func TestReconcile(t *testing.T) {
	t.Parallel()

	steps := []hostrecord.RecordedStep{
		stepOf("gone", evacuation.MethodLive, hostrecord.ResultMoved),
		stepOf("back", evacuation.MethodLive, hostrecord.ResultMoved),
		stepOf("started", evacuation.MethodShutdown, hostrecord.ResultShutDown),
		stepOf("resumed", evacuation.MethodSave, hostrecord.ResultSaved),
		stepOf("woken", evacuation.MethodLeave, hostrecord.ResultLeft),
		stepOf("late", evacuation.MethodLive, hostrecord.ResultFailed),
		stepOf("open", evacuation.MethodLive, ""),
		stepOf("shut down late", evacuation.MethodShutdown, hostrecord.ResultFailed),
		stepOf("saved late", evacuation.MethodSave, hostrecord.ResultFailed),
		stepOf("switched off", evacuation.MethodShutdown, hostrecord.ResultFailed), // by a user, before the drain asked it
		stepOf("cold, back", evacuation.MethodCold, hostrecord.ResultColdMoved),
	}
	steps[5].Reason = "it is slow"
	steps[7].Stopping, steps[8].Stopping = true, true
	steps[10].Ran, steps[10].Halted = true, true

	running := map[string]string{}
	for _, s := range append(steps[1:7:7], steps[10]) {
		running[s.UUID] = s.Name
	}

	off := map[string]bool{}
	for _, s := range steps[7:10] {
		off[s.UUID] = true
	}

	running["z"], running["y"] = "zoe", "yan"

	if come := reconcile(steps, running, off); !slices.Equal(come, []string{"yan", "zoe"}) {
		t.Errorf("come %v", come)
	}

	for i, s := range steps {
		switch want := []string{
			hostrecord.ResultMoved, "", "", "", "", hostrecord.ResultFailed, "",
			hostrecord.ResultShutDown, hostrecord.ResultSaved, hostrecord.ResultFailed, "",
		}[i]; {
		case want == "" && s.Name != "open":
			if s.Result != hostrecord.ResultFailed || !strings.Contains(s.Reason, "runs there all the same") || s.Ran ||
				s.Halted {
				t.Errorf("%s: %+v", s.Name, s)
			}
		case s.Result != want:
			t.Errorf("%s: %s, want %q", s.Name, s.Result, want)
		}
	}

	if steps[5].Reason != "it is slow" {
		t.Errorf("another reason: %s", steps[5].Reason)
	}
}

// What isn't done is told with the blocker, its remedy and no empty part.
func TestNotDone_saysWhatBlocksAndWhatToDo(t *testing.T) {
	t.Parallel()

	err := &inventory.Error{VM: "web", Host: "kvm1", Err: &migration.BlockedError{Blockers: []migration.Blocker{
		{Reason: "Reason", Message: "it is so", Remedy: "Change it."},
	}}}
	step := stepOf("web", evacuation.MethodLive, hostrecord.ResultFailed)
	step.Reason = err.Error()

	want := "\n  - \"web\" (LiveMigration): the VM can't be moved:\n    - Reason: it is so. Change it."
	if got := notDone(step); got != want {
		t.Errorf("%q, want %q", got, want)
	}

	in := evacuation.Input{Host: "kvm1", Default: evacuation.LiveMigrate, VMs: []evacuation.VM{{
		UUID: "u", Name: "web", Active: true, Persistent: true, LiveBlockers: map[string][]migration.Blocker{
			"kvm2": {{Reason: "Reason", Status: status.False, Message: "it is so", Remedy: "Change it."}},
		},
	}}}

	want = "host \"kvm1\" can't be drained because of:\n  - \"web\" (strategy LiveMigrate of the provider): " +
		"Reason: it is so. Change it"
	if got := BlockedText("kvm1", evacuation.BlockedSteps(evacuation.Compute(in))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The advice about a fallback is true for each VM: where none is set, where the one that is set is blocked too, and
// where none applies.
func TestBlockedRemedy(t *testing.T) {
	t.Parallel()

	blocked := func(name, reason string) evacuation.VM {
		return evacuation.VM{
			UUID: name, Name: name, Active: true, Persistent: true,
			LiveBlockers: map[string][]migration.Blocker{"kvm2": {{Reason: reason, Status: status.False, Message: "so"}}},
		}
	}
	plain, closed, cold := blocked("plain", "Bad"), blocked("closed", migration.HostCordoned), blocked("cold", "Bad")
	cold.Labels = map[string]string{"cold": "yes"}
	fleeting := blocked("fleeting", "Bad")
	fleeting.Persistent = false

	for want, vms := range map[string][]evacuation.VM{
		"Remove the blockers, or set a fallback for these VMs in a virtfleet_eviction_policy.": {plain},
		`Remove the blockers. No fallback helps for "closed", "fleeting".`:                     {closed, fleeting},
		`Remove the blockers. Or set a fallback in a virtfleet_eviction_policy for "plain". Or set the fallback Shutdown ` +
			`or Save in a virtfleet_eviction_policy for "cold": ColdMigrate is blocked too.`: {plain, cold},
	} {
		in := evacuation.Input{
			Host: "kvm1", Default: evacuation.LiveMigrate, VMs: vms, Hosts: []evacuation.Host{{Name: "kvm2", Free: 1}},
			Policies: []evacuation.Policy{{
				Identity: policy.Identity{Name: "p", Selector: policy.Selector{Labels: cold.Labels}},
				Strategy: evacuation.LiveMigrate, Fallback: evacuation.ColdMigrate,
			}},
		}
		if got := BlockedRemedy(evacuation.BlockedSteps(evacuation.Compute(in))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Where a VM is gets told only as far as it is known.
func TestEvacuationStep_doneText(t *testing.T) {
	t.Parallel()

	off, moved := stepOf("a", evacuation.MethodShutdown, hostrecord.ResultShutDown),
		stepOf("b", evacuation.MethodLive, hostrecord.ResultMoved)
	moved.Target = "kvm2"
	gone := moved
	gone.Reason = "it had gone already"
	external := stepOf("c", evacuation.MethodExternal, hostrecord.ResultMoved)
	external.Arrived = "kvm3"
	forced := stepOf("d", evacuation.MethodCold, hostrecord.ResultColdMoved)
	forced.Target, forced.Reason = "kvm2", "its guest was forced off: destroyed after the grace period"

	for want, step := range map[string]hostrecord.RecordedStep{
		`"a" ShutDown`: off, `"b" Moved to host "kvm2"`: moved, `"b" Moved (it had gone already)`: gone,
		`"c" Moved to host "kvm3"`: external,
		`"d" ColdMoved to host "kvm2" (its guest was forced off: destroyed after the grace period)`: forced,
	} {
		if got := step.DoneText(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A VM that a drain is about to shut down, or has, stays off while the host is cordoned, even before that is recorded.
func TestHostRecord_evicted(t *testing.T) {
	t.Parallel()

	tests := []struct {
		method, result string
		asked          bool // the drain has begun to turn it off
		want           bool // for a VM that is off
		leaving        bool // for one that runs
	}{
		{evacuation.MethodShutdown, "", false, true, true},
		{evacuation.MethodShutdown, hostrecord.ResultShutDown, true, true, false},
		{evacuation.MethodShutdown, hostrecord.ResultFailed, false, false, false},
		{evacuation.MethodShutdown, hostrecord.ResultFailed, true, true, false},
		{evacuation.MethodSave, "", false, true, true},
		{evacuation.MethodSave, hostrecord.ResultSaved, true, true, false},
		{evacuation.MethodSave, hostrecord.ResultFailed, true, true, false},
		{evacuation.MethodCold, "", false, true, true},
		{evacuation.MethodCold, hostrecord.ResultColdMoved, false, false, false},
		{evacuation.MethodLive, "", false, false, true},
		{evacuation.MethodLive, hostrecord.ResultMoved, false, false, false},
		{evacuation.MethodLeave, hostrecord.ResultLeft, false, false, false},
		{evacuation.MethodExternal, "", false, false, false},
	}

	for _, tt := range tests {
		step := stepOf("web", tt.method, tt.result)
		step.Stopping = tt.asked
		record := hostrecord.Record{
			Cordon: &hostrecord.Cordon{ID: "m", Owner: "alice", Why: "new memory"},
			Evacuation: &hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{
				stepOf("other", evacuation.MethodShutdown, ""), step,
			}},
		}

		why := record.Evicted("web", "kvm1")
		if (why != "") != tt.want || tt.want && !strings.Contains(why, "new memory") {
			t.Errorf("%s, result %q: %q", tt.method, tt.result, why)
		}

		why = record.Evicting("web", "kvm1")
		if (why != "") != tt.leaving || tt.leaving && !strings.Contains(why, "new memory") {
			t.Errorf("while it runs: %s, result %q: %q", tt.method, tt.result, why)
		}

		record.Cordon = nil
		if why := record.Evicted("web", "kvm1") + record.Evicting("web", "kvm1"); why != "" {
			t.Errorf("%s, result %q, after the maintenance: %q", tt.method, tt.result, why)
		}
	}
}

// After a failure another host is chosen, if there is one that hasn't failed.
func TestTargetFor(t *testing.T) {
	t.Parallel()

	ways := map[string][]migration.Blocker{"kvm2": nil, "kvm3": nil}
	in := evacuation.Input{
		Host: "kvm1", Default: evacuation.LiveMigrate,
		Hosts: []evacuation.Host{{Name: "kvm2", Free: 8}, {Name: "kvm3", Free: 4}},
		VMs: []evacuation.VM{
			{UUID: "a", Name: "a", Active: true, Persistent: true, Memory: 2, LiveBlockers: ways},
			{UUID: "b", Name: "b", Active: true, Persistent: true, Memory: 4, LiveBlockers: ways},
		},
	}
	step := evacuation.Step{UUID: "a", Method: evacuation.MethodLive, Target: "kvm2"}

	for _, tt := range []struct {
		but  []string
		want string
	}{{nil, "kvm2"}, {[]string{"kvm2"}, "kvm3"}, {[]string{"kvm3"}, "kvm2"}, {[]string{"kvm2", "kvm3"}, ""}} {
		if got := targetFor(in, step, tt.but); got != tt.want {
			t.Errorf("but %v: %q, want %q", tt.but, got, tt.want)
		}
	}

	if len(ways) != 2 {
		t.Error("the ways were changed")
	}

	in.VMs[1].Memory = 6 // The other one needs most of the same host.
	if got := targetFor(in, step, []string{"kvm3"}); got != "kvm2" {
		t.Errorf("%q; want the one that is left", got)
	}
}

// What a drain did that was given up is of no interest to one on another day.
func TestResumableSteps(t *testing.T) {
	t.Parallel()

	steps := []hostrecord.RecordedStep{{Step: evacuation.Step{UUID: "a"}, Result: hostrecord.ResultMoved}}
	old := &hostrecord.Evacuation{Steps: steps, Abandoned: time.Now().Add(-abandonedMemory - time.Minute)}

	if e := new(Drainer).resumableSteps(t.Context(), "kvm1", old); len(e.Steps) > 0 {
		t.Errorf("given up long ago: %+v", e.Steps)
	}

	if e := new(Drainer).resumableSteps(t.Context(), "kvm1", &hostrecord.Evacuation{Steps: steps}); len(e.Steps) != 1 {
		t.Errorf("not given up: %+v", e.Steps)
	}
}

// A VM is as the step left it, whatever its hosts are called by now. A record with UUIDs has the present names of the
// hosts, one without has those of then.
func TestUntouchedSince_renamedHosts(t *testing.T) {
	t.Parallel()

	abandoned := time.Now()
	step := hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: "a", Method: evacuation.MethodLive, Target: "kvm2"}, TargetUUID: "2",
		Result: hostrecord.ResultMoved,
	}

	for what, c := range map[string]struct {
		record domain.Migration
		want   bool
	}{
		"recorded with UUIDs": {
			domain.Migration{SourceHost: "kvm1", SourceUUID: "1", TargetHost: "hv2", TargetUUID: "2"}, true,
		},
		"moved on to another host that had the name": {
			domain.Migration{SourceHost: "hv2", SourceUUID: "2", TargetHost: "kvm2", TargetUUID: "3"}, false,
		},
		"recorded by an earlier version": {domain.Migration{SourceHost: "old1", TargetHost: "kvm2"}, true},
	} {
		c.record.Start, c.record.End = abandoned.Add(-time.Minute), abandoned.Add(-time.Minute)
		vm := &inventory.VM{
			Host: "hv2", HostUUID: "2", Active: true, Reason: libvirt.ReasonMigrated,
			Metadata: domain.Metadata{Migrations: []domain.Migration{c.record}},
		}

		if got := untouchedSince(vm, "kvm1", step, abandoned); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}

// A VM that the end of its maintenance shut down is off because of that.
func TestUntouchedSince_shutDownByTheEnd(t *testing.T) {
	t.Parallel()

	step := stepOf("a", evacuation.MethodCold, hostrecord.ResultColdMoved)
	step.Ran, step.Target = true, "kvm2"

	for _, returning := range []bool{true, false} {
		step.Returning = returning

		if got := untouchedSince(&inventory.VM{Host: "kvm2"}, "kvm1", step, time.Now()); got != returning {
			t.Errorf("returning %v: untouched %v", returning, got)
		}
	}
}

// Given steps keep their order, whatever an earlier attempt has done of them: else a plan that compares them with what
// is recorded would never be empty.
func TestMergeSteps_keepsTheOrder(t *testing.T) {
	t.Parallel()

	before := &hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{
		stepOf("c", evacuation.MethodLive, hostrecord.ResultMoved),
	}}

	var given []evacuation.Step
	for _, uuid := range []string{"a", "c", "b"} {
		given = append(given, evacuation.Step{UUID: uuid, Method: evacuation.MethodLive})
	}

	in := evacuation.Input{Host: "kvm1", VMs: []evacuation.VM{{UUID: "a"}, {UUID: "b"}}}

	for _, tt := range []struct {
		given []evacuation.Step
		want  string
	}{{given, "a c=Moved b"}, {nil, "c=Moved a b"}} {
		steps, _ := mergeSteps(in, given, tt.given != nil, before)

		var got []string
		for _, s := range steps {
			got = append(got, strings.TrimSuffix(s.UUID+"="+s.Result, "="))
		}

		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("given %v: %s, want %s", tt.given != nil, s, tt.want)
		}
	}
}

// A VM that is off when a drain continues was turned off by the earlier run only if that run had begun to: otherwise
// its user stopped it, and the end of the maintenance must not start it. What was done before the VM was started again
// says nothing about the next stop.
func TestResumeStep_whoTurnedItOff(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		method, result   string
		stopping, active bool
		want             string
		wantStopping     bool
	}{
		"killed while it shut down": {evacuation.MethodShutdown, "", true, false, hostrecord.ResultShutDown, true},
		"killed while it saved":     {evacuation.MethodSave, "", true, false, hostrecord.ResultSaved, true},
		"shut down late": {
			evacuation.MethodShutdown, hostrecord.ResultFailed, true, false, hostrecord.ResultShutDown, true,
		},
		"still shutting down":     {evacuation.MethodShutdown, "", true, true, "", true},
		"stopped by its user":     {evacuation.MethodShutdown, "", false, false, "", false},
		"saved by its user":       {evacuation.MethodSave, hostrecord.ResultFailed, false, false, "", false},
		"done":                    {evacuation.MethodSave, hostrecord.ResultSaved, true, false, hostrecord.ResultSaved, true},
		"done, and started again": {evacuation.MethodShutdown, hostrecord.ResultShutDown, true, true, "", false},
	} {
		in := evacuation.Input{VMs: []evacuation.VM{{UUID: "a", Active: tt.active}}}
		before := stepOf("a", tt.method, tt.result)
		before.Stopping = tt.stopping

		now := evacuation.Step{UUID: "a", Name: "a", Method: evacuation.MethodLeave}
		if tt.active {
			now.Method = tt.method
		}

		if got, _ := resumeStep(in, now, &before); got.Result != tt.want || got.Stopping != tt.wantStopping {
			t.Errorf("%s: result %q, stopping %v; want %q, %v", name, got.Result, got.Stopping, tt.want, tt.wantStopping)
		}
	}

	// One that the end of the maintenance shut down is moved and started by the drain that is wanted all the same. One
	// that it has started again is as any other.
	for name, tt := range map[string]struct{ here, active, ran bool }{
		"away": {ran: true}, "back": {here: true, ran: true}, "started": {here: true, active: true},
	} {
		var in evacuation.Input
		if tt.here {
			in.VMs = []evacuation.VM{{UUID: "a", Active: tt.active}}
		}

		before := stepOf("a", evacuation.MethodCold, hostrecord.ResultColdMoved)
		before.Completed, before.Returning, before.ReturningHalted = true, true, true

		got, gone := resumeStep(in, evacuation.Step{UUID: "a", Method: evacuation.MethodCold}, &before)
		if gone || got.Done() || got.Ran != tt.ran || got.Halted != tt.ran || got.Completed || got.Returning ||
			got.ReturningHalted {
			t.Errorf("%s: %+v, %v", name, got, gone)
		}
	}

	// One that was moved while it was off, and is back and runs, is to be started again only if it is shut down again.
	// One that was shut down for a move that isn't done is, whatever its policy says by now: that blocks nothing.
	for name, tt := range map[string]struct {
		result  string
		ran     bool
		blocked int
	}{"moved, and back": {hostrecord.ResultColdMoved, false, 1}, "killed": {"", true, 0}, "failed": {"Failed", true, 0}} {
		in := evacuation.Input{VMs: []evacuation.VM{{UUID: "a", Active: true}}}
		before := stepOf("a", evacuation.MethodCold, tt.result)
		before.Ran, before.Halted = true, true

		now := []evacuation.Step{{UUID: "a", Name: "a", Method: evacuation.MethodBlocked}}

		got, _ := mergeSteps(in, now, false, &hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{before}})
		if len(got) != 1 || got[0].Ran != tt.ran || got[0].Halted != tt.ran {
			t.Errorf("%s: %+v, want ran %v", name, got, tt.ran)
		}

		if blocked := evacuation.BlockedSteps(undone(got)); len(blocked) != tt.blocked {
			t.Errorf("%s: blocked by %+v", name, blocked)
		}
	}

	// A VM that didn't shut down in time is to be moved by now. If its user stops it after that, the drain didn't.
	in := evacuation.Input{VMs: []evacuation.VM{{UUID: "a", Active: true}}}
	before := stepOf("a", evacuation.MethodShutdown, hostrecord.ResultFailed)
	before.Stopping = true

	now := evacuation.Step{UUID: "a", Name: "a", Method: evacuation.MethodLive}
	if got, _ := resumeStep(in, now, &before); got.Stopping {
		t.Error("the step of a VM that is to be moved says that it shuts down")
	}
}

// Each step reads its own entry without the lock, while the results of others are recorded. The race detector judges.
func TestEvacuationRecord_changesNoStepUnderWay(t *testing.T) {
	t.Parallel()

	d := &drainRun{steps: []hostrecord.RecordedStep{stepOf("a", evacuation.MethodLive, "")}}
	read := make(chan hostrecord.RecordedStep)

	go func() { read <- d.steps[0] }()

	recorded := d.evacuationRecord(false)

	if s := fleettest.Await(t, read); s.Completed || recorded.Steps[0].Completed {
		t.Error("a step counts as completed before the drain is")
	}

	if s := d.evacuationRecord(true).Steps[0]; !s.Completed {
		t.Error("a step doesn't count as completed with its drain")
	}
}

func TestShortenReason(t *testing.T) {
	t.Parallel()

	if got := shortenReason("short"); got != "short" {
		t.Error(got)
	}

	cut := fmt.Errorf("taking the lease: %w", context.Canceled)
	if got := reasonOf(cut); got != "taking the lease: it was cancelled" {
		t.Errorf("a cancelled step gives %q as its reason", got)
	}

	cause := strings.Repeat("a long cause ", reasonLimit/20) + "ends."
	if got := shortenReason(cause + strings.Repeat(" half a remedy", reasonLimit)); got != cause+" …" {
		t.Errorf("got %q", got)
	}

	got := shortenReason(strings.Repeat("ä", reasonLimit))
	if len(got) > reasonLimit+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
	}
}

// A step that transfers nothing takes no turn from those that move a VM, and what another tool moves waits for none.
func TestSlotsOf_endsTakeNoTurnOfMoves(t *testing.T) {
	t.Parallel()

	d := &drainRun{endSlots: admission.NewSlots(1), moveSlots: admission.NewSlots(1)}

	for method, want := range map[string]*admission.Slots{
		evacuation.MethodShutdown: d.endSlots, evacuation.MethodSave: d.endSlots, evacuation.MethodExternal: nil,
		evacuation.MethodLive: d.moveSlots, evacuation.MethodCold: d.moveSlots,
	} {
		if d.slotsOf(stepOf("a", method, "")) != want {
			t.Errorf("%s waits for other slots", method)
		}
	}
}

// A VM that is pinned to a host of a name that isn't known here may be brought back: the plan says so of one that is to
// run on another host.
func TestWarnUnknownPins(t *testing.T) {
	t.Parallel()

	dr, _ := builtIn(t)

	for name, test := range map[string]struct {
		pin, method string
		warned      bool
	}{
		"not pinned":           {"", evacuation.MethodLive, false},
		"pinned to a known":    {"local", evacuation.MethodLive, false},
		"pinned to an unknown": {"node1", evacuation.MethodLive, true},
		"brought elsewhere":    {"node1", evacuation.MethodExternal, true},
		"left":                 {"node1", evacuation.MethodLeave, false},
	} {
		in := evacuation.Input{Host: "local", VMs: []evacuation.VM{{UUID: "db", Name: "db", Pin: test.pin}}}

		p := dr.warnUnknownPins(in, []evacuation.Step{stepOf("db", test.method, "").Step})
		if (p != nil) != test.warned || p != nil && !strings.Contains(p.Detail, `"db" is pinned to host "node1"`) {
			t.Errorf("%s: %+v, want a warning: %v", name, p, test.warned)
		}
	}
}
