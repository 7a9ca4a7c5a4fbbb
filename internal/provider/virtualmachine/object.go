package virtualmachine

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// attributes is one level of the schema.
type attributes = map[string]schema.Attribute

// objectType returns the type of a nested object. It is called once for each block, to set a package variable. The
// framework asks for the types of nested attributes at every step of every path, and building them again would be most
// of the cost of a plan.
func objectType(level attributes) types.ObjectType {
	t := types.ObjectType{AttrTypes: make(map[string]attr.Type, len(level))}
	for name, a := range level {
		t.AttrTypes[name] = a.GetType()
	}
	return t
}

// object is an opened nested object. All attributes of a nil object read as null.
type object map[string]attr.Value

// open returns a copy of the attributes of a nested object, and nil if it is null or unknown.
func open(o types.Object) object {
	if !isSet(o) {
		return nil
	}
	return o.Attributes()
}

// attribute returns an attribute of that type.
func attribute[T attr.Value](o object, name string) T {
	v, _ := o[name].(T)
	return v
}

func (o object) string(name string) types.String     { return attribute[types.String](o, name) }
func (o object) bool(name string) types.Bool         { return attribute[types.Bool](o, name) }
func (o object) int(name string) types.Int64         { return attribute[types.Int64](o, name) }
func (o object) quantity(name string) value.Quantity { return attribute[value.Quantity](o, name) }
func (o object) duration(name string) value.Duration { return attribute[value.Duration](o, name) }
func (o object) object(name string) types.Object     { return attribute[types.Object](o, name) }
func (o object) list(name string) types.List         { return attribute[types.List](o, name) }
func (o object) stringMap(name string) types.Map     { return attribute[types.Map](o, name) }

// isSet reports whether the attribute has a known value.
func isSet(v attr.Value) bool { return v != nil && !v.IsNull() && !v.IsUnknown() }

// text returns a known string, and "" for a null or unknown one.
func text(v types.String) string { return v.ValueString() }

// optionalText returns a known text, and nil if it is null, unknown or "".
func optionalText(v types.String) *string {
	if s := text(v); s != "" {
		return &s
	}
	return nil
}

// elements returns the nested objects of a map by key, and nil if the map is null or unknown.
func elements(m types.Map) map[string]types.Object {
	if !isSet(m) {
		return nil
	}
	all := m.Elements() // It copies the map each time.
	out := make(map[string]types.Object, len(all))
	for key, e := range all {
		if o, ok := e.(types.Object); ok {
			out[key] = o
		}
	}
	return out
}

// openAll returns the opened devices of a map by key, and nil if the map is null or unknown. A device that is null or
// unknown is nil. A disk has so many attributes that copying them is much of the cost of a plan: what several functions
// read is opened once.
func openAll(devices types.Map) map[string]object {
	all := elements(devices)
	if all == nil {
		return nil
	}
	opened := make(map[string]object, len(all))
	for key, device := range all {
		opened[key] = open(device)
	}
	return opened
}

// mapOf is the inverse of elements.
func mapOf(t types.ObjectType, all map[string]types.Object) types.Map {
	values := make(map[string]attr.Value, len(all))
	for key, o := range all {
		values[key] = o
	}
	return types.MapValueMust(t, values)
}

// edit changes the attributes of one device, and reports whether it did.
type edit func(key string, a object) bool

// editDevices returns the devices after all edits, each of which gets what the one before it left. They aren't called
// for a device that is null or unknown.
func editDevices(devices types.Map, t types.ObjectType, edits ...edit) types.Map {
	all := elements(devices)
	changed := false
	for key, device := range all {
		a := open(device)
		if a == nil {
			continue
		}
		edited := false
		for _, e := range edits {
			edited = e(key, a) || edited
		}
		if edited {
			all[key] = types.ObjectValueMust(t.AttrTypes, a)
			changed = true
		}
	}
	if !changed {
		return devices
	}
	return mapOf(t, all)
}

func stringOrNull(s *string) types.String { return types.StringPointerValue(s) }

// In the framework, these functions require a context that they don't use. So they are kept apart from functions that
// pass a context on.
var (
	attributeTypes = func(o types.Object) map[string]attr.Type { return o.AttributeTypes(context.Background()) }
	elementType    = func(m types.Map) attr.Type { return m.ElementType(context.Background()) }
	// unknownOf returns the unknown value ("known after apply") of a type.
	unknownOf = func(t attr.Type) attr.Value { return valueOf(context.Background(), t, tftypes.UnknownValue) }
	// unknownLike returns the unknown value of a value's type.
	unknownLike = func(v attr.Value) attr.Value { return unknownOf(v.Type(context.Background())) }
	// valueNull returns the null of a type.
	valueNull = func(t attr.Type) attr.Value { return valueOf(context.Background(), t, nil) }
	// fullyKnown is like isKnown, for values of any kind. It converts them to Terraform's form.
	fullyKnown = func(v attr.Value) bool {
		t, err := v.ToTerraformValue(context.Background())
		return err == nil && t.IsFullyKnown()
	}
	// nullLike returns the null of a value's type.
	nullLike = func(v attr.Value) attr.Value {
		ctx := context.Background()
		return valueOf(ctx, v.Type(ctx), nil)
	}
)

// isKnown reports whether no part of a value is unknown. Terraform validates a configuration while variables are still
// unknown.
func isKnown(v attr.Value) bool {
	var parts map[string]attr.Value
	switch v := v.(type) {
	case types.String:
		return !v.IsUnknown()
	case types.Object:
		parts = open(v)
	case types.Map:
		parts = v.Elements()
	default:
		return fullyKnown(v)
	}
	if v.IsUnknown() {
		return false
	}
	for _, part := range parts {
		if !isKnown(part) {
			return false
		}
	}
	return true
}

// valueOf returns the null or the unknown value of a type.
func valueOf(ctx context.Context, t attr.Type, content any) attr.Value {
	// The framework first converts a type to Terraform's form, with everything below it. At the start of the provider
	// that is done for each part of the schema.
	switch o, isObject := t.(types.ObjectType); {
	case isObject && content == nil:
		return types.ObjectNull(o.AttrTypes)
	case isObject:
		return types.ObjectUnknown(o.AttrTypes)
	}
	v, err := t.ValueFromTerraform(ctx, tftypes.NewValue(t.TerraformType(ctx), content))
	if err != nil {
		panic("a value of type " + t.String() + " can't be null or unknown: " + err.Error()) // Every type accepts them.
	}
	return v
}

// devicesToDomain maps declared devices by their keys. A device that is unknown until apply is as the prior state has
// it, or else unknown.
func devicesToDomain[V any](declared, prior types.Map, toDomain func(object, types.Object) V, unknown V) map[string]V {
	devices := elements(declared)
	if devices == nil {
		return nil
	}
	before := elements(prior)
	out := make(map[string]V, len(devices))
	for key, o := range devices {
		was := before[key]
		switch {
		case !o.IsUnknown():
			out[key] = toDomain(open(o), was)
		case isSet(was):
			out[key] = toDomain(open(was), types.Object{})
		default:
			out[key] = unknown
		}
	}
	return out
}
