package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// field is one number or word of an object. The attribute in the schema and the source of the value are in one place,
// because there are a hundred fields.
type field[S any] struct {
	name, description string
	kind              attr.Type
	get               func(S) attr.Value
}

// The kinds of fields. Unknown values are null.

func textField[S any](name, description string, get func(S) string) field[S] {
	return field[S]{name, description, types.StringType, func(s S) attr.Value {
		if v := get(s); v != "" {
			return types.StringValue(v)
		}
		return types.StringNull()
	}}
}

func boolField[S any](name, description string, get func(S) *bool) field[S] {
	return field[S]{name, description, types.BoolType, func(s S) attr.Value {
		return types.BoolPointerValue(get(s))
	}}
}

// wholeField returns a field for bytes and counts.
func wholeField[S any](name, description string, get func(S) *uint64) field[S] {
	return field[S]{name, description, types.Int64Type, func(s S) attr.Value {
		return types.Int64PointerValue(value.WholeOrNull(get(s)))
	}}
}

func decimalField[S any](name, description string, get func(S) *float64) field[S] {
	return field[S]{name, description, types.Float64Type, func(s S) attr.Value {
		return types.Float64PointerValue(get(s))
	}}
}

// secondsField returns a field for times.
func secondsField[S any](name, description string, get func(S) *time.Duration) field[S] {
	return decimalField(name, description, func(s S) *float64 {
		if d := get(s); d != nil {
			return new(d.Seconds())
		}
		return nil
	})
}

// fields are the fields of an object.
type fields[S any] []field[S]

func (f fields[S]) objectType() types.ObjectType {
	all := make(map[string]attr.Type, len(f))
	for _, field := range f {
		all[field.name] = field.kind
	}
	return types.ObjectType{AttrTypes: all}
}

func (f fields[S]) attributes() map[string]schema.Attribute {
	all := make(map[string]schema.Attribute, len(f))
	for _, field := range f {
		switch field.kind {
		case types.StringType:
			all[field.name] = schema.StringAttribute{Computed: true, MarkdownDescription: field.description}
		case types.BoolType:
			all[field.name] = schema.BoolAttribute{Computed: true, MarkdownDescription: field.description}
		case types.Int64Type:
			all[field.name] = schema.Int64Attribute{Computed: true, MarkdownDescription: field.description}
		case types.Float64Type:
			all[field.name] = schema.Float64Attribute{Computed: true, MarkdownDescription: field.description}
		}
	}
	return all
}

func (f fields[S]) object(s S) attr.Value {
	all := make(map[string]attr.Value, len(f))
	for _, field := range f {
		all[field.name] = field.get(s)
	}
	return types.ObjectValueMust(f.objectType().AttrTypes, all)
}

// singleAttribute returns the attribute for one object.
func (f fields[S]) singleAttribute(description string) schema.Attribute {
	return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: f.attributes()}
}

// byKey returns the attribute for a map of objects.
func (f fields[S]) byKey(description string) schema.Attribute {
	return schema.MapNestedAttribute{
		Computed: true, MarkdownDescription: description,
		NestedObject: schema.NestedAttributeObject{Attributes: f.attributes()},
	}
}

// objects returns a map of objects. A nil map is null.
func (f fields[S]) objects(all map[string]S) attr.Value {
	if all == nil {
		return types.MapNull(f.objectType())
	}
	values := make(map[string]attr.Value, len(all))
	for key, s := range all {
		values[key] = f.object(s)
	}
	return types.MapValueMust(f.objectType(), values)
}
