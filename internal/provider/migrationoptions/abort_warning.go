package migrationoptions

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// AbortWarning warns of a migration that was to be aborted and arrived all the same: the VM of that name is on that
// host. status is how the abort went, failed whether the migration did; any other migration is no reason to warn.
func AbortWarning(status string, failed bool, mode migration.Mode, name, host string) diag.Diagnostics {
	if status != migration.AbortFailed || failed {
		return nil
	}
	why := "it was being handed over already"
	if mode == migration.PostCopy {
		why = "its guest ran there already (post-copy), and the rest of its memory was waited for"
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Migration was too far on to be aborted", fmt.Sprintf(
		"The order to abort the migration of virtual machine %q came too late: %s. It is on host %q now.", name, why, host))}
}
