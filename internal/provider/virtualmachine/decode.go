package virtualmachine

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// wireType is what values of the resource are on their way from and to Terraform.
var wireType = vmSchema.Type().TerraformType(context.Background())

// shape is a type of the schema, with what the framework would work out again for each value of it.
type shape struct {
	typ           attr.Type
	null, unknown attr.Value
	// fields are those of an object, element is that of a map or a list. The framework decodes whatever has neither.
	fields  map[string]*shape
	element *shape
}

// shapes are those of the resource's attributes, in the order of the model's fields.
var shapes = func() []*shape {
	all := make([]*shape, len(attributeNames))
	for i, name := range attributeNames {
		all[i] = shapeOf(vmSchema.Attributes[name].GetType())
	}
	return all
}()

func shapeOf(t attr.Type) *shape {
	s := &shape{typ: t, null: valueNull(t), unknown: unknownOf(t)}
	switch t := t.(type) {
	case types.ObjectType:
		s.fields = make(map[string]*shape, len(t.AttrTypes))
		for name, field := range t.AttrTypes {
			s.fields[name] = shapeOf(field)
		}
	case types.MapType:
		s.element = shapeOf(t.ElemType)
	case types.ListType:
		s.element = shapeOf(t.ElemType)
	}
	return s
}

// decodeWire decodes a value of the resource that isn't null.
func decodeWire(ctx context.Context, d *tfprotov6.DynamicValue) (*model, error) {
	if d == nil {
		return nil, errNull
	}
	raw, err := d.Unmarshal(wireType)
	if err != nil {
		return nil, err
	}
	return decode(ctx, raw)
}

// decode does what Get of the framework's Config and State does, at less cost: Get works out the type of every value
// again, and copies the schema at each step to it.
func decode(ctx context.Context, raw tftypes.Value) (*model, error) {
	if raw.IsNull() || !raw.IsKnown() {
		return nil, errNull
	}
	var all map[string]tftypes.Value
	if err := raw.As(&all); err != nil {
		return nil, err
	}
	m := &model{}
	fields := reflect.ValueOf(m).Elem()
	for i, name := range attributeNames {
		v, err := shapes[i].decode(ctx, all[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields.Field(i).Set(reflect.ValueOf(v))
	}
	return m, nil
}

func (s *shape) decode(ctx context.Context, v tftypes.Value) (attr.Value, error) {
	switch {
	case v.IsNull():
		return s.null, nil
	case !v.IsKnown():
		return s.unknown, nil
	}
	switch t := s.typ.(type) {
	case types.ObjectType:
		fields, err := decodeAll(ctx, v, func(name string) *shape { return s.fields[name] })
		if err != nil {
			return nil, err
		}
		return known(types.ObjectValue(t.AttrTypes, fields))
	case types.MapType:
		elements, err := decodeAll(ctx, v, func(string) *shape { return s.element })
		if err != nil {
			return nil, err
		}
		return known(types.MapValue(t.ElemType, elements))
	case types.ListType:
		var items []tftypes.Value
		if err := v.As(&items); err != nil {
			return nil, err
		}
		elements := make([]attr.Value, len(items))
		for i, item := range items {
			var err error
			if elements[i], err = s.element.decode(ctx, item); err != nil {
				return nil, err
			}
		}
		return known(types.ListValue(t.ElemType, elements))
	default:
		return s.typ.ValueFromTerraform(ctx, v)
	}
}

func decodeAll(
	ctx context.Context, v tftypes.Value, shapeOf func(key string) *shape,
) (map[string]attr.Value, error) {
	var all map[string]tftypes.Value
	if err := v.As(&all); err != nil {
		return nil, err
	}
	out := make(map[string]attr.Value, len(all))
	for key, v := range all {
		of := shapeOf(key)
		if of == nil {
			return nil, fmt.Errorf("%s isn't in the schema", key)
		}
		var err error
		if out[key], err = of.decode(ctx, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func known[T attr.Value](v T, diags diag.Diagnostics) (attr.Value, error) {
	if diags.HasError() {
		return nil, errors.New(diags[0].Detail())
	}
	return v, nil
}

var errNull = errors.New("there is no value to decode")
