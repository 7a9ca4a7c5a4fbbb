package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestServer_ignoresWhatThePlanIgnored: Terraform's plan leaves out what ignore_changes of the lifecycle block names,
// and its apply sends it. None of it may happen.
func TestServer_ignoresWhatThePlanIgnored(t *testing.T) {
	t.Parallel()
	m := newServers(t)
	m.config = with(m.config, map[string]tftypes.Value{ // The driver is shared with other tests.
		"name": str("ignoring"), "disks": filled(m.config["disks"].Type(), map[string]any{"root": map[string]any{
			"file": "/images/ignoring.qcow2", "format": "qcow2",
		}}),
	})
	m.create(t)
	type values = map[string]tftypes.Value
	null := func(name string) tftypes.Value { return tftypes.NewValue(m.state[name].Type(), nil) }
	labels := values{"labels": tftypes.NewValue(m.state["labels"].Type(), values{"app": str("db")})}
	planned := with(m.config, labels)
	plan, err := m.cut.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: m.wire(t, m.state), PriorPrivate: m.private,
		ProposedNewState: m.wire(t, with(m.state, labels)), Config: m.wire(t, planned),
	})
	succeeded(t, err, plan.Diagnostics)

	file := with(planned, values{
		"memory": sized(m, opened(t, m.state["memory"]), "32Mi"), "disks": null("disks"), "interfaces": null("interfaces"),
		"run_strategy": str("Halted"), "update_policy": str("Restart"),
		"deletion_protection": tftypes.NewValue(tftypes.Bool, true),
	})
	done, err := m.cut.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: m.wire(t, m.state), PlannedState: plan.PlannedState,
		Config: m.wire(t, file), PlannedPrivate: plan.PlannedPrivate,
	})
	succeeded(t, err, done.Diagnostics)
	read, err := m.framework.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: virtualmachine.TypeName, CurrentState: done.NewState, Private: done.Private,
	})
	succeeded(t, err, read.Diagnostics)
	now, err := read.NewState.Unmarshal(m.typ)
	if err != nil {
		t.Fatal(err)
	}
	is := opened(t, now)
	for name, was := range with(m.state, labels) {
		if !is[name].Equal(was) {
			t.Errorf("%s was %s, is %s", name, was, is[name])
		}
	}
}

// TestServer_ignoresWhatHadNoValue: what the provider is to choose, because the plan's configuration doesn't declare
// it, stays its choice if only the file declares it.
func TestServer_ignoresWhatHadNoValue(t *testing.T) {
	t.Parallel()
	m := newServers(t)
	type values = map[string]tftypes.Value
	m.config = with(m.config, values{ // The driver is shared with other tests.
		"name": str("choosing"), "run_strategy": str("Halted"), "disks": tftypes.NewValue(m.config["disks"].Type(), nil),
	})
	m.create(t)
	firmware := func(secure any) values {
		return values{"firmware": filled(m.state["firmware"].Type(), map[string]any{"type": "efi", "secure_boot": secure})}
	}
	plan, err := m.cut.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: m.wire(t, m.state), PriorPrivate: m.private,
		ProposedNewState: m.wire(t, with(m.state, firmware(nil))), Config: m.wire(t, with(m.config, firmware(nil))),
	})
	succeeded(t, err, plan.Diagnostics)
	done, err := m.cut.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: m.wire(t, m.state), PlannedState: plan.PlannedState,
		Config: m.wire(t, with(m.config, firmware(true))), PlannedPrivate: plan.PlannedPrivate,
	})
	succeeded(t, err, done.Diagnostics)
	now, err := done.NewState.Unmarshal(m.typ)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := opened(t, now)["firmware"], firmware(nil)["firmware"]; !got.Equal(want) {
		t.Errorf("the firmware is %s, want %s", got, want)
	}
}

// TestPlannedConfig shows what an apply takes from the plan, and what from the file.
func TestPlannedConfig(t *testing.T) {
	t.Parallel()
	text := func(name string) *tfprotov6.SchemaAttribute {
		return &tfprotov6.SchemaAttribute{Name: name, Type: tftypes.String, Optional: true}
	}
	chosen, computed, secret := text("chosen"), text("computed"), text("secret")
	chosen.Computed, computed.Computed, computed.Optional, secret.WriteOnly = true, true, false, true
	nested := func(name string, mode tfprotov6.SchemaObjectNestingMode) *tfprotov6.SchemaAttribute {
		return &tfprotov6.SchemaAttribute{Name: name, Optional: true, NestedType: &tfprotov6.SchemaObject{
			Nesting: mode, Attributes: []*tfprotov6.SchemaAttribute{text("declared"), chosen, computed, secret},
		}}
	}
	block := &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{
		text("declared"), chosen, computed, secret,
		nested("one", tfprotov6.SchemaObjectNestingModeSingle), nested("many", tfprotov6.SchemaObjectNestingModeMap),
		nested("list", tfprotov6.SchemaObjectNestingModeList), nested("set", tfprotov6.SchemaObjectNestingModeSet),
	}}
	typ := block.ValueType()
	p := plannedConfig{isLeftAlone: func(path string) bool { return path == "chosen" || path == "many.*.chosen" }}
	const file, plan = "file", "plan"
	of := func(declared, chosen, computed, secret any) map[string]any {
		return map[string]any{"declared": declared, "chosen": chosen, "computed": computed, "secret": secret}
	}
	inFile, inPlan := of(file, file, nil, file), of(plan, plan, plan, nil)
	both := of(plan, plan, nil, file)
	undecided := of(tftypes.UnknownValue, tftypes.UnknownValue, tftypes.UnknownValue, nil)
	for name, tc := range map[string]struct{ config, planned, want map[string]any }{
		"what is declared":        {inFile, inPlan, both},
		"what the provider chose": {of(nil, nil, nil, nil), of(nil, plan, plan, nil), of(nil, nil, nil, nil)},
		"what is left alone": {
			of("", "", nil, nil), of(plan, plan, plan, nil), of(plan, "", nil, nil),
		},
		"what is left alone in an element": {
			block1("many", map[string]any{"a": of("", "", nil, nil)}), block1("many", map[string]any{"a": inPlan}),
			block1("many", map[string]any{"a": of(plan, "", nil, nil)}),
		},
		"what declares that there is nothing": {
			block1("one", of("", "", nil, nil)), block1("one", inPlan), block1("one", of(plan, plan, nil, nil)),
		},
		"what was removed":  {of(nil, nil, nil, nil), inPlan, of(plan, nil, nil, nil)},
		"what was added":    {inFile, of(nil, nil, plan, nil), of(nil, nil, nil, file)},
		"what wasn't known": {inFile, undecided, of(file, nil, nil, file)},
		"what had no value before": {
			of(nil, file, nil, nil), of(nil, tftypes.UnknownValue, nil, nil), of(nil, nil, nil, nil),
		},
		"what had no value before in an element": {
			block1("many", map[string]any{"a": inFile}), block1("many", map[string]any{"a": undecided}),
			block1("many", map[string]any{"a": of(file, nil, nil, file)}),
		},
		"an object":                {block1("one", inFile), block1("one", inPlan), block1("one", both)},
		"an object that was added": {block1("one", inFile), block1("one", nil), block1("one", nil)},
		"an object that was removed": {
			block1("one", nil), block1("one", inPlan), block1("one", of(plan, plan, nil, nil)),
		},
		"objects by key": {
			block1("many", map[string]any{"a": inFile, "added": inFile}),
			block1("many", map[string]any{"a": inPlan, "removed": inPlan}),
			block1("many", map[string]any{"a": both, "removed": of(plan, plan, nil, nil)}),
		},
		"objects that weren't known": {
			block1("many", map[string]any{"a": inFile}), block1("many", tftypes.UnknownValue),
			block1("many", map[string]any{"a": inFile}),
		},
		"a list": {
			block1("list", []any{inFile}), block1("list", []any{inPlan}), block1("list", []any{both}),
		},
		"a list of another length": {
			block1("list", []any{inFile, inFile}), block1("list", []any{inPlan}),
			block1("list", []any{of(plan, plan, nil, nil)}),
		},
		"a set": {
			block1("set", []any{inFile}), block1("set", []any{of(plan, plan, nil, nil)}),
			block1("set", []any{of(plan, plan, nil, nil)}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := p.object("", block.Attributes, filled(typ, tc.config), filled(typ, tc.planned))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(filled(typ, tc.want).String(), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func block1(name string, value any) map[string]any { return map[string]any{name: value} }

// filled returns a value of a type. What it doesn't have is null.
func filled(typ tftypes.Type, content any) tftypes.Value {
	if content == nil || content == tftypes.UnknownValue {
		return tftypes.NewValue(typ, content)
	}
	switch typ := typ.(type) {
	case tftypes.Object:
		values := map[string]tftypes.Value{}
		attributes, _ := content.(map[string]any)
		for name, of := range typ.AttributeTypes {
			values[name] = filled(of, attributes[name])
		}
		return tftypes.NewValue(typ, values)
	case tftypes.Map:
		values := map[string]tftypes.Value{}
		elements, _ := content.(map[string]any)
		for key, value := range elements {
			values[key] = filled(typ.ElementType, value)
		}
		return tftypes.NewValue(typ, values)
	case tftypes.List:
		return tftypes.NewValue(typ, elements(typ.ElementType, content))
	case tftypes.Set:
		return tftypes.NewValue(typ, elements(typ.ElementType, content))
	default:
		return tftypes.NewValue(typ, content)
	}
}

func elements(of tftypes.Type, content any) []tftypes.Value {
	var values []tftypes.Value
	list, _ := content.([]any)
	for _, value := range list {
		values = append(values, filled(of, value))
	}
	return values
}
