package migration

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// checkSecrets checks that the target has the secrets with which QEMU opens the disks. libvirt doesn't reveal the value
// of a private secret, so a migration can't bring it.
func (t preflight) checkSecrets(ctx context.Context, f *blockerList) {
	for _, disk := range t.vm.Mobility.Disks {
		for _, uuid := range disk.Secrets {
			_, err := t.target.HostSecret(ctx, uuid)
			at := "disks." + disk.Key
			switch {
			case errors.Is(err, libvirt.ErrNotFound):
				f.lacks(status.Secret, uuid, DisksNotLiveMigratable, at,
					fmt.Sprintf("disk %q is opened with secret %s, and host %q has no such secret", disk.Key, uuid,
						t.target.Name()), "Add the host to the hosts of the virtfleet_secret.")
			case err != nil:
				f.unanswered(DisksNotLiveMigratable, at, t.target, "the secret "+uuid, err)
			}
		}
	}
}
