package hostmaintenance

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
)

// The state says of every VM where it went, also of one that another tool has moved.
func TestModel_resultsSayWhereVMsWent(t *testing.T) {
	t.Parallel()
	step := func(target, arrived string) hostrecord.RecordedStep {
		return hostrecord.RecordedStep{Step: evacuation.Step{Target: target}, Arrived: arrived}
	}
	var m model
	m.setSteps([]hostrecord.RecordedStep{step("kvm2", ""), step("", "kvm3"), step("", "")}, true)
	for i, want := range []attr.Value{types.StringValue("kvm2"), types.StringValue("kvm3"), types.StringNull()} {
		result, _ := m.Results.Elements()[i].(types.Object)
		if got := result.Attributes()["target"]; !want.Equal(got) {
			t.Errorf("result %d went to %s, want %s", i, got, want)
		}
	}
}

// A maintenance that was not finished doesn't leave the state silently, unless it did nothing, or the host still knows
// what it did and no other one has taken it over.
func TestModel_leavesUnfinished(t *testing.T) {
	t.Parallel()
	moved := hostrecord.RecordedStep{Step: evacuation.Step{Name: "web"}, Result: hostrecord.ResultMoved}
	undone := hostrecord.Record{Evacuation: &hostrecord.Evacuation{}}
	another := hostrecord.Record{Cordon: &hostrecord.Cordon{ID: "n", Owner: "bob"}, Evacuation: undone.Evacuation}
	failed := hostrecord.RecordedStep{Step: evacuation.Step{Name: "db"}, Result: hostrecord.ResultFailed}
	for what, c := range map[string]struct {
		steps   []hostrecord.RecordedStep
		drained bool
		record  hostrecord.Record
		warns   string
	}{
		"lost":                      {steps: []hostrecord.RecordedStep{moved, failed}, warns: `"web": Moved`},
		"did nothing":               {steps: []hostrecord.RecordedStep{failed}},
		"finished, then ended":      {steps: []hostrecord.RecordedStep{moved}, drained: true},
		"ended, and not undone":     {steps: []hostrecord.RecordedStep{moved}, record: undone},
		"taken over":                {steps: []hostrecord.RecordedStep{moved}, record: another, warns: "cordoned by bob"},
		"finished, another follows": {steps: []hostrecord.RecordedStep{moved}, drained: true, record: another},
	} {
		m := model{Host: types.StringValue("kvm1")}
		m.setSteps(c.steps, c.drained)
		diags := m.leavesUnfinished(c.record)
		if (len(diags) > 0) != (c.warns != "") {
			t.Errorf("%s: %v", what, diags)
		}
		for _, d := range diags {
			if !strings.Contains(d.Detail(), c.warns) || strings.Contains(d.Detail(), "db") {
				t.Errorf("%s: %s", what, d.Detail())
			}
		}
	}
}

// The time for moving VMs back is that of what moves back, also if the host has lost its record.
func TestBackBudget(t *testing.T) {
	t.Parallel()
	big := &hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{{Step: evacuation.Step{Transfer: 1 << 40}}}}
	none := backBudget(&hostrecord.Evacuation{}, nil)
	if got := backBudget(nil, nil); got != 0 {
		t.Errorf("%v for nothing", got)
	}
	if own, told := backBudget(big, nil), backBudget(nil, big); own <= none || told != own {
		t.Errorf("%v, and %v by what other hosts know; want the same, more than %v", own, told, none)
	}
}
