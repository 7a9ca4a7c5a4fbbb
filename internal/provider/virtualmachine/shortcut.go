package virtualmachine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// The short cut: most machines of most plans are as they were. To say so, the framework walks over every value a dozen
// times, and each step along an attribute's path copies the schema of its level; that is two thirds of what a plan
// costs, and it grows with the schema. So what Terraform sends is first looked at without the framework, by the same
// functions that Read and ModifyPlan call. Only where they find nothing to do, the answer is what Terraform sent.
//
// It holds as long as the schema has no defaults and no plan modifiers of its own.

// wireType is what values of the resource are on their way from and to Terraform.
var wireType = vmSchema.Type().TerraformType(context.Background())

// Saved returns a state that Terraform saved as it goes over the wire, or nil where only the framework can tell: it was
// saved by another version of the schema, for example.
func Saved(req *tfprotov6.UpgradeResourceStateRequest) *tfprotov6.DynamicValue {
	if req.Version != vmSchema.Version || req.RawState == nil {
		return nil
	}
	v, err := req.RawState.UnmarshalWithOpts(wireType, tfprotov6.UnmarshalOpts{
		ValueFromJSONOpts: tftypes.ValueFromJSONOpts{IgnoreUndefinedAttributes: true},
	})
	if err != nil {
		return nil
	}
	d, err := tfprotov6.NewDynamicValue(wireType, v)
	if err != nil {
		return nil
	}
	return &d
}

// PlansNothing tells whether a plan leaves the machine as it is, and which private state is planned then. When it isn't
// sure it says no, and the framework plans.
func PlansNothing(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) ([]byte, bool) {
	if data == nil || req.ProviderMeta != nil || !sameBytes(req.PriorState, req.ProposedNewState) {
		return nil, false
	}
	private, ok := openPrivate(req.PriorPrivate)
	if !ok {
		return nil, false
	}
	config, ok := unwire(req.Config)
	if !ok {
		return nil, false
	}
	state, ok := unwire(req.PriorState)
	if !ok {
		return nil, false
	}
	r := &Resource{meta.Resource{Data: data}}
	p, diags := r.planning(ctx,
		tfsdk.Config{Raw: config, Schema: vmSchema}, tfsdk.State{Raw: state, Schema: vmSchema}, private)
	if len(diags) > 0 {
		return nil, false
	}
	o := p.plan()
	if o.changed || len(o.diags) > 0 || len(o.replace) > 0 {
		return nil, false
	}
	if r.alone(ctx, p, o) != nil {
		return nil, false
	}
	if diags := p.told(ctx, data, private); len(diags) > 0 {
		return nil, false
	}
	planned, err := json.Marshal(private)
	return planned, err == nil
}

// ReadsNothing tells whether reading finds the machine as the state has it. When it isn't sure it says no, and the
// framework reads, with the context that is returned: a machine that was asked for its addresses isn't asked again.
func ReadsNothing(
	ctx context.Context, data *meta.Data, req *tfprotov6.ReadResourceRequest,
) (context.Context, bool) {
	if data == nil || data.Unknown || req.ProviderMeta != nil {
		return ctx, false
	}
	private, ok := openPrivate(req.Private)
	if !ok {
		return ctx, false
	}
	raw, ok := unwire(req.CurrentState)
	if !ok {
		return ctx, false
	}
	var state model
	diags := tfsdk.State{Raw: raw, Schema: vmSchema}.Get(ctx, &state)
	timeout, d := state.Timeouts.Read(ctx, readTimeout)
	if diags.Append(d...); len(diags) > 0 || state.Name.IsNull() {
		return ctx, false
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen, err := (&Resource{meta.Resource{Data: data}}).look(bounded, &state)
	if err != nil {
		return ctx, false
	}
	ctx = context.WithValue(ctx, observed{}, seen)
	before := maps.Clone(private)
	now, diags := refreshed(bounded, seen, &state, private)
	return ctx, len(diags) == 0 && equal(now, &state) && maps.EqualFunc(private, before, slices.Equal)
}

// observed is the key of what the short cut saw of the machine.
type observed struct{}

func sameBytes(a, b *tfprotov6.DynamicValue) bool {
	return a != nil && b != nil && len(a.MsgPack) > 0 && string(a.MsgPack) == string(b.MsgPack)
}

// unwire decodes a value of the resource that isn't null.
func unwire(d *tfprotov6.DynamicValue) (tftypes.Value, bool) {
	if d == nil {
		return tftypes.Value{}, false
	}
	v, err := d.Unmarshal(wireType)
	return v, err == nil && !v.IsNull()
}

// privateValues is the private state as the framework writes it down: JSON documents by key.
type privateValues map[string][]byte

// openPrivate refuses what isn't ours alone: the framework's own entries begin with a dot.
func openPrivate(data []byte) (privateValues, bool) {
	values := privateValues{}
	if len(data) > 0 && json.Unmarshal(data, &values) != nil {
		return nil, false
	}
	for key := range values {
		if strings.HasPrefix(key, ".") {
			return nil, false
		}
	}
	return values, true
}

// GetKey is the framework's.
func (p privateValues) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return p[key], nil
}

// SetKey is the framework's: an empty value removes the entry.
func (p privateValues) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	if len(value) == 0 {
		delete(p, key)
		return nil
	}
	p[key] = value
	return nil
}
