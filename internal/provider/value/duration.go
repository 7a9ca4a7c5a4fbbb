package value

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// durationSyntax describes what a Duration accepts, for descriptions and error messages.
const durationSyntax = "a length of time as numbers with units and no space, such as \"180s\", \"5m\" or \"1h30m\"; " +
	"the units are h, m, s and ms"

// DurationType is the type of a Duration. It is built once, for the same reason as QuantityType.
var DurationType = durationType{}

var (
	_ basetypes.StringTypable                    = durationType{}
	_ basetypes.StringValuableWithSemanticEquals = Duration{}
	_ xattr.ValidateableAttribute                = Duration{}
)

type durationType struct{ basetypes.StringType }

// Equal reports whether the other type is also a Duration's.
func (t durationType) Equal(o attr.Type) bool {
	_, ok := o.(durationType)
	return ok
}

// String returns the type's name for the framework's messages.
func (t durationType) String() string { return "value.DurationType" }

// ValueType returns the Go type of the values.
func (t durationType) ValueType(context.Context) attr.Value { return Duration{} }

// ValueFromString converts a string value.
func (t durationType) ValueFromString(
	_ context.Context, in basetypes.StringValue,
) (basetypes.StringValuable, diag.Diagnostics) {
	return Duration{StringValue: in}, nil
}

// ValueFromTerraform converts a value from Terraform's protocol.
func (t durationType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	s, err := stringFromTerraform(ctx, t.StringType, in)
	return Duration{StringValue: s}, err
}

// Duration is a length of time in Go's syntax. Two durations mean the same if they are equally long: 60s equals 1m.
type Duration struct{ basetypes.StringValue }

// NewDuration returns a known Duration as a user writes it, without checking it.
func NewDuration(s string) Duration { return Duration{StringValue: basetypes.NewStringValue(s)} }

// NewDurationNull returns a null Duration.
func NewDurationNull() Duration { return Duration{StringValue: basetypes.NewStringNull()} }

// NewDurationPointer returns d as a Duration in Go's notation, and null for nil.
func NewDurationPointer(d *time.Duration) Duration {
	if d == nil {
		return NewDurationNull()
	}
	return NewDuration(d.String())
}

// Type returns DurationType.
func (d Duration) Type(context.Context) attr.Type { return DurationType }

// Equal reports whether both are written the same.
func (d Duration) Equal(o attr.Value) bool {
	other, ok := o.(Duration)
	return ok && d.StringValue.Equal(other.StringValue)
}

// StringSemanticEquals reports whether both are equally long.
func (d Duration) StringSemanticEquals(
	_ context.Context, o basetypes.StringValuable,
) (bool, diag.Diagnostics) {
	other, ok := o.(Duration)
	return ok && d.Same(other), nil
}

// Same reports whether both are known and equally long. Invalid durations are the same only if they are written the
// same.
func (d Duration) Same(other Duration) bool {
	a, b := d.Duration(), other.Duration()
	if a == nil || b == nil {
		return d.StringValue.Equal(other.StringValue)
	}
	return *a == *b
}

// ValidateAttribute returns an error for anything but a length of time.
func (d Duration) ValidateAttribute(
	_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse,
) {
	if d.IsNull() || d.IsUnknown() {
		return
	}
	if _, err := ParseDuration(d.ValueString()); err != nil {
		resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid duration", err.Error()+"."))
	}
}

// Duration returns the length of time, and nil for a value that is null, unknown or invalid.
func (d Duration) Duration() *time.Duration {
	if d.IsNull() || d.IsUnknown() {
		return nil
	}
	t, err := ParseDuration(d.ValueString())
	if err != nil {
		return nil
	}
	return &t
}

// Or returns the length of time, and fallback if there is none.
func (d Duration) Or(fallback time.Duration) time.Duration {
	if t := d.Duration(); t != nil {
		return *t
	}
	return fallback
}

// ParseDuration parses a duration as a user writes it. The error quotes the value and says what is accepted.
func ParseDuration(s string) (time.Duration, error) {
	t, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a valid duration: it can't be read as numbers with units; accepted is %s",
			s, durationSyntax)
	case t < 0:
		return 0, fmt.Errorf("%q is not a valid duration: it is negative; accepted is %s", s, durationSyntax)
	}
	return t, nil
}

type positiveDuration struct{}

// PositiveDuration returns a validator that refuses 0 and anything but a length of time, for attributes whose type
// isn't DurationType.
func PositiveDuration() validator.String { return positiveDuration{} }

// Description says what the validator accepts.
func (positiveDuration) Description(context.Context) string { return "must be " + durationSyntax }

// MarkdownDescription says what the validator accepts.
func (v positiveDuration) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString refuses what ParseDuration refuses, and 0.
func (positiveDuration) ValidateString(
	_ context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	s := req.ConfigValue.ValueString()
	t, err := ParseDuration(s)
	if err == nil && t == 0 {
		err = fmt.Errorf("%q leaves no time at all", s)
	}
	if err != nil {
		resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid duration", err.Error()+"."))
	}
}
