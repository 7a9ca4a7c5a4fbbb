package virtualmachine

import (
	"strings"
	"testing"
)

// withIgnition is a VM with a disk of its own and a configuration for Ignition.
func withIgnition(changes in) in {
	return minimal.with(in{
		"disks": in{"root": in{"pool": "vms", "size": "1Gi"}},
		"ignition": in{
			"config_wo": `{"ignition": {"version": "3.4.0"}, "hunter2": 1}`, "config_wo_version": "1",
		}.with(changes),
	})
}

// What isn't to change needs no restart, although it isn't known here which file it is; what is does.
func TestIgnition_plan(t *testing.T) {
	t.Parallel()
	config := withIgnition(nil)
	state := stateAfterApply(t, config)
	if said := state.Ignition.String(); strings.Contains(said, "hunter2") {
		t.Errorf("the state has %s", said)
	}
	without := minimal.with(in{"disks": in{"root": in{"pool": "vms", "size": "1Gi"}}})
	for name, test := range map[string]struct {
		config            in
		changed, restarts bool
	}{
		"the same":        {config, false, false},
		"another secret":  {withIgnition(in{"config_wo": `{"ignition": {"version": "3.5.0"}}`}), false, false},
		"another label":   {config.with(in{"labels": in{"a": "b"}}), true, false},
		"another version": {withIgnition(in{"config_wo_version": "2"}), true, true},
		"another pool":    {withIgnition(in{"pool": "other"}), true, true},
		"none":            {without, true, true},
	} {
		p := planning{config: modelOf(t, test.config), state: state, live: vmAfterApply(t, config).LiveSpec}
		o := p.plan()
		if restarts := strings.Contains(diagText(o.diags), "Change needs a restart"); o.changed != test.changed ||
			restarts != test.restarts {
			t.Errorf("%s: changed: %v, %s", name, o.changed, diagText(o.diags))
		}
	}
	chosen := withIgnition(in{"pool": "other"})
	p := planning{
		config: modelOf(t, config), state: stateAfterApply(t, chosen), live: vmAfterApply(t, chosen).LiveSpec,
	}
	if said := diagText(p.plan().diags); said != "" {
		t.Errorf("a pool that is no longer declared: %s", said)
	}
	var now model
	now.fromFleet(observation{vm: vmAfterApply(t, config)}, state)
	if !now.Ignition.Equal(state.Ignition) {
		t.Errorf("as it was: %s", now.Ignition)
	}
	now.fromFleet(observation{vm: vmAfterApply(t, without)}, state)
	if !now.Ignition.IsNull() {
		t.Errorf("where there is none: %s", now.Ignition)
	}
}

func TestIgnition_validate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config in
		want   string
	}{
		"fine":       {withIgnition(nil), ""},
		"unknown":    {withIgnition(in{"config_wo": nil, "config_wo_version": nil, "config": unknownMark}), ""},
		"nothing":    {withIgnition(in{"config_wo": nil, "config_wo_version": nil}), "It is required, or config_wo"},
		"no JSON":    {withIgnition(in{"config_wo": "{hunter2"}), "ignition.config_wo: Line 1: it isn't valid JSON"},
		"Butane":     {withIgnition(in{"config_wo": nil, "config": "variant: fcos"}), "butane --strict"},
		"both":       {withIgnition(in{"config": "{}"}), "Only one of config and config_wo"},
		"no version": {withIgnition(in{"config_wo_version": nil}), "ignition.config_wo_version: "},
		"no pool":    {withIgnition(nil).without("disks"), "Set pool to the storage pool"},
	} {
		said := diagText(modelOf(t, test.config).validate())
		if test.want == "" && said != "" || !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%s: %q; want %q", name, said, test.want)
		}
	}
}
