package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// checkSecrets checks that the target has the secrets with which QEMU opens the disks and the TPM, or can be given
// them.
func (t preflight) checkSecrets(ctx context.Context, f *blockerList) {
	for _, secret := range t.vm.Mobility.Secrets() {
		reason := DisksNotLiveMigratable
		if secret.TPM {
			reason = TPMNotMigratable
		}
		_, err := t.target.UserSecret(ctx, secret.UUID)
		switch {
		case errors.Is(err, libvirt.ErrNotFound):
			if why := whyNotBrought(ctx, t.source, t.target, secret.UUID); why != "" {
				f.lacks(status.HostObject{Kind: status.Secret, Name: secret.UUID}, reason, secret.Attribute,
					fmt.Sprintf("%s is opened with secret %s, host %q has no such secret, and the move can't bring it: %s",
						secret.Opens, secret.UUID, t.target.Name(), why), "Add the host to the hosts of the virtfleet_secret.")
			}
		case err != nil:
			f.unanswered(reason, secret.Attribute, t.target, "the secret "+secret.UUID, err)
		}
	}
}

// SecretsToBring returns the UUIDs of the secrets that are copied to the target before a VM moves there. The target
// lacks these secrets, and the source's libvirt reveals their values. A secret that can't be copied is a blocker.
func SecretsToBring(ctx context.Context, facts domain.Mobility, source, target *libvirt.Host) []string {
	var missing []string
	for _, secret := range facts.Secrets() {
		uuid := secret.UUID
		if _, err := target.UserSecret(ctx, uuid); !errors.Is(err, libvirt.ErrNotFound) || slices.Contains(missing, uuid) {
			continue
		}
		if whyNotBrought(ctx, source, target, uuid) == "" {
			missing = append(missing, uuid)
		}
	}
	return missing
}

// whyNotBrought returns why the source's secret can't be copied to the target, or "" if it can.
func whyNotBrought(ctx context.Context, source, target *libvirt.Host, uuid string) string {
	s, err := source.UserSecret(ctx, uuid)
	switch {
	case err != nil:
		return fmt.Sprintf("on host %q it can't be read: %v", source.Name(), err)
	case s.Private:
		return "it is private, so libvirt doesn't reveal its value"
	case s.Ephemeral:
		return "it is ephemeral, so it must not be stored"
	}
	other, err := target.SecretByUsage(ctx, s.Usage, s.UsageID)
	switch {
	case errors.Is(err, libvirt.ErrNotFound):
		return ""
	case err != nil:
		return fmt.Sprintf("the secrets of host %q can't be read: %v", target.Name(), err)
	case other.UUID == uuid: // A run was killed while it created it.
		return ""
	default:
		return fmt.Sprintf("the host has another secret for %s %q, %s", s.Usage, s.UsageID, other.UUID)
	}
}

// BringSecret copies a secret from the source to the target.
func BringSecret(ctx context.Context, source, target *libvirt.Host, uuid string) error {
	s, err := source.UserSecret(ctx, uuid)
	if err != nil {
		return err
	}
	data, err := source.UserSecretValue(ctx, uuid)
	if err != nil {
		return err
	}
	return target.PutUserSecret(ctx, *s, data)
}
