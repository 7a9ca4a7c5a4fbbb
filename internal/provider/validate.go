package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
)

// uriValidator refuses a URI for which check returns an error. The message names the attribute, because Terraform's own
// position in the file ends at hosts.
type uriValidator struct{ check func(uri string) error }

// Description says what the validator accepts.
func (uriValidator) Description(context.Context) string {
	return "must be a libvirt URI with a supported driver and transport"
}

// MarkdownDescription says what the validator accepts.
func (v uriValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString checks the URI.
func (v uriValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := v.check(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.Append(attrpath.Error(req.Path, "Invalid libvirt URI",
			uriProblem(attrpath.Text(req.Path), req.ConfigValue.ValueString(), err)))
	}
}

// uriProblem returns the message about a URI and its error. It doesn't repeat a URI with a password.
func uriProblem(where, uri string, err error) string {
	if strings.Contains(uri, "@") && strings.Contains(strings.SplitN(uri, "@", 2)[0], "://") &&
		strings.Count(strings.SplitN(uri, "@", 2)[0], ":") > 1 {
		return fmt.Sprintf("%s: %v.", where, err)
	}
	return fmt.Sprintf("%s is %q: %v.", where, uri, err)
}
