package secret

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// opens is what a secret opens that can't be read without it.
type opens struct {
	// encrypted is what has the secret as its passphrase. lost says what to do before the secret is destroyed.
	encrypted, lost string
	// replaced is the title of the warning that the secret gets another value, and keeps its consequence.
	replaced, keeps string
}

// opened are what secrets open, by usage.
var opened = map[string]opens{
	"volume": {
		encrypted: "encrypted disks",
		lost:      "Remove these disks first: without the passphrase, their data is lost.",
		replaced:  "Passphrase of disks is replaced",
		keeps: "The disks keep their passphrase: if the value is another one, these VMs can no longer start or move, " +
			"unless you have changed the passphrase in the disks.",
	},
	"vtpm": {
		encrypted: "the TPM",
		lost: "Remove these TPMs first (devices.tpm.model = \"none\"): without the passphrase, their state is lost, and " +
			"with it what the guest has sealed, such as the key of its disk.",
		replaced: "Passphrase of TPMs is replaced",
		keeps: "The state of their TPMs keeps its passphrase: if the value is another one, these VMs can no longer " +
			"start or move.",
	},
}

// refuseLoss returns an error for each host with VMs of which the secret opens a part. The state doesn't have the
// passphrase, and the secret may have been imported.
func (o opens) refuseLoss(ctx context.Context, hosts hostset.Set, m *model) (diags diag.Diagnostics) {
	for _, a := range hostset.Found(hostset.Ask(ctx, hosts,
		func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
			users, err := storage.SecretUsers(ctx, h, m.ID.ValueString())
			return &users, err
		})) {
		if len(*a.Value) > 0 {
			diags.Append(tfdiag.Failure{
				Verb: "delete", Noun: m.noun(), Host: a.Host,
				Err: fmt.Errorf("%w: it is the passphrase of %s of %s", libvirt.ErrOperationInvalid, o.encrypted,
					strings.Join(*a.Value, ", ")),
				Remedy: o.lost + " If the passphrase is kept elsewhere, remove the secret from the state with " +
					"\"terraform state rm\".",
			}.Error())
		}
	}
	return diags
}
