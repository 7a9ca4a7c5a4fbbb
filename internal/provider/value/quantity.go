package value

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// quantitySyntax describes what a Quantity accepts, for descriptions and error messages.
const quantitySyntax = "a number of bytes above zero, with an optional suffix and no space, such as \"2Gi\", " +
	"\"500Mi\" or \"1.5Gi\" (Ki, Mi, Gi, Ti are powers of 1024; k, M, G, T are powers of 1000)"

// QuantityType is the type of a Quantity. It is built once because the framework copies and compares types at every
// step along every attribute path.
var QuantityType = quantityType{}

// WholeKiBType is the type of a Quantity that is a multiple of 1024 bytes. libvirt counts a guest's memory in KiB and
// rounds it without an error, so another size would never be read back as it was written.
var WholeKiBType = quantityType{accepted: accepted{wholeKiB: true}}

// WholeKiBOrZeroType is the type of such a Quantity that may be "0", which removes the setting.
var WholeKiBOrZeroType = quantityType{accepted: accepted{wholeKiB: true, zero: true}}

var (
	_ basetypes.StringTypable                    = quantityType{}
	_ basetypes.StringValuableWithSemanticEquals = Quantity{}
	_ xattr.ValidateableAttribute                = Quantity{}
)

type quantityType struct {
	basetypes.StringType

	accepted accepted
}

// accepted is what a type of Quantity accepts.
type accepted struct {
	// zero says that "0" is a valid value.
	zero bool
	// wholeKiB says that only multiples of 1024 bytes are valid.
	wholeKiB bool
}

// Equal reports whether the other type is also a Quantity's.
func (t quantityType) Equal(o attr.Type) bool {
	_, ok := o.(quantityType)
	return ok
}

// String returns the type's name for the framework's messages.
func (t quantityType) String() string { return "value.QuantityType" }

// ValueType returns the Go type of the values.
func (t quantityType) ValueType(context.Context) attr.Value { return Quantity{} }

// ValueFromString converts a string value.
func (t quantityType) ValueFromString(
	_ context.Context, in basetypes.StringValue,
) (basetypes.StringValuable, diag.Diagnostics) {
	return Quantity{StringValue: in, accepted: t.accepted}, nil
}

// ValueFromTerraform converts a value from Terraform's protocol.
func (t quantityType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	s, err := stringFromTerraform(ctx, t.StringType, in)
	return Quantity{StringValue: s, accepted: t.accepted}, err
}

// Quantity is an amount of bytes in the syntax of Kubernetes' resource.Quantity. Two quantities mean the same if they
// are the same number of bytes: 2Gi equals 2048Mi.
type Quantity struct {
	basetypes.StringValue

	accepted accepted
}

// NewQuantity returns a known Quantity as a user writes it, without checking it.
func NewQuantity(s string) Quantity { return Quantity{StringValue: basetypes.NewStringValue(s)} }

// NewQuantityNull returns a null Quantity.
func NewQuantityNull() Quantity { return Quantity{StringValue: basetypes.NewStringNull()} }

// NewQuantityUnknown returns an unknown Quantity.
func NewQuantityUnknown() Quantity { return Quantity{StringValue: basetypes.NewStringUnknown()} }

// NewQuantityFromBytes returns n bytes in the shortest exact notation with a binary suffix.
func NewQuantityFromBytes(n uint64) Quantity { return NewQuantity(domain.ExactSize(n)) }

// NewQuantityPointer is NewQuantityFromBytes, with null for nil.
func NewQuantityPointer(n *uint64) Quantity {
	if n == nil {
		return NewQuantityNull()
	}
	return NewQuantityFromBytes(*n)
}

// Type returns QuantityType.
func (q Quantity) Type(context.Context) attr.Type { return QuantityType }

// Equal reports whether both are written the same.
func (q Quantity) Equal(o attr.Value) bool {
	other, ok := o.(Quantity)
	return ok && q.StringValue.Equal(other.StringValue)
}

// StringSemanticEquals reports whether both are the same number of bytes.
func (q Quantity) StringSemanticEquals(
	_ context.Context, o basetypes.StringValuable,
) (bool, diag.Diagnostics) {
	other, ok := o.(Quantity)
	return ok && q.Same(other), nil
}

// Same reports whether both are known and the same number of bytes. Invalid quantities are the same only if they are
// written the same.
func (q Quantity) Same(other Quantity) bool {
	a, b := q.Bytes(), other.Bytes()
	if a == nil || b == nil {
		return q.StringValue.Equal(other.StringValue)
	}
	return *a == *b
}

// ValidateAttribute returns an error for anything but a positive whole number of bytes that the type accepts.
func (q Quantity) ValidateAttribute(
	_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse,
) {
	if err := q.check(); err != nil {
		resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid quantity", err.Error()+"."))
	}
}

// Invalid reports whether the value is known and isn't what its type accepts, as ValidateAttribute says to the user.
func (q Quantity) Invalid() bool { return q.check() != nil }

func (q Quantity) check() error {
	if q.IsNull() || q.IsUnknown() {
		return nil
	}
	parse := ParseBytes
	if q.accepted.zero {
		parse = parseBytes
	}
	s := q.ValueString()
	n, err := parse(s)
	if err == nil && q.accepted.wholeKiB && n%1024 != 0 {
		return fmt.Errorf("%q is %d bytes, which isn't a multiple of 1024: libvirt counts memory in KiB and would round it. "+
			"The nearest sizes are %q and %q", s, n, domain.ExactSize(max(n/1024, 1)*1024), domain.ExactSize((n/1024+1)*1024))
	}
	return err
}

// LacksUnit says that the quantity is a number of bytes too small for a disk, which was most likely meant in another
// unit; "" if it isn't.
func (q Quantity) LacksUnit() string {
	const disk = 1 << 20
	s := q.ValueString()
	if n, err := strconv.ParseUint(s, 10, 64); err != nil || n == 0 || n >= disk {
		return ""
	}
	return fmt.Sprintf("%q is %s bytes. Write a unit, such as %q.", s, s, s+"Gi")
}

// Bytes returns the amount in bytes, and nil for a value that is null, unknown or invalid.
func (q Quantity) Bytes() *uint64 {
	if q.IsNull() || q.IsUnknown() {
		return nil
	}
	n, err := parseBytes(q.ValueString())
	if err != nil {
		return nil
	}
	return &n
}

// ParseBytes parses a quantity as a user writes it. The error quotes the value and says what is accepted.
func ParseBytes(s string) (uint64, error) {
	n, err := parseBytes(s)
	if err == nil && n == 0 {
		return 0, notQuantity(s, "it isn't greater than zero")
	}
	return n, err
}

func notQuantity(s, why string) error {
	return fmt.Errorf("%q is not a valid quantity: %s; accepted is %s", s, why, quantitySyntax)
}

// parseBytes is ParseBytes, but also accepts zero.
func parseBytes(s string) (uint64, error) {
	refuse := func(why string) (uint64, error) { return 0, notQuantity(s, why) }
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return refuse("it can't be read as a number with a suffix")
	case q.Sign() < 0:
		return refuse("it isn't greater than zero")
	case q.CmpInt64(math.MaxInt64) >= 0:
		return refuse("it is too large")
	}
	// Value rounds up, so a fraction of a byte shows as a difference.
	n := q.Value()
	if q.CmpInt64(n) != 0 {
		return refuse("it isn't a whole number of bytes")
	}
	return uint64(n), nil
}
