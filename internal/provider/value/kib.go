package value

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

type wholeKiB struct{}

// WholeKiB returns a validator that refuses a Quantity that isn't a multiple of 1024 bytes. libvirt counts a guest's
// memory in KiB and rounds it without an error, so such a size would never be read back as it was written.
func WholeKiB() validator.String { return wholeKiB{} }

// Description says what the validator accepts.
func (wholeKiB) Description(context.Context) string { return "must be a multiple of 1024 bytes (1Ki)" }

// MarkdownDescription says what the validator accepts.
func (v wholeKiB) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString refuses sizes with a fraction of a KiB. The type itself reports values that aren't quantities.
func (wholeKiB) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	s := req.ConfigValue.ValueString()
	n, err := ParseBytes(s)
	if err != nil || n%1024 == 0 {
		return
	}
	resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid quantity", fmt.Sprintf(
		"%q is %d bytes, which isn't a multiple of 1024: libvirt counts memory in KiB and would round it. "+
			"The nearest sizes are %q and %q.", s, n, FormatBytes(max(n/1024, 1)*1024), FormatBytes((n/1024+1)*1024))))
}
