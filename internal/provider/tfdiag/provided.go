package tfdiag

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// UnexpectedProviderData returns the error for a resource that was passed something other than the provider's data. It
// can only be a bug in the provider.
func UnexpectedProviderData(got any) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Unable to configure resource", fmt.Sprintf(
		"The provider handed over data of type %T. This is a bug in the provider; please report it.", got))
}
