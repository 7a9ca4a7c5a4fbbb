package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// asPlanned returns the request with the configuration that the plan was made from. Terraform applies ignore_changes of
// the lifecycle block only to the configuration that it plans with. For the apply it sends what the file says, so that
// a resource which reads its configuration would change what the user told Terraform to leave alone, and the plan
// didn't show. Terraform plans again right before an apply, with all references known: a computed attribute that is
// still unknown had no declaration in that plan.
func (s *server) asPlanned(
	ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeRequest, error) {
	schemas, err := s.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, err
	}
	schema, ok := schemas.ResourceSchemas[req.TypeName]
	if !ok || req.PriorState == nil || req.PlannedState == nil || req.Config == nil {
		return req, nil
	}
	typ := schema.ValueType()
	var values [3]tftypes.Value
	for i, wire := range []*tfprotov6.DynamicValue{req.PriorState, req.PlannedState, req.Config} {
		if values[i], err = wire.Unmarshal(typ); err != nil {
			return nil, err
		}
		if values[i].IsNull() { // What is created or destroyed ignores nothing.
			return req, nil
		}
	}
	p := plannedConfig{isLeftAlone: func(string) bool { return false }}
	if req.TypeName == virtualmachine.TypeName {
		p.isLeftAlone = virtualmachine.IsLeftAlone
	}
	config, err := p.object("", schema.Block.Attributes, values[2], values[1])
	if err != nil {
		return nil, err
	}
	wire, err := tfprotov6.NewDynamicValue(typ, config)
	if err != nil {
		return nil, err
	}
	planned := *req
	planned.Config = &wire
	return &planned, nil
}

// plannedConfig makes the configuration that a plan was made from.
type plannedConfig struct {
	// isLeftAlone reports whether "" at a path of the schema means that the text isn't declared. Keys are "*".
	isLeftAlone func(path string) bool
}

// object returns an object as the plan saw it. What the plan holds for a declared attribute is what was declared
// then, in the same or in the prior notation. A null object in the configuration stands for one that only the plan has.
func (p plannedConfig) object(
	path string, attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value,
) (tftypes.Value, error) {
	if !planned.IsKnown() || planned.IsNull() {
		return whatIsKnown(config, planned), nil
	}
	declared, plan, err := contents[map[string]tftypes.Value](config, planned)
	if err != nil {
		return tftypes.Value{}, err
	}
	onlyPlanned := config.IsNull()
	values := make(map[string]tftypes.Value, len(plan))
	for name, value := range plan { // Blocks and what the schema doesn't have stay as they are declared.
		values[name] = whatIsDeclared(declared, name, value.Type())
	}
	for _, a := range attributes {
		at, is, will := path+a.Name, values[a.Name], plan[a.Name]
		switch {
		case a.WriteOnly, !a.Optional && !a.Required:
			continue
		case a.Computed && !onlyPlanned && (is.IsNull() || isEmptyText(is) && p.isLeftAlone(at)):
			continue // The provider decides about it.
		case a.Computed && !will.IsKnown(): // The apply's own plan knows all that is declared: this was an ignored null.
			values[a.Name] = tftypes.NewValue(will.Type(), nil)
			continue
		}
		value, err := p.attribute(at, a, is, will)
		if err != nil {
			return tftypes.Value{}, err
		}
		values[a.Name] = value
	}
	return tftypes.NewValue(planned.Type(), values), nil
}

// attribute returns an attribute as the plan saw it.
func (p plannedConfig) attribute(
	path string, a *tfprotov6.SchemaAttribute, config, planned tftypes.Value,
) (tftypes.Value, error) {
	if !planned.IsKnown() || planned.IsNull() || a.NestedType == nil {
		return whatIsKnown(config, planned), nil
	}
	switch a.NestedType.Nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return p.object(path+".", a.NestedType.Attributes, config, planned)
	case tfprotov6.SchemaObjectNestingModeMap:
		return p.elements(path+".*.", a.NestedType.Attributes, config, planned)
	default:
		return p.list(path+".*.", a.NestedType.Attributes, config, planned)
	}
}

// elements returns a map of objects. Its keys are those of the plan.
func (p plannedConfig) elements(
	path string, attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value,
) (tftypes.Value, error) {
	declared, plan, err := contents[map[string]tftypes.Value](config, planned)
	if err != nil {
		return tftypes.Value{}, err
	}
	for key, value := range plan {
		element, err := p.object(path, attributes, whatIsDeclared(declared, key, value.Type()), value)
		if err != nil {
			return tftypes.Value{}, err
		}
		plan[key] = element
	}
	return tftypes.NewValue(planned.Type(), plan), nil
}

// list returns a list or a set. The elements of lists of one length belong together. The elements of sets can't be
// paired: a set is the plan's if the plan knows all of it.
func (p plannedConfig) list(
	path string, attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value,
) (tftypes.Value, error) {
	if planned.Type().Is(tftypes.Set{}) {
		return whatIsKnown(config, planned), nil
	}
	declared, plan, err := contents[[]tftypes.Value](config, planned)
	if err != nil {
		return tftypes.Value{}, err
	}
	for i, value := range plan {
		is := tftypes.NewValue(value.Type(), nil)
		if len(declared) == len(plan) {
			is = declared[i]
		}
		element, err := p.object(path, attributes, is, value)
		if err != nil {
			return tftypes.Value{}, err
		}
		plan[i] = element
	}
	return tftypes.NewValue(planned.Type(), plan), nil
}

// contents returns what two values consist of; nothing of a null one.
func contents[T any](config, planned tftypes.Value) (declared, plan T, err error) {
	if !config.IsNull() {
		err = config.As(&declared)
	}
	return declared, plan, errors.Join(err, planned.As(&plan))
}

// whatIsKnown returns the plan's value, or if the plan doesn't know all of it, the configuration's.
func whatIsKnown(config, planned tftypes.Value) tftypes.Value {
	if planned.IsFullyKnown() {
		return planned
	}
	return config
}

func isEmptyText(v tftypes.Value) bool {
	var s string
	return v.Type().Is(tftypes.String) && v.IsKnown() && !v.IsNull() && v.As(&s) == nil && s == ""
}

func whatIsDeclared(declared map[string]tftypes.Value, name string, typ tftypes.Type) tftypes.Value {
	if value, ok := declared[name]; ok {
		return value
	}
	return tftypes.NewValue(typ, nil)
}
