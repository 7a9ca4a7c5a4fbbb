package value

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

// Plain returns a value in the form of encoding/json, without null and unknown parts, and whether all of it is known.
// Objects whose Go type has JSON names equal to the attributes' names need no other mapping (Decode).
func Plain(v attr.Value) (plain any, known bool) {
	if v.IsUnknown() {
		return nil, false
	}
	if v.IsNull() {
		return nil, true
	}
	switch v := v.(type) {
	case basetypes.ObjectValue:
		return plainMap(v.Attributes())
	case basetypes.MapValue:
		return plainMap(v.Elements())
	case basetypes.ListValue:
		return plainList(v.Elements())
	case basetypes.SetValue:
		return plainList(v.Elements())
	case basetypes.StringValue:
		return v.ValueString(), true
	case basetypes.BoolValue:
		return v.ValueBool(), true
	case basetypes.Int64Value:
		return v.ValueInt64(), true
	}
	return nil, false
}

func plainMap(values map[string]attr.Value) (any, bool) {
	all, allKnown := map[string]any{}, true
	for key, v := range values {
		plain, known := Plain(v)
		allKnown = allKnown && known
		if plain != nil {
			all[key] = plain
		}
	}
	return all, allKnown
}

func plainList(values []attr.Value) (any, bool) {
	all, allKnown := []any{}, true
	for _, v := range values {
		plain, known := Plain(v)
		allKnown = allKnown && known
		all = append(all, plain)
	}
	return all, allKnown
}

// Decode sets a Go value, by its JSON names, to what Plain returned.
func Decode(plain, into any) error {
	text, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Encode is the inverse of Plain and Decode: it returns a value of that type for a Go value, by its JSON names. Missing
// parts are null.
func Encode(t attr.Type, from any) (attr.Value, error) {
	text, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	return fromPlain(t, plain)
}

func fromPlain(t attr.Type, plain any) (attr.Value, error) {
	switch t := t.(type) {
	case basetypes.ObjectType:
		entries, ok := plain.(map[string]any)
		if !ok {
			return basetypes.NewObjectNull(t.AttrTypes), nil
		}
		values := map[string]attr.Value{}
		for key, of := range t.AttrTypes {
			v, err := fromPlain(of, entries[key])
			if err != nil {
				return nil, err
			}
			values[key] = v
		}
		return basetypes.NewObjectValueMust(t.AttrTypes, values), nil
	case basetypes.MapType:
		entries, ok := plain.(map[string]any)
		if !ok {
			return basetypes.NewMapNull(t.ElemType), nil
		}
		values := map[string]attr.Value{}
		for key, entry := range entries {
			v, err := fromPlain(t.ElemType, entry)
			if err != nil {
				return nil, err
			}
			values[key] = v
		}
		return basetypes.NewMapValueMust(t.ElemType, values), nil
	case basetypes.ListType:
		entries, ok := plain.([]any)
		if !ok {
			return basetypes.NewListNull(t.ElemType), nil
		}
		values := []attr.Value{}
		for _, entry := range entries {
			v, err := fromPlain(t.ElemType, entry)
			if err != nil {
				return nil, err
			}
			values = append(values, v)
		}
		return basetypes.NewListValueMust(t.ElemType, values), nil
	}
	return scalar(t, plain)
}

func scalar(t attr.Type, plain any) (attr.Value, error) {
	switch t.(type) {
	case basetypes.StringType:
		if s, ok := plain.(string); ok {
			return basetypes.NewStringValue(s), nil
		}
		return basetypes.NewStringNull(), nil
	case basetypes.BoolType:
		if b, ok := plain.(bool); ok {
			return basetypes.NewBoolValue(b), nil
		}
		return basetypes.NewBoolNull(), nil
	case basetypes.Int64Type:
		if n, ok := plain.(float64); ok {
			return basetypes.NewInt64Value(int64(n)), nil
		}
		return basetypes.NewInt64Null(), nil
	}
	return nil, fmt.Errorf("no plain value is of the type %s", t)
}
