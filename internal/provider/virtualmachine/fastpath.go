package virtualmachine

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
)

// The fast path handles VMs without changes, which most VMs of most plans are. The framework walks over every value a
// dozen times, and each step along an attribute's path copies the schema of its level. That is two thirds of the cost
// of a plan, and grows with the schema. So the fast path first examines what Terraform sent without the framework, with
// the same functions that Read and ModifyPlan call. If they find nothing to do, the answer is what Terraform sent.
//
// This is correct only as long as the schema has neither defaults nor plan modifiers.

// FastPath answers Terraform if there is nothing to report, read or change. It leaves everything else to the framework.
type FastPath struct{ decoded decoded }

// Valid reports whether a configuration has no errors and no warnings. If that is uncertain, it returns false, and the
// framework validates.
func (s *FastPath) Valid(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) bool {
	config, err := decodeWire(ctx, req.Config)
	if err != nil {
		return false
	}
	writeOnly := req.ClientCapabilities != nil && req.ClientCapabilities.WriteOnlyAttributesAllowed
	if !config.fitsSchema(ctx, writeOnly) || len(config.validate()) > 0 {
		return false
	}
	s.decoded.put(req.Config, config)
	return true
}

// Saved returns a state that Terraform saved, in the form on the wire. It returns nil if only the framework can do
// that, for example if another version of the schema saved the state. It records the state's VM.
func (*FastPath) Saved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) *tfprotov6.DynamicValue {
	if req.RawState == nil {
		return nil
	}
	state, err := parseSaved(req.RawState.JSON)
	if err != nil {
		return nil
	}
	state.noteManaged(data)
	if req.Version != vmSchema.Version {
		return nil
	}
	wire, err := state.encode()
	if err != nil {
		return nil
	}
	return &tfprotov6.DynamicValue{MsgPack: wire}
}

// PlansNoChanges reports whether a plan leaves the VM as it is, and returns the planned private state. If that is
// uncertain, it returns false, and the framework plans.
func (s *FastPath) PlansNoChanges(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) ([]byte, bool) {
	if data == nil || req.ProviderMeta != nil || !sameBytes(req.PriorState, req.ProposedNewState) {
		return nil, false
	}
	private, ok := openPrivate(req.PriorPrivate)
	if !ok {
		return nil, false
	}
	config, err := s.decoded.cachedOrDecode(ctx, req.Config)
	if err != nil {
		return nil, false
	}
	state, err := s.decoded.cachedOrDecode(ctx, req.PriorState)
	if err != nil {
		return nil, false
	}
	r := &Resource{meta.Resource{Data: data}}
	p, diags := r.planning(ctx, config, state, private)
	if len(diags) > 0 {
		return nil, false
	}
	o := p.plan()
	if o.changed || len(o.diags) > 0 || len(o.replace) > 0 {
		return nil, false
	}
	if r.verifyUnique(ctx, p, o) != nil || len(r.checkPin(config)) > 0 {
		return nil, false
	}
	if diags := p.noteForReplacement(ctx, data, private); len(diags) > 0 {
		return nil, false
	}
	planned, err := json.Marshal(private)
	return planned, err == nil
}

// bareProposal is a VM whose attributes are all null.
var bareProposal = func() *tfprotov6.DynamicValue {
	wire, err := savedState{}.encode()
	if err != nil {
		panic("a VM can't be without values: " + err.Error())
	}
	return &tfprotov6.DynamicValue{MsgPack: wire}
}()

// WithBareProposal returns a request that costs the framework less. The framework checks every value of Terraform's
// proposal for defaults, plan modifiers, and values that become known after apply: half of the cost of a plan with
// changes. ModifyPlan plans everything from configuration and state alone. So the framework gets a proposal without
// values, which says only that the VM is to exist.
func WithBareProposal(data *meta.Data, req *tfprotov6.PlanResourceChangeRequest) *tfprotov6.PlanResourceChangeRequest {
	if data == nil || !isPresent(req.ProposedNewState) {
		return req
	}
	bare := *req
	bare.ProposedNewState = bareProposal
	return &bare
}

// isPresent reports whether a value is sent as MessagePack, as Terraform does, and isn't null.
func isPresent(d *tfprotov6.DynamicValue) bool {
	return d != nil && len(d.MsgPack) > 0 && d.MsgPack[0] != msgpcode.Nil
}

// ReadsNoChanges reports whether reading finds the VM as in the state. If that is uncertain, it returns false, and the
// framework reads with the returned context, so that the VM isn't asked for its addresses again.
func (s *FastPath) ReadsNoChanges(
	ctx context.Context, data *meta.Data, req *tfprotov6.ReadResourceRequest,
) (context.Context, bool) {
	if data == nil || data.Unknown || req.ProviderMeta != nil {
		return ctx, false
	}
	private, ok := openPrivate(req.Private)
	if !ok {
		return ctx, false
	}
	state, err := decodeWire(ctx, req.CurrentState)
	if err != nil {
		return ctx, false
	}
	timeout, diags := state.readTimeout(ctx)
	if len(diags) > 0 || state.Name.IsNull() {
		return ctx, false
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seen, err := (&Resource{meta.Resource{Data: data}}).observeVM(bounded, state)
	if err != nil {
		return ctx, false
	}
	ctx = context.WithValue(ctx, observed{}, seen)
	before := maps.Clone(private)
	_, changed, diags := stateAfterRefresh(bounded, seen, state, private)
	if len(diags) > 0 || changed || !maps.EqualFunc(private, before, slices.Equal) {
		return ctx, false
	}
	s.decoded.put(req.CurrentState, state)
	return ctx, true
}

// observed is the context key for what the fast path saw of the VM.
type observed struct{}

func sameBytes(a, b *tfprotov6.DynamicValue) bool {
	return a != nil && b != nil && len(a.MsgPack) > 0 && string(a.MsgPack) == string(b.MsgPack)
}

// decoded keeps decoded values until Terraform sends them again: Terraform plans what it has validated or read before.
// The zero value is empty.
type decoded struct {
	mu     sync.Mutex
	models map[string]*model
}

// mostDecoded is more than the number of VMs that Terraform works on at a time. Values that Terraform never sends again
// must not fill the memory.
const mostDecoded = 64

func (c *decoded) put(d *tfprotov6.DynamicValue, m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.models == nil || len(c.models) >= mostDecoded {
		c.models = map[string]*model{}
	}
	c.models[string(d.MsgPack)] = m
}

// cachedOrDecode returns a kept value, or decodes it.
func (c *decoded) cachedOrDecode(ctx context.Context, d *tfprotov6.DynamicValue) (*model, error) {
	if d == nil {
		return nil, errNull
	}
	c.mu.Lock()
	m := c.models[string(d.MsgPack)]
	delete(c.models, string(d.MsgPack))
	c.mu.Unlock()
	if m != nil {
		return m, nil
	}
	return decodeWire(ctx, d)
}

// privateValues is the private state in the framework's format: JSON documents by key.
type privateValues map[string][]byte

// openPrivate decodes private state. It refuses entries of the framework itself, whose keys begin with a dot.
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

// GetKey implements the framework's interface for private state.
func (p privateValues) GetKey(_ context.Context, key string) ([]byte, diag.Diagnostics) {
	return p[key], nil
}

// SetKey implements the framework's interface for private state. An empty value removes the entry.
func (p privateValues) SetKey(_ context.Context, key string, value []byte) diag.Diagnostics {
	if len(value) == 0 {
		delete(p, key)
		return nil
	}
	p[key] = value
	return nil
}
