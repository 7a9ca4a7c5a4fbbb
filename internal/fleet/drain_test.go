package fleet

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/eviction"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

func stepOf(name, method, result string) hostrecord.Step {
	return hostrecord.Step{Step: eviction.Step{UUID: name, Name: name, Method: method}, Result: result}
}

// What runs on the host is not gone, whatever was recorded.
func TestContradict(t *testing.T) {
	t.Parallel()

	steps := []hostrecord.Step{
		stepOf("gone", eviction.MethodLive, hostrecord.ResultMoved),
		stepOf("back", eviction.MethodLive, hostrecord.ResultMoved),
		stepOf("started", eviction.MethodShutdown, hostrecord.ResultShutDown),
		stepOf("resumed", eviction.MethodSave, hostrecord.ResultSaved),
		stepOf("woken", eviction.MethodLeave, hostrecord.ResultLeft),
		stepOf("late", eviction.MethodLive, hostrecord.ResultFailed),
		stepOf("open", eviction.MethodLive, ""),
	}
	steps[5].Reason = "it is slow"

	running := map[string]string{}
	for _, s := range steps[1:] {
		running[s.UUID] = s.Name
	}

	running["z"], running["y"] = "zoe", "yan"

	if come := contradict(steps, running); !slices.Equal(come, []string{"yan", "zoe"}) {
		t.Errorf("come %v", come)
	}

	for i, s := range steps {
		switch want := []string{hostrecord.ResultMoved, "", "", "", "", hostrecord.ResultFailed, ""}[i]; {
		case want == "" && s.Name != "open":
			if s.Result != hostrecord.ResultFailed || !strings.Contains(s.Reason, "runs there all the same") {
				t.Errorf("%s: %s, %s", s.Name, s.Result, s.Reason)
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
	step := stepOf("web", eviction.MethodLive, hostrecord.ResultFailed)
	step.Reason = err.Error()

	want := "\n  - \"web\" (LiveMigration): the VM can't be moved:\n    - Reason: it is so. Change it."
	if got := notDone(step); got != want {
		t.Errorf("%q, want %q", got, want)
	}

	in := eviction.Input{Host: "kvm1", Default: eviction.LiveMigrate, Machines: []eviction.Machine{{
		UUID: "u", Name: "web", Active: true, Persistent: true, Live: map[string][]migration.Blocker{
			"kvm2": {{Reason: "Reason", Status: status.False, Message: "it is so", Remedy: "Change it."}},
		},
	}}}

	want = "host \"kvm1\" can't be drained because of:\n  - \"web\" (strategy LiveMigrate of the provider): " +
		"Reason: it is so. Change it"
	if got := BlockedText("kvm1", eviction.Blocked(eviction.Compute(in))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Where a VM is gets told only as far as it is known.
func TestEvacuationStep_doneText(t *testing.T) {
	t.Parallel()

	off, moved := stepOf("a", eviction.MethodShutdown, hostrecord.ResultShutDown),
		stepOf("b", eviction.MethodLive, hostrecord.ResultMoved)
	moved.Target = "kvm2"
	gone := moved
	gone.Reason = "it had gone already"

	for want, step := range map[string]hostrecord.Step{
		`"a" ShutDown`: off, `"b" Moved to host "kvm2"`: moved, `"b" Moved (it had gone already)`: gone,
	} {
		if got := step.DoneText(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A VM that a drain is about to shut down, or has, stays off while the host
// is cordoned, even before that is recorded.
func TestHostRecord_evicted(t *testing.T) {
	t.Parallel()

	tests := []struct {
		method, result string
		want           bool // for a VM that is off
		leaving        bool // for one that runs
	}{
		{eviction.MethodShutdown, "", true, true},
		{eviction.MethodShutdown, hostrecord.ResultShutDown, true, false},
		{eviction.MethodShutdown, hostrecord.ResultFailed, false, false},
		{eviction.MethodSave, "", true, true},
		{eviction.MethodSave, hostrecord.ResultSaved, true, false},
		{eviction.MethodCold, "", true, true},
		{eviction.MethodCold, hostrecord.ResultColdMoved, false, false},
		{eviction.MethodLive, "", false, true},
		{eviction.MethodLive, hostrecord.ResultMoved, false, false},
		{eviction.MethodLeave, hostrecord.ResultLeft, false, false},
		{eviction.MethodExternal, "", false, false},
	}

	for _, tt := range tests {
		record := hostrecord.Record{
			Cordon: &hostrecord.Cordon{ID: "m", Owner: "alice", Why: "new memory"},
			Evacuation: &hostrecord.Evacuation{Steps: []hostrecord.Step{
				stepOf("other", eviction.MethodShutdown, ""), stepOf("web", tt.method, tt.result),
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
	in := eviction.Input{
		Host: "kvm1", Default: eviction.LiveMigrate,
		Hosts: []eviction.Host{{Name: "kvm2", Free: 8}, {Name: "kvm3", Free: 4}},
		Machines: []eviction.Machine{
			{UUID: "a", Name: "a", Active: true, Persistent: true, Memory: 2, Live: ways},
			{UUID: "b", Name: "b", Active: true, Persistent: true, Memory: 4, Live: ways},
		},
	}
	step := eviction.Step{UUID: "a", Method: eviction.MethodLive, Target: "kvm2"}

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

	in.Machines[1].Memory = 6 // The other one needs most of the same host.
	if got := targetFor(in, step, []string{"kvm3"}); got != "kvm2" {
		t.Errorf("%q; want the one that is left", got)
	}
}

// What a drain did that was given up is of no interest to one on another day.
func TestRemembered(t *testing.T) {
	t.Parallel()

	steps := []hostrecord.Step{{Step: eviction.Step{UUID: "a"}, Result: hostrecord.ResultMoved}}
	old := &hostrecord.Evacuation{Steps: steps, GivenUp: time.Now().Add(-givenUpMemory - time.Minute)}

	if e := new(Fleet).remembered(t.Context(), "kvm1", old); len(e.Steps) > 0 {
		t.Errorf("given up long ago: %+v", e.Steps)
	}

	if e := new(Fleet).remembered(t.Context(), "kvm1", &hostrecord.Evacuation{Steps: steps}); len(e.Steps) != 1 {
		t.Errorf("not given up: %+v", e.Steps)
	}
}

// Given steps keep their order, whatever an earlier attempt has done of them:
// else a plan that compares them with what is recorded would never be empty.
func TestDrain_takeKeepsTheOrder(t *testing.T) {
	t.Parallel()

	before := &hostrecord.Evacuation{Steps: []hostrecord.Step{stepOf("c", eviction.MethodLive, hostrecord.ResultMoved)}}

	var given []eviction.Step
	for _, uuid := range []string{"a", "c", "b"} {
		given = append(given, eviction.Step{UUID: uuid, Method: eviction.MethodLive})
	}

	in := eviction.Input{Host: "kvm1", Machines: []eviction.Machine{{UUID: "a"}, {UUID: "b"}}}

	for _, tt := range []struct {
		given []eviction.Step
		want  string
	}{{given, "a c=Moved b"}, {nil, "c=Moved a b"}} {
		d := &drain{Drain: Drain{Host: "kvm1", Steps: tt.given}, in: in}
		d.take(given, before)

		var got []string
		for _, s := range d.steps {
			got = append(got, strings.TrimSuffix(s.UUID+"="+s.Result, "="))
		}

		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("given %v: %s, want %s", tt.given != nil, s, tt.want)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()

	if got := brief("short"); got != "short" {
		t.Error(got)
	}

	got := brief(strings.Repeat("ä", reasonLimit))
	if len(got) > reasonLimit+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-8:])
	}
}
