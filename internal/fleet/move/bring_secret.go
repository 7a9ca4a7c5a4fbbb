package move

import (
	"context"
	"fmt"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// bringSecrets copies to the target the secrets with which QEMU opens the VM's disks and its TPM. They stay there if
// the move fails, because another VM may use them by then. The destroy of the virtfleet_secret removes them.
func (m *move) bringSecrets(ctx context.Context, inspected migration.VM) error {
	for _, uuid := range migration.SecretsToBring(ctx, inspected.Mobility, m.from.Conn, m.to.Conn) {
		m.mover.log.InfoContext(ctx, "bringing a secret", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name,
			"secret", uuid)

		if err := migration.BringSecret(ctx, m.from.Conn, m.to.Conn, uuid); err != nil {
			return &inventory.Error{
				VM: m.vm.Name, Host: m.to.Name, Kind: ErrNotMoved, Err: err,
				Detail: fmt.Sprintf("secret %s, with which its disks or its TPM are opened, was not brought there; it was not "+
					"moved", uuid),
				Remedy: "First name the host in the hosts of the virtfleet_secret, as a change of its own.",
				Next:   inventory.Retry,
			}
		}
	}

	return nil
}

// secretProblems returns a problem for the secrets that are brought to the target first.
func secretProblems(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host,
) []inventory.Problem {
	missing := migration.SecretsToBring(ctx, inspected.Mobility, vm.On.Conn, to.Conn)
	if len(missing) == 0 {
		return nil
	}

	return []inventory.Problem{{
		Attribute: "host", Summary: "Secrets will be copied to the target first", Warning: true,
		Detail: fmt.Sprintf("Host %q lacks secrets that open disks or the TPM of virtual machine %q. They are copied "+
			"there from host %q before it moves: %s", to.Name, vm.Name, vm.Host, strings.Join(missing, ", ")),
		Remedy: "To have them there at all times, name the host in the hosts of the virtfleet_secret.",
	}}
}
