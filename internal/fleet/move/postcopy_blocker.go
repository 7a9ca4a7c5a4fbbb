package move

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// postCopyBlocker returns what blocks moving a guest to the host with the options, if they ask for post-copy: the
// target's QEMU refuses it from the beginning.
func postCopyBlocker(ctx context.Context, h *inventory.Host, o migration.Options) []migration.Blocker {
	if !*o.WithDefaults().AllowPostCopy || !h.RefusesPostCopy(ctx) {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.OptionsNotSupported, Status: status.False, Attribute: "migration_options.allow_post_copy",
		Message: fmt.Sprintf("QEMU on host %q doesn't run as root, and the host's kernel doesn't allow it "+
			"post-copy", h.Name),
		Remedy: "Set the sysctl vm.unprivileged_userfaultfd = 1 there, choose another host, or set allow_post_copy = false.",
	}}
}
