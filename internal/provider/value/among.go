package value

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// among accepts the values of an enumeration.
type among []string

// Among returns a validator that refuses anything but these values. Its message is that of the enumerations of a VM.
// The framework's own says "Invalid Attribute Value Match".
func Among(values ...string) validator.String { return among(values) }

// Description says what the validator accepts.
func (a among) Description(context.Context) string { return "one of " + strings.Join(a, ", ") }

// MarkdownDescription says what the validator accepts.
func (a among) MarkdownDescription(ctx context.Context) string { return a.Description(ctx) }

// ValidateString implements validator.String.
func (a among) ValidateString(
	_ context.Context, req validator.StringRequest, resp *validator.StringResponse,
) {
	is := req.ConfigValue
	if is.IsNull() || is.IsUnknown() || slices.Contains(a, is.ValueString()) {
		return
	}
	resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid value", fmt.Sprintf("%s: %q isn't one of %s.",
		attrpath.Text(req.Path), is.ValueString(), strings.Join(a, ", "))))
}
