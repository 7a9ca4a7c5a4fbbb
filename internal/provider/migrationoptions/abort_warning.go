package migrationoptions

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// AbortWarning warns about a migration that was to be aborted and completed all the same: the VM of that name is on
// that host. status is the result of the abort, and failed says whether the migration failed. For other migrations
// there is no warning.
func AbortWarning(status string, failed bool, mode migration.Mode, name, host string) diag.Diagnostics {
	if status != migration.AbortFailed || failed {
		return nil
	}
	why := "the guest was being handed over to the target"
	if mode == migration.PostCopy {
		why = "the guest ran on the target already (post-copy), so the provider waited for the rest of its memory"
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Migration was too far on to be aborted", fmt.Sprintf(
		"The migration of virtual machine %q could no longer be aborted: %s. The VM is now on host %q.", name, why, host))}
}
