package virtualmachine

import (
	"context"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
)

// fitsSchema reports whether the schema allows a configuration. It makes the same checks as the framework, without
// determining every path and type again. It calls validators without a path and without the rest of the configuration,
// and only looks at whether they report an error. A test makes sure that no validator needs more.
func (m *model) fitsSchema(ctx context.Context, writeOnlyAllowed bool) bool {
	fields := reflect.ValueOf(m).Elem()
	for i, name := range attributeNames {
		v, ok := reflect.TypeAssert[attr.Value](fields.Field(i))
		if !ok || !fitsAttribute(ctx, vmSchema.Attributes[name], v, writeOnlyAllowed) {
			return false
		}
	}
	return true
}

func fitsAttribute(ctx context.Context, a schema.Attribute, v attr.Value, writeOnlyAllowed bool) bool {
	if v == nil || v.IsNull() {
		return !a.IsRequired()
	}
	if a.IsComputed() && !a.IsOptional() || a.IsWriteOnly() && !writeOnlyAllowed || a.GetDeprecationMessage() != "" {
		return false
	}
	if v.IsUnknown() {
		return true
	}
	if v, ok := v.(xattr.ValidateableAttribute); ok {
		var resp xattr.ValidateAttributeResponse
		if v.ValidateAttribute(ctx, xattr.ValidateAttributeRequest{}, &resp); len(resp.Diagnostics) > 0 {
			return false
		}
	}
	if !passesValidators(ctx, a, v) {
		return false
	}
	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		return fitsObject(ctx, a.Attributes, v, writeOnlyAllowed)
	case schema.MapNestedAttribute:
		all, ok := v.(types.Map)
		if !ok {
			return false
		}
		for _, element := range all.Elements() {
			if !fitsObject(ctx, a.NestedObject.Attributes, element, writeOnlyAllowed) {
				return false
			}
		}
	}
	return true
}

func fitsObject(ctx context.Context, level attributes, v attr.Value, writeOnlyAllowed bool) bool {
	o, ok := v.(interface{ Attributes() map[string]attr.Value })
	if !ok || v.IsNull() || v.IsUnknown() {
		return false
	}
	values := o.Attributes()
	for name, a := range level {
		if !fitsAttribute(ctx, a, values[name], writeOnlyAllowed) {
			return false
		}
	}
	return true
}

// passesValidators reports whether the validators of an attribute accept a known value.
func passesValidators(ctx context.Context, a schema.Attribute, v attr.Value) bool {
	switch a := a.(type) {
	case schema.StringAttribute:
		if len(a.Validators) == 0 {
			return true
		}
		s, ok := v.(basetypes.StringValuable)
		if !ok {
			return false
		}
		text, diags := s.ToStringValue(ctx)
		for _, check := range a.Validators {
			var resp validator.StringResponse
			check.ValidateString(ctx, validator.StringRequest{ConfigValue: text}, &resp)
			diags.Append(resp.Diagnostics...)
		}
		return len(diags) == 0
	case schema.MapAttribute:
		if len(a.Validators) == 0 {
			return true
		}
		all, ok := v.(types.Map)
		var resp validator.MapResponse
		for _, check := range a.Validators {
			check.ValidateMap(ctx, validator.MapRequest{ConfigValue: all}, &resp)
		}
		return ok && len(resp.Diagnostics) == 0
	default:
		return true
	}
}
