package secret

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
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

// user is a VM of which the secret opens a part.
type user struct {
	name string
	// kept are the parts that the secret opens and that stay when the VM is deleted.
	kept []string
}

// passphraseUsers asks hosts for the VMs of which the secret with that id opens a part.
func passphraseUsers(ctx context.Context, hosts hostset.Set, id string) []hostset.Answer[[]user] {
	return hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*[]user, error) {
		domains, err := h.Domains(ctx)
		if err != nil {
			return nil, err
		}
		var users []user
		for _, d := range domains {
			u, uses, err := userOf(d, id)
			if err != nil {
				return nil, err
			}
			if uses {
				users = append(users, u)
			}
		}
		slices.SortFunc(users, func(a, b user) int { return strings.Compare(a.name, b.name) })
		return &users, nil
	})
}

// userOf reports whether the secret opens a part of a VM, while it runs or at its next start.
func userOf(d libvirt.Domain, id string) (u user, uses bool, _ error) {
	u.name = "virtual machine " + d.Name
	for _, xml := range []string{d.LiveXML, d.PersistentXML} {
		if !strings.Contains(xml, id) {
			continue
		}
		uses = true
		definition, err := domain.Parse(xml)
		if err != nil {
			return u, uses, err
		}
		metadata, has := definition.Metadata(), definition.Mobility()
		for _, disk := range has.Disks {
			if own := metadata.OwnDisks[disk.Key]; own.Kept() && slices.Contains(disk.Secrets, id) {
				u.kept = append(u.kept, fmt.Sprintf("disks.%s (%s) of %s", disk.Key, own.Path, u.name))
			}
		}
		if has.TPMSecret == id && metadata.Keeps(domain.PartTPMState) {
			u.kept = append(u.kept, "the state of the TPM of "+u.name)
		}
	}
	slices.Sort(u.kept)
	u.kept = slices.Compact(u.kept)
	return u, uses, nil
}

// namesOf lists VMs for messages, "" if there is none.
func namesOf(users []user) string {
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.name
	}
	return strings.Join(names, ", ")
}

// elsewhere is the remedy if the passphrase isn't lost with the secret.
const elsewhere = " If the passphrase is kept elsewhere, remove the secret from the state with \"terraform state rm\"."

// stillNeeded is the remedy if a host is to lose the secret while its VMs need it.
const stillNeeded = "Without it, these VMs don't start there any more. Keep the host in hosts until they have left " +
	"it or are removed, then apply again."

// refuseLoss returns an error for each host with VMs of which the secret opens a part, and for each host that can't
// tell. The state doesn't have the passphrase, and the secret may have been imported.
func (o opens) refuseLoss(ctx context.Context, hosts hostset.Set, m *model, remedy string) (diags diag.Diagnostics) {
	answers := passphraseUsers(ctx, hosts, m.ID.ValueString())
	for _, a := range hostset.Found(answers) {
		if names := namesOf(*a.Value); names != "" {
			diags.Append(tfdiag.Failure{
				Verb: "delete", Noun: m.noun(), Host: a.Host, Remedy: remedy,
				Err: fmt.Errorf("%w: it is the passphrase of %s of %s", libvirt.ErrOperationInvalid, o.encrypted, names),
			}.Error())
		}
	}
	silent := hostset.Silent(answers)
	for _, host := range value.Keys(silent) {
		diags.Append(tfdiag.Failure{
			Verb: "delete", Noun: m.noun(), Host: host, Err: silent[host],
			Happened: fmt.Sprintf("it is unknown whether the secret is the passphrase of %s of VMs on host %q; it was removed "+
				"from no host", o.encrypted, host),
			Remedy: "Repair what the host reports, or set its fenced = true if it is off for good, and apply again.",
		}.Error())
	}
	return diags
}

// newVersion is the remedy of a replacement that isn't known to keep the passphrase.
const newVersion = "The secret that takes its place gets the value in the configuration. If that is the passphrase, " +
	"set value_wo_version to a new text in the same apply. After an import, apply a first value_wo_version before. If " +
	"you don't know the passphrase, undo the change, or the mark that \"terraform taint\" has made (\"terraform " +
	"untaint\"): libvirt has the only copy."

// checkReplacement returns an error for the plan of a replacement while the secret opens a part of VMs: the value in
// the configuration may be another one than the hosts have.
func (o opens) checkReplacement(ctx context.Context, hosts hostset.Set, m *model) (diags diag.Diagnostics) {
	for _, a := range hostset.Found(passphraseUsers(ctx, hosts, m.ID.ValueString())) {
		if names := namesOf(*a.Value); names != "" {
			diags.AddAttributeError(path.Root("value_wo_version"), "Passphrase may be lost", fmt.Sprintf("The plan replaces "+
				"the %s, which is the passphrase of %s of %s on host %s.\n\n%s %s", m.noun(), o.encrypted, names, a.Host,
				newVersion, tfdiag.DestroyAnyway))
		}
	}
	return diags
}

// checkKept returns an error for the plan of a destroy if something stays that can't be read without the secret. Once
// its VM is deleted, no host knows that the secret opens it.
func (o opens) checkKept(ctx context.Context, hosts hostset.Set, m *model) (diags diag.Diagnostics) {
	for _, a := range hostset.Found(passphraseUsers(ctx, hosts, m.ID.ValueString())) {
		for _, u := range *a.Value {
			if len(u.kept) > 0 {
				diags.AddError("Data that is kept needs the secret", fmt.Sprintf("The plan destroys the %s. On host %s, it is "+
					"the passphrase of %s, which stays when it is removed from the VM or the VM is destroyed, because on_destroy is "+
					"\"keep\". Without the passphrase, that data is lost.\n\nTo delete the data too, first apply on_destroy = "+
					"\"delete\". If the VM is to use another secret with this passphrase, apply that first.%s", m.noun(), a.Host,
					strings.Join(u.kept, ", "), elsewhere))
			}
		}
	}
	return diags
}

// refuseDelete returns errors for the delete of a passphrase while VMs on hosts need it, unless it is part of a
// replacement that is known to keep the value, or the value is lost already.
func (m *model) refuseDelete(
	ctx context.Context, private meta.PrivateReader, hosts hostset.Set,
) (diags diag.Diagnostics) {
	opens, isPassphrase := opened[m.Usage.ValueString()]
	if !isPassphrase {
		return nil
	}
	destroyed, confirmed, diags := m.removal(ctx, private)
	remedy := newVersion
	if destroyed {
		remedy = opens.lost + elsewhere
	}
	if !confirmed && !m.isLost(ctx, hosts) {
		diags.Append(opens.refuseLoss(ctx, hosts, m, remedy)...)
	}
	return diags
}

// removal says whether a delete is a planned destroy, or else part of a replacement, and then whether a new
// value_wo_version confirms the value of the secret in its place. Terraform tells no plan about a replacement that a
// user asks for ("terraform taint").
func (m *model) removal(
	ctx context.Context, private meta.PrivateReader,
) (destroyed, confirmed bool, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, privateDestroyed, &destroyed)
	var planned any
	_, more := meta.ReadPrivate(ctx, private, privatePlanned, &planned)
	diags.Append(more...)
	keeps, more := m.keepsPassphrase(ctx, private)
	diags.Append(more...)
	return destroyed, !destroyed && !keeps && m.hasOtherVersion(planned), diags
}

// keepsPassphrase reports whether the secret is an imported passphrase that has no value_wo_version yet: the first one
// is recorded, and the hosts keep their value.
func (m *model) keepsPassphrase(ctx context.Context, private meta.PrivateReader) (keeps bool, diags diag.Diagnostics) {
	if _, ok := opened[m.Usage.ValueString()]; !ok {
		return false, nil
	}
	_, diags = meta.ReadPrivate(ctx, private, privateImported, &keeps)
	return keeps, diags
}

// isLost reports whether all hosts can tell, and none of them has the secret: its value is lost already.
func (m *model) isLost(ctx context.Context, hosts hostset.Set) bool {
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
		return h.UserSecret(ctx, m.ID.ValueString())
	})
	return len(hostset.Found(answers)) == 0 && len(hostset.Silent(answers)) == 0
}
