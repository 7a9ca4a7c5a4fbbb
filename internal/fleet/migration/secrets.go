package migration

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// secrets checks that the target has the secrets that QEMU opens the disks with. They don't come along by themselves:
// libvirt doesn't tell the value of a private one.
func (t toTarget) secrets(ctx context.Context, f *finding) {
	for _, disk := range t.machine.Facts.Disks {
		for _, uuid := range disk.Secrets {
			_, err := t.target.HostSecret(ctx, uuid)
			at := "disks." + disk.Key
			switch {
			case errors.Is(err, libvirt.ErrNotFound):
				f.block(DisksNotLiveMigratable, at, fmt.Sprintf("disk %q is opened with secret %s, and host %q has no such "+
					"secret", disk.Key, uuid, t.target.Name()), "Add the host to the hosts of the virtfleet_secret.")
			case err != nil:
				f.failed(DisksNotLiveMigratable, at, t.target, "the secret "+uuid, err)
			}
		}
	}
}
