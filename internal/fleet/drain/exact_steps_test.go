package drain

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// What a drain does itself, and what others do to those that it doesn't touch any more, keeps no step from holding; all
// else does.
func TestStepChanges_inTheMiddle(t *testing.T) {
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
		"a user started it": {
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

		got := strings.Join(stepChanges([]hostrecord.Step{tt.step}, map[string]bool{"a": tt.underWay}, now), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	half := step("a", evacuation.MethodCold, hostrecord.ResultFailed)
	half.Ran = true // An earlier attempt has shut it down to move it.
	in.VMs = []evacuation.VM{off(machine("a"))}

	if got := stepChanges([]hostrecord.Step{half}, nil, in); len(got) > 0 {
		t.Errorf("half moved: %v", got)
	}

	ended := step("a", evacuation.MethodShutdown, hostrecord.ResultFailed)
	ended.Stopping = true // The guest shut down only when the try had failed.

	if got := stepChanges([]hostrecord.Step{ended}, nil, in); len(got) > 0 {
		t.Errorf("shut down late: %v", got)
	}
}
