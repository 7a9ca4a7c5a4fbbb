package virtualmachine

import (
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
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

// A file that was to be removed is in the state until it is gone, unless its removal waits for the next start.
func TestIgnition_left(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy         string
		declared       bool // in the state
		defined, runs  bool
		want, restarts bool
	}{
		"an imported VM":       {"Restart", false, true, true, false, false},
		"broken off":           {"Restart", false, false, true, true, true},
		"after its restart":    {"Restart", false, false, false, true, false},
		"killed":               {"Restart", true, false, true, true, true},
		"killed after it":      {"Restart", true, false, false, true, false},
		"staged":               {"Stage", false, false, true, false, false},
		"staged and killed":    {"Stage", true, false, true, false, false},
		"staged and restarted": {"Stage", false, false, false, true, false},
	} {
		config := withIgnition(nil).with(in{"update_policy": test.policy})
		prior := config
		if !test.declared {
			prior = config.without("ignition")
		}
		vm := vmAfterApply(t, config)
		vm.HostUUID = "here"
		record := vm.Metadata.OwnDisks[domain.IgnitionKey]
		record.HostUUID = "here"
		vm.Metadata.OwnDisks = map[string]domain.OwnDisk{domain.IgnitionKey: record}
		if !test.defined {
			vm.PersistentSpec.Ignition = nil
		}
		if !test.runs {
			vm.LiveSpec.Ignition = nil
		}
		var now, again model
		now.fromFleet(observation{vm: vm}, stateAfterApply(t, prior))
		again.fromFleet(observation{vm: vm}, &now)
		if isSet(now.Ignition) != test.want || !again.Ignition.Equal(now.Ignition) {
			t.Errorf("%s: the state has %s, then %s", name, now.Ignition, again.Ignition)
		}
		p := planning{config: modelOf(t, config.without("ignition")), state: &now, live: vm.LiveSpec}
		o := p.plan()
		removes := o.want.Ignition != nil && *o.want.Ignition == ""
		if removes != test.want || o.power != nil && o.power.Restarts != test.restarts || o.diags.HasError() {
			t.Errorf("%s: removes: %v, %+v, %s", name, removes, o.power, diagText(o.diags))
		}
		if was := now.Ignition; test.want {
			if file := modelOf(t, config).ignitionFile(&now); file == nil || *file != knownSource {
				t.Errorf("%s: declared again after %s, the file is %v", name, was, file)
			}
		}
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
