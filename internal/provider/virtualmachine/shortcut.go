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

// The short cut: most VMs of most plans are as they were. To say so, the framework walks over every value a dozen
// times, and each step along an attribute's path copies the schema of its level; that is two thirds of what a plan
// costs, and it grows with the schema. So what Terraform sends is first looked at without the framework, by the same
// functions that Read and ModifyPlan call. Only where they find nothing to do, the answer is what Terraform sent.
//
// It holds as long as the schema has no defaults and no plan modifiers of its own.

// ShortCut answers Terraform where nothing is to be said, read or changed. It leaves the rest to the framework.
type ShortCut struct{ decoded decoded }

// Valid tells whether there is nothing to say about a configuration. When it isn't sure it says no, and the framework
// validates.
func (s *ShortCut) Valid(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) bool {
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

// Saved returns a state that Terraform saved as it goes over the wire, or nil where only the framework can tell: it was
// saved by another version of the schema, for example. It notes the state's VM.
func (*ShortCut) Saved(data *meta.Data, req *tfprotov6.UpgradeResourceStateRequest) *tfprotov6.DynamicValue {
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

// PlansNothing tells whether a plan leaves the VM as it is, and which private state is planned then. When it isn't
// sure it says no, and the framework plans.
func (s *ShortCut) PlansNothing(
	ctx context.Context, data *meta.Data, req *tfprotov6.PlanResourceChangeRequest,
) ([]byte, bool) {
	if data == nil || req.ProviderMeta != nil || !sameBytes(req.PriorState, req.ProposedNewState) {
		return nil, false
	}
	private, ok := openPrivate(req.PriorPrivate)
	if !ok {
		return nil, false
	}
	config, err := s.decoded.takeOrDecode(ctx, req.Config)
	if err != nil {
		return nil, false
	}
	state, err := s.decoded.takeOrDecode(ctx, req.PriorState)
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
	if r.verifyUnique(ctx, p, o) != nil {
		return nil, false
	}
	if diags := p.noteForReplacement(ctx, data, private); len(diags) > 0 {
		return nil, false
	}
	planned, err := json.Marshal(private)
	return planned, err == nil
}

// bareProposal is a VM of which every attribute is null.
var bareProposal = func() *tfprotov6.DynamicValue {
	wire, err := savedState{}.encode()
	if err != nil {
		panic("a VM can't be without values: " + err.Error())
	}
	return &tfprotov6.DynamicValue{MsgPack: wire}
}()

// WithBareProposal returns a request that costs the framework less. The framework looks at every value of Terraform's
// proposal for defaults, plan modifiers, and what may become known after apply: half of what a plan with changes costs.
// ModifyPlan, which plans all of it, follows from configuration and state alone. So the framework gets a proposal
// without values, which says only that there is to be a VM.
func WithBareProposal(data *meta.Data, req *tfprotov6.PlanResourceChangeRequest) *tfprotov6.PlanResourceChangeRequest {
	if data == nil || !isPresent(req.ProposedNewState) {
		return req
	}
	bare := *req
	bare.ProposedNewState = bareProposal
	return &bare
}

// isPresent tells whether a value is sent as MessagePack, as Terraform does, and isn't null.
func isPresent(d *tfprotov6.DynamicValue) bool {
	return d != nil && len(d.MsgPack) > 0 && d.MsgPack[0] != msgpcode.Nil
}

// ReadsNothing tells whether reading finds the VM as the state has it. When it isn't sure it says no, and the
// framework reads, with the context that is returned: a VM that was asked for its addresses isn't asked again.
func (s *ShortCut) ReadsNothing(
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
	now, diags := stateAfterRefresh(bounded, seen, state, private)
	if len(diags) > 0 || !equal(now, state) || !maps.EqualFunc(private, before, slices.Equal) {
		return ctx, false
	}
	s.decoded.put(req.CurrentState, state)
	return ctx, true
}

// observed is the key of what the short cut saw of the VM.
type observed struct{}

func sameBytes(a, b *tfprotov6.DynamicValue) bool {
	return a != nil && b != nil && len(a.MsgPack) > 0 && string(a.MsgPack) == string(b.MsgPack)
}

// decoded keeps values that were decoded until Terraform sends them once more: what it has validated or read it plans
// next. The zero value is empty.
type decoded struct {
	mu     sync.Mutex
	models map[string]*model
}

// mostDecoded is more than Terraform works on at the same time. What it never asks for again must not fill the memory.
const mostDecoded = 64

func (c *decoded) put(d *tfprotov6.DynamicValue, m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.models == nil || len(c.models) >= mostDecoded {
		c.models = map[string]*model{}
	}
	c.models[string(d.MsgPack)] = m
}

// takeOrDecode returns what was put, or decodes it.
func (c *decoded) takeOrDecode(ctx context.Context, d *tfprotov6.DynamicValue) (*model, error) {
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
