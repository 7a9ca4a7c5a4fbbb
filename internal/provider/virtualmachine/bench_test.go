package virtualmachine_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// typical is a VM as people declare it.
const typical = `{
  "name": "bench", "arch": "i686", "labels": {"app": "web", "tier": "prod"}, "run_strategy": "Always",
  "title": "Web", "description": "Serves the web.",
  "cpu": {"cores": 2, "sockets": 1, "threads": 1}, "memory": {"size": "64Mi"}, "termination_grace_period": "0s",
  "disks": {
    "root": {
      "file": "/images/root.qcow2", "format": "qcow2", "bus": "virtio", "boot_order": 1, "iothread": 1,
      "io_tune": {"total_iops_sec": 5000}
    },
    "data": {"file": "/images/data.raw", "format": "raw", "bus": "virtio", "cache": "none"},
    "iso": {"device": "cdrom", "bus": "sata"}
  },
  "interfaces": {"lan": {"network": "default", "model": "virtio"}},
  "devices": {
    "graphics": {"type": "vnc"}, "inputs": {"tablet": {"type": "tablet", "bus": "usb"}}, "rng": {"rate_bytes": 1024},
    "watchdog": {"action": "reset"}
  },
  "platform": {"clock": {"offset": "utc"}, "events": {"on_crash": "restart"}, "iothreads": 1},
  "guest_agent": {"enabled": true}, "wait_for": {"timeout": "5m"}
}`

// rpc is the provider as Terraform calls it, for one VM.
type rpc struct {
	b        testing.TB
	provider *provider.Provider
	server   tfprotov6.ProviderServer
	schema   tftypes.Type
	config   *tfprotov6.DynamicValue
}

// local is a provider block for libvirt's built-in driver.
const local = `{"hosts": {"local": {"uri": "test:///default", "memory_limit": "16Gi"}}}`

func newRPC(b testing.TB, hosts, vm string) *rpc {
	b.Helper()
	p := provider.New("bench")
	b.Cleanup(func() { _ = p.Close() })
	server := p.Server()
	r := &rpc{b: b, provider: p, server: server}
	schemas, err := server.GetProviderSchema(b.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		b.Fatal(err)
	}
	block := r.value(schemas.Provider.ValueType(), hosts)
	configured, err := server.ConfigureProvider(b.Context(), &tfprotov6.ConfigureProviderRequest{Config: r.wire(block)})
	r.check(err, configured.Diagnostics)
	r.schema = schemas.ResourceSchemas[virtualmachine.TypeName].ValueType()
	r.config = r.wire(r.value(r.schema, vm))
	return r
}

func (r *rpc) value(t tftypes.Type, text string) tftypes.Value {
	r.b.Helper()
	v, err := tfprotov6.RawState{JSON: []byte(text)}.Unmarshal(t)
	if err != nil {
		r.b.Fatal(err)
	}
	return v
}

func (r *rpc) wire(v tftypes.Value) *tfprotov6.DynamicValue {
	r.b.Helper()
	d, err := tfprotov6.NewDynamicValue(v.Type(), v)
	if err != nil {
		r.b.Fatal(err)
	}
	return &d
}

func (r *rpc) check(err error, diags []*tfprotov6.Diagnostic) {
	r.b.Helper()
	if err != nil {
		r.b.Fatal(err)
	}
	for _, d := range diags {
		r.b.Fatalf("%s: %s", d.Summary, d.Detail)
	}
}

func (r *rpc) plan(prior, proposed *tfprotov6.DynamicValue, private []byte) *tfprotov6.PlanResourceChangeResponse {
	r.b.Helper()
	resp, err := r.server.PlanResourceChange(r.b.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: prior, ProposedNewState: proposed, Config: r.config,
		PriorPrivate: private,
	})
	r.check(err, resp.Diagnostics)
	return resp
}

// create makes the VM, and returns its state and its private state.
func (r *rpc) create() (state *tfprotov6.DynamicValue, private []byte) {
	r.b.Helper()
	null := r.wire(tftypes.NewValue(r.schema, nil))
	plan := r.plan(null, r.config, nil)
	made, err := r.server.ApplyResourceChange(r.b.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: virtualmachine.TypeName, PriorState: null, PlannedState: plan.PlannedState, Config: r.config,
		PlannedPrivate: plan.PlannedPrivate,
	})
	r.check(err, made.Diagnostics)
	return made.NewState, made.Private
}

// refresh does what a plan with nothing to change does. It returns what was read, and what was planned then.
func (r *rpc) refresh(state *tfprotov6.DynamicValue, private []byte) (seen, planned *tfprotov6.DynamicValue) {
	r.b.Helper()
	read, err := r.server.ReadResource(r.b.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: virtualmachine.TypeName, CurrentState: state, Private: private,
	})
	r.check(err, read.Diagnostics)
	return read.NewState, r.plan(read.NewState, read.NewState, read.Private).PlannedState
}

// attributes are those of a VM.
func (r *rpc) attributes(wire *tfprotov6.DynamicValue) map[string]tftypes.Value {
	r.b.Helper()
	v, err := wire.Unmarshal(r.schema)
	if err != nil {
		r.b.Fatal(err)
	}
	var all map[string]tftypes.Value
	if err := v.As(&all); err != nil {
		r.b.Fatal(err)
	}
	return all
}

// BenchmarkPlan is what the provider does for one VM of which nothing has changed.
func BenchmarkPlan(b *testing.B) {
	r := newRPC(b, local, typical)
	made, private := r.create()
	state, err := made.Unmarshal(r.schema)
	if err != nil {
		b.Fatal(err)
	}
	saved := asJSON(b, state)

	for b.Loop() {
		valid, err := r.server.ValidateResourceConfig(b.Context(), &tfprotov6.ValidateResourceConfigRequest{
			TypeName: virtualmachine.TypeName, Config: r.config,
		})
		r.check(err, valid.Diagnostics)
		upgraded, err := r.server.UpgradeResourceState(b.Context(), &tfprotov6.UpgradeResourceStateRequest{
			TypeName: virtualmachine.TypeName, RawState: &tfprotov6.RawState{JSON: saved},
		})
		r.check(err, upgraded.Diagnostics)
		r.refresh(upgraded.UpgradedState, private)
	}
}

// BenchmarkPlanChange is the plan of a VM that is to change.
func BenchmarkPlanChange(b *testing.B) {
	r := newRPC(b, local, typical)
	state, private := r.create()
	r.config = r.wire(r.value(r.schema, strings.Replace(typical, "Serves the web.", "Serves more.", 1)))

	for b.Loop() {
		r.plan(state, r.config, private)
	}
}

// asJSON writes a state as Terraform saves it.
func asJSON(b *testing.B, v tftypes.Value) []byte {
	b.Helper()
	data, err := json.Marshal(plain(b, v))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func plain(b *testing.B, v tftypes.Value) any {
	b.Helper()
	if v.IsNull() {
		return nil
	}
	as := func(target any) {
		if err := v.As(target); err != nil {
			b.Fatal(err)
		}
	}
	switch {
	case v.Type().Is(tftypes.String):
		var s string
		as(&s)
		return s
	case v.Type().Is(tftypes.Bool):
		var t bool
		as(&t)
		return t
	case v.Type().Is(tftypes.Number):
		var n big.Float
		as(&n)
		return json.Number(n.Text('f', -1))
	case v.Type().Is(tftypes.List{}), v.Type().Is(tftypes.Set{}):
		var all []tftypes.Value
		as(&all)
		out := make([]any, len(all))
		for i, e := range all {
			out[i] = plain(b, e)
		}
		return out
	default:
		var all map[string]tftypes.Value
		as(&all)
		out := make(map[string]any, len(all))
		for k, e := range all {
			out[k] = plain(b, e)
		}
		return out
	}
}
