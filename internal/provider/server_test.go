package provider

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// testVM is a VM on libvirt's test driver, which Terraform's state knows.
type testVM struct {
	cut, framework tfprotov6.ProviderServer
	typ            tftypes.Type
	config, state  map[string]tftypes.Value
	private        []byte
}

const declared = `{
  "name": "short-cut", "arch": "i686", "run_strategy": "Always", "memory": {"size": "64Mi"}, "labels": {"app": "web"},
  "disks": {"root": {"file": "/images/short-cut.qcow2", "format": "qcow2"}},
  "interfaces": {"lan": {"network": "default"}}, "wait_for": {"timeout": "1m"}, "termination_grace_period": "0s"
}`

func newTestVM(t *testing.T) *testVM {
	t.Helper()
	m := newServers(t)
	m.create(t)
	return m
}

// newServers is a VM that isn't there yet.
func newServers(t *testing.T) *testVM {
	t.Helper()
	s := serve(t)
	local := block{"uri": "test:///default", "memory_limit": "16Gi"}
	succeeded(t, nil, s.configure(t, block{"hosts": block{"local": local}}))
	cut, ok := s.server.(*server)
	if !ok {
		t.Fatal("the framework's server has lost an interface, and with it the fast path")
	}
	schemas, err := cut.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	m := &testVM{cut: cut, framework: cut.frameworkServer}
	m.typ = schemas.ResourceSchemas[virtualmachine.TypeName].ValueType()
	config, err := tfprotov6.RawState{JSON: []byte(declared)}.Unmarshal(m.typ)
	if err != nil {
		t.Fatal(err)
	}
	m.config = opened(t, config)
	return m
}

func (m *testVM) create(t *testing.T) {
	t.Helper()
	null := m.wire(t, nil)
	plan, err := m.framework.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: null, ProposedNewState: m.wire(t, m.config),
		Config: m.wire(t, m.config),
	})
	succeeded(t, err, plan.Diagnostics)
	made, err := m.framework.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: null, PlannedState: plan.PlannedState,
		Config: m.wire(t, m.config), PlannedPrivate: plan.PlannedPrivate,
	})
	succeeded(t, err, made.Diagnostics)
	t.Cleanup(func() { m.destroy(t, made) })
	state, err := made.NewState.Unmarshal(m.typ)
	if err != nil {
		t.Fatal(err)
	}
	m.state, m.private = opened(t, state), made.Private
}

func (m *testVM) destroy(t *testing.T, made *tfprotov6.ApplyResourceChangeResponse) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // A cleanup's context has ended.
	gone, err := m.framework.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: made.NewState, PlannedState: m.wire(t, nil),
		Config: m.wire(t, nil), PlannedPrivate: made.Private,
	})
	succeeded(t, err, gone.Diagnostics)
}

func succeeded(t *testing.T, err error, diags []*tfprotov6.Diagnostic) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diags {
		if d.Severity != tfprotov6.DiagnosticSeverityError {
			continue
		}
		t.Fatalf("%s: %s", d.Summary, d.Detail)
	}
}

func opened(t *testing.T, v tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	var attributes map[string]tftypes.Value
	if err := v.As(&attributes); err != nil {
		t.Fatal(err)
	}
	return attributes
}

// wire encodes a VM; nil is null.
func (m *testVM) wire(t *testing.T, attributes map[string]tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	var content any
	if attributes != nil {
		content = attributes
	}
	d, err := tfprotov6.NewDynamicValue(m.typ, tftypes.NewValue(m.typ, content))
	if err != nil {
		t.Fatal(err)
	}
	return &d
}

// with replaces attributes.
func with(all, others map[string]tftypes.Value) map[string]tftypes.Value {
	changed := maps.Clone(all)
	maps.Copy(changed, others)
	return changed
}

func str(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

// TestServer_fastPathAnswersAsTheFramework shows that the fast path gives the framework's answer to the last byte, and
// that it isn't taken where something is to be done.
func TestServer_fastPathAnswersAsTheFramework(t *testing.T) {
	t.Parallel()
	m := newTestVM(t)
	type values = map[string]tftypes.Value
	location := with(opened(t, m.state["location"]), values{
		"stale_definitions": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{str("x")}),
	})
	memory := opened(t, m.state["memory"])
	for name, tc := range map[string]struct {
		state, config values
		reads, plans  bool // Whether the fast path answers.
	}{
		"as it was":            {reads: true, plans: true},
		"not ready":            {state: values{"ready": tftypes.NewValue(tftypes.Bool, false)}},
		"stopped":              {state: values{"status": str("Stopped"), "phase": str("")}},
		"stale definition":     {state: values{"location": tftypes.NewValue(m.state["location"].Type(), location)}},
		"for another reason":   {state: values{"status_reason": str("x")}, plans: true},
		"other labels":         {config: values{"labels": tftypes.NewValue(m.state["labels"].Type(), nil)}, reads: true},
		"same in another unit": {config: values{"memory": sized(m, memory, "65536Ki")}, reads: true},
		"more memory":          {config: values{"memory": sized(m, memory, "32Mi")}, reads: true},
		"still in another unit": {
			state: values{"memory": sized(m, memory, "65536Ki")}, config: values{"memory": sized(m, memory, "65536Ki")},
			reads: true, plans: true,
		},
		"imported": {state: values{"name": tftypes.NewValue(tftypes.String, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, config := with(m.state, tc.state), with(m.config, tc.config)
			m.compareReads(t, state, tc.reads)
			m.comparePlans(t, state, with(state, tc.config), config, tc.plans)
		})
	}
}

// TestServer_plansNewVMsAsTheFramework shows that a new VM is planned the same without Terraform's proposal.
func TestServer_plansNewVMsAsTheFramework(t *testing.T) {
	t.Parallel()
	// A name is planned once by each provider.
	long, short := newServers(t), newServers(t)
	// The driver is shared with tests whose VM has the declared name and disk.
	config := with(long.config, map[string]tftypes.Value{
		"name": str("planned"), "disks": tftypes.NewValue(long.config["disks"].Type(), nil),
	})
	req := &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: long.wire(t, nil), ProposedNewState: long.wire(t, config),
		Config: long.wire(t, config),
	}
	want, err := long.framework.PlanResourceChange(t.Context(), req)
	succeeded(t, err, want.Diagnostics)
	got, err := short.cut.PlanResourceChange(t.Context(), req)
	succeeded(t, err, got.Diagnostics)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("planning a new VM (-framework +fast path):\n%s", diff)
	}
}

// TestServer_takesSavedStatesAsTheFrameworkDoes: a newer version may have saved what this one doesn't know.
func TestServer_takesSavedStatesAsTheFrameworkDoes(t *testing.T) {
	t.Parallel()
	m := newServers(t)
	for name, req := range map[string]*tfprotov6.UpgradeResourceStateRequest{
		"this version's":     {RawState: &tfprotov6.RawState{JSON: []byte(declared)}},
		"unknown attribute":  {RawState: &tfprotov6.RawState{JSON: []byte(`{"name": "a", "disks": {"a": {"b": 1}}}`)}},
		"another version's":  {RawState: &tfprotov6.RawState{JSON: []byte(declared)}, Version: 99},
		"another type":       {RawState: &tfprotov6.RawState{JSON: []byte(`{"name": 1, "disks": true}`)}},
		"not JSON":           {RawState: &tfprotov6.RawState{JSON: []byte(`name = "a"`)}},
		"nothing":            {},
		"another resource's": {TypeName: "virtfleet_other", RawState: &tfprotov6.RawState{JSON: []byte(declared)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if req.TypeName == "" {
				req.TypeName = virtualmachine.TypeName
			}
			want, err := m.framework.UpgradeResourceState(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.cut.UpgradeResourceState(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("taking a saved state (-framework +fast path):\n%s", diff)
			}
		})
	}
}

func sized(m *testVM, memory map[string]tftypes.Value, size string) tftypes.Value {
	return tftypes.NewValue(m.state["memory"].Type(), with(memory, map[string]tftypes.Value{"size": str(size)}))
}

func (m *testVM) compareReads(t *testing.T, state map[string]tftypes.Value, cut bool) {
	t.Helper()
	req := &tfprotov6.ReadResourceRequest{
		TypeName: virtualmachine.TypeName, CurrentState: m.wire(t, state), Private: m.private,
	}
	want, err := m.framework.ReadResource(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.cut.ReadResource(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reading (-framework +fast path):\n%s", diff)
	}
	if taken := got.NewState == req.CurrentState; taken != cut {
		t.Errorf("reading took the fast path: %t, want %t", taken, cut)
	}
}

func (m *testVM) comparePlans(t *testing.T, state, proposed, config map[string]tftypes.Value, cut bool) {
	t.Helper()
	req := &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: m.wire(t, state), ProposedNewState: m.wire(t, proposed),
		Config: m.wire(t, config), PriorPrivate: m.private,
	}
	want, err := m.framework.PlanResourceChange(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.cut.PlanResourceChange(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("planning (-framework +fast path):\n%s", diff)
	}
	if taken := got.PlannedState == req.PriorState; taken != cut {
		t.Errorf("planning took the fast path: %t, want %t", taken, cut)
	}
}
