package tfdiag

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// UnexpectedProviderData is the error of a resource that was handed something other than the provider's data. It can
// only be a bug of ours.
func UnexpectedProviderData(got any) diag.Diagnostic {
	return diag.NewErrorDiagnostic("Unable to configure resource", fmt.Sprintf(
		"The provider handed over data of type %T. This is a bug in the provider; please report it.", got))
}
