package value

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// String returns the string, and nil if it is null or unknown.
func String(v basetypes.StringValue) *string {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	s := v.ValueString()
	return &s
}

// Bool returns the boolean, and nil if it is null or unknown.
func Bool(v basetypes.BoolValue) *bool {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	b := v.ValueBool()
	return &b
}

// Int returns the number as an int, and nil if it is null or unknown.
func Int(v basetypes.Int64Value) *int {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	n := int(v.ValueInt64())
	return &n
}

// NewInt returns the number, and null for nil.
func NewInt(n *int) basetypes.Int64Value {
	if n == nil {
		return basetypes.NewInt64Null()
	}
	return basetypes.NewInt64Value(int64(*n))
}

// NewStringOrNull returns the string, and null for "". It is for facts where "" means not reported.
func NewStringOrNull(s string) basetypes.StringValue {
	if s == "" {
		return basetypes.NewStringNull()
	}
	return basetypes.NewStringValue(s)
}

// StringMap returns the map's known strings, and nil if the map is null or unknown. An empty map stays an empty map.
func StringMap(v basetypes.MapValue) map[string]string {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	elements := v.Elements()
	out := make(map[string]string, len(elements))
	for k, e := range elements {
		if s, ok := e.(basetypes.StringValue); ok && !s.IsNull() && !s.IsUnknown() {
			out[k] = s.ValueString()
		}
	}
	return out
}

// NewStringMap returns a map of strings, and null for nil.
func NewStringMap(m map[string]string) basetypes.MapValue {
	if m == nil {
		return basetypes.NewMapNull(basetypes.StringType{})
	}
	elements := make(map[string]attr.Value, len(m))
	for k, s := range m {
		elements[k] = basetypes.NewStringValue(s)
	}
	return basetypes.NewMapValueMust(basetypes.StringType{}, elements)
}

// StringSet returns the set's known strings in alphabetical order, and nil if the set is null or unknown.
func StringSet(v basetypes.SetValue) []string {
	all := StringList(v)
	slices.Sort(all)
	return all
}

// NewStringSet returns a set of strings, and null for nil.
func NewStringSet(list []string) basetypes.SetValue {
	if list == nil {
		return basetypes.NewSetNull(basetypes.StringType{})
	}
	return basetypes.NewSetValueMust(basetypes.StringType{}, NewStringList(list).Elements())
}

// collection is a list or a set.
type collection interface {
	attr.Value
	Elements() []attr.Value
}

// StringList returns the list's known strings, and nil if the list is null or unknown.
func StringList(v collection) []string {
	if v.IsNull() || v.IsUnknown() {
		return nil
	}
	elements := v.Elements()
	out := make([]string, 0, len(elements))
	for _, e := range elements {
		if s, ok := e.(basetypes.StringValue); ok && !s.IsNull() && !s.IsUnknown() {
			out = append(out, s.ValueString())
		}
	}
	return out
}

// NewStringList returns a list of strings, and null for nil.
func NewStringList(list []string) basetypes.ListValue {
	if list == nil {
		return basetypes.NewListNull(basetypes.StringType{})
	}
	elements := make([]attr.Value, 0, len(list))
	for _, s := range list {
		elements = append(elements, basetypes.NewStringValue(s))
	}
	return basetypes.NewListValueMust(basetypes.StringType{}, elements)
}

// OneOf lists the values of an enumeration for a description.
func OneOf(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }

// Keys returns the keys of a map in order, so that plans and messages are reproducible.
func Keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// stringFromTerraform is the common part of ValueFromTerraform of the custom string types.
func stringFromTerraform(
	ctx context.Context, t basetypes.StringType, in tftypes.Value,
) (basetypes.StringValue, error) {
	v, err := t.ValueFromTerraform(ctx, in)
	if err != nil {
		return basetypes.StringValue{}, err
	}
	s, ok := v.(basetypes.StringValue)
	if !ok {
		return basetypes.StringValue{}, fmt.Errorf("unexpected value type %T of a string", v)
	}
	return s, nil
}
