package drain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// What a drain does itself, and what others do to those that it doesn't touch any more, keeps no step from holding; all
// else does.
func TestStepChanges_inTheMiddle(t *testing.T) {
	t.Parallel()

	machine := func(name string) evacuation.VM {
		return evacuation.VM{
			UUID: name, Name: name, Active: true, Persistent: true, Memory: 1,
			LiveBlockers: map[string][]migration.Blocker{"kvm2": nil},
		}
	}
	in := evacuation.Input{
		Host: "kvm1", Hosts: []evacuation.Host{{Name: "kvm2", Free: 2}}, Default: evacuation.LiveMigrate,
	}
	step := func(name, method, result string) hostrecord.RecordedStep {
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
		step     hostrecord.RecordedStep
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

		got := strings.Join(stepChanges([]hostrecord.RecordedStep{tt.step}, map[string]bool{"a": tt.underWay}, now), "\n")
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}

	half := step("a", evacuation.MethodCold, hostrecord.ResultFailed)
	half.Ran = true // An earlier attempt has shut it down to move it.
	in.VMs = []evacuation.VM{off(machine("a"))}

	if got := stepChanges([]hostrecord.RecordedStep{half}, nil, in); len(got) > 0 {
		t.Errorf("half moved: %v", got)
	}
}

// Before each step a drain asks again about the VM of this step, not about all the others: per step every host is asked
// about one VM at most, however many VMs there are. What the questions are about is counted where they are asked.
func TestVerifySteps_asksAboutOneVM(t *testing.T) {
	t.Parallel()

	const many = 10

	configs, domains := map[string]inventory.HostConfig{}, make([]string, many)

	for i := range many {
		domains[i] = fmt.Sprintf("<domain type='test'><name>vm%d</name><uuid>%s</uuid><memory>1024</memory>"+
			"<os><type>hvm</type></os></domain>", i, uuid.NewString())
		configs[fmt.Sprintf("to%d", i)] = inventory.HostConfig{URI: fleettest.BuiltInURI(t)}
	}

	configs["from"] = inventory.HostConfig{URI: fleettest.BuiltInURI(t, domains...)}
	dr := drainerOf(t, configs)

	in, _, err := Input(t.Context(), dr, "from", false)
	if err != nil || len(in.VMs) != many || len(in.VMs[0].LiveBlockers) != many {
		t.Fatalf("%d VMs, %v", len(in.VMs), err)
	}

	d := Begun(dr, Drain{Host: "from"})
	d.in = in

	for i, m := range in.VMs {
		step := stepOf(m.Name, evacuation.MethodLive, "")
		step.UUID, step.Target = m.UUID, fmt.Sprintf("to%d", i)
		d.steps = append(d.steps, step)
	}

	asked := func() map[string]int {
		calls := dr.hosts.Calls()
		count := map[string]int{"about their jobs": calls["from"]["virDomainGetJobStats"]}

		for i := range many { // Whether the target has a VM of that name is one question of each check of a move.
			count["about moves"] += calls[fmt.Sprintf("to%d", i)]["virDomainLookupByName"]
		}

		return count
	}
	first := asked()

	for what, n := range first {
		if n == 0 {
			t.Errorf("nothing was asked %s", what)
		}
	}

	for _, s := range d.steps {
		if _, err := d.verifySteps(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}

	// All steps together ask as much as the plan did once, about each VM and each host. Each step asks its target first.
	for what, n := range asked() {
		if n -= first[what]; n > first[what]+many {
			t.Errorf("%d questions %s by %d steps, after %d of the plan", n, what, many, first[what])
		}
	}
}
