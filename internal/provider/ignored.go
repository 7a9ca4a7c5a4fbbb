package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// asPlanned returns the request with the configuration that the plan was made from. Terraform applies ignore_changes of
// the lifecycle block only to the configuration that it plans with. For the apply it sends what the file says, so that
// a resource which reads its configuration would change what the user told Terraform to leave alone, and the plan
// didn't show.
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
	config, err := plannedObject(schema.Block.Attributes, values[2], values[1])
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

// plannedObject returns an object as the plan saw it. What the plan holds for a declared attribute is what was declared
// then, in the same or in the prior notation. A null object in the configuration stands for one that only the plan has.
func plannedObject(attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value) (tftypes.Value, error) {
	if !planned.IsKnown() || planned.IsNull() {
		return whatIsKnown(config, planned), nil
	}
	var declared, plan map[string]tftypes.Value
	if err := planned.As(&plan); err != nil {
		return tftypes.Value{}, err
	}
	onlyPlanned := config.IsNull()
	if !onlyPlanned {
		if err := config.As(&declared); err != nil {
			return tftypes.Value{}, err
		}
	}
	values := make(map[string]tftypes.Value, len(plan))
	for name, value := range plan { // Blocks and what the schema doesn't have stay as they are declared.
		values[name] = whatIsDeclared(declared, name, value.Type())
	}
	for _, a := range attributes {
		is, will := values[a.Name], plan[a.Name]
		switch {
		case a.WriteOnly, !a.Optional && !a.Required:
			continue
		case is.IsNull() && a.Computed && !onlyPlanned:
			continue // The provider decides about it.
		}
		value, err := plannedAttribute(a, is, will)
		if err != nil {
			return tftypes.Value{}, err
		}
		values[a.Name] = value
	}
	return tftypes.NewValue(planned.Type(), values), nil
}

// plannedAttribute returns an attribute as the plan saw it.
func plannedAttribute(a *tfprotov6.SchemaAttribute, config, planned tftypes.Value) (tftypes.Value, error) {
	if !planned.IsKnown() || planned.IsNull() || a.NestedType == nil {
		return whatIsKnown(config, planned), nil
	}
	switch a.NestedType.Nesting {
	case tfprotov6.SchemaObjectNestingModeSingle:
		return plannedObject(a.NestedType.Attributes, config, planned)
	case tfprotov6.SchemaObjectNestingModeMap:
		return plannedMap(a.NestedType.Attributes, config, planned)
	default:
		return plannedList(a.NestedType.Attributes, config, planned)
	}
}

func plannedMap(attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value) (tftypes.Value, error) {
	var declared, plan map[string]tftypes.Value
	if err := planned.As(&plan); err != nil {
		return tftypes.Value{}, err
	}
	if !config.IsNull() {
		if err := config.As(&declared); err != nil {
			return tftypes.Value{}, err
		}
	}
	for key, value := range plan {
		element, err := plannedObject(attributes, whatIsDeclared(declared, key, value.Type()), value)
		if err != nil {
			return tftypes.Value{}, err
		}
		plan[key] = element
	}
	return tftypes.NewValue(planned.Type(), plan), nil
}

// plannedList returns a list or a set. The elements of lists of one length belong together. Which elements of
// two sets do can't be told: a set is the plan's if the plan knows all of it.
func plannedList(attributes []*tfprotov6.SchemaAttribute, config, planned tftypes.Value) (tftypes.Value, error) {
	if planned.Type().Is(tftypes.Set{}) {
		return whatIsKnown(config, planned), nil
	}
	var declared, plan []tftypes.Value
	if err := planned.As(&plan); err != nil {
		return tftypes.Value{}, err
	}
	if !config.IsNull() {
		if err := config.As(&declared); err != nil {
			return tftypes.Value{}, err
		}
	}
	for i, value := range plan {
		is := tftypes.NewValue(value.Type(), nil)
		if len(declared) == len(plan) {
			is = declared[i]
		}
		element, err := plannedObject(attributes, is, value)
		if err != nil {
			return tftypes.Value{}, err
		}
		plan[i] = element
	}
	return tftypes.NewValue(planned.Type(), plan), nil
}

// whatIsKnown returns the plan's value, or if the plan doesn't know all of it, the configuration's.
func whatIsKnown(config, planned tftypes.Value) tftypes.Value {
	if planned.IsFullyKnown() {
		return planned
	}
	return config
}

func whatIsDeclared(declared map[string]tftypes.Value, name string, typ tftypes.Type) tftypes.Value {
	if value, ok := declared[name]; ok {
		return value
	}
	return tftypes.NewValue(typ, nil)
}
