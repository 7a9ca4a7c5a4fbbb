package secret

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// decode returns the bytes of a value in Base64. Its error doesn't have the decoder's text, which would quote a part of
// the value.
func decode(text string, at path.Path) (data []byte, diags diag.Diagnostics) {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		diags.AddAttributeError(at, "Invalid secret", "The value isn't Base64.")
	}
	return data, diags
}

// isBase64 refuses a value that isn't Base64 in the plan, as far as it is known there.
type isBase64 struct{}

func (isBase64) Description(context.Context) string { return "a value in Base64" }

func (v isBase64) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (isBase64) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	_, diags := decode(req.ConfigValue.ValueString(), req.Path)
	resp.Diagnostics.Append(diags...)
}
