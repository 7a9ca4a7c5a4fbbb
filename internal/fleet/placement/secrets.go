package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// fitsSecrets checks that the host has the secrets that open the disks and the TPM of a VM, or is planned to have them.
// What opens disks that the VM has already is checked when it starts, and by a move, which brings it along. vm is nil
// for a new VM.
func fitsSecrets(ctx context.Context, a inventory.Reply, d Desired, vm *inventory.VM) []inventory.Problem {
	var (
		problems []inventory.Problem
		had      []domain.HostSecret
	)

	if vm != nil {
		had = vm.DeclaredSpec().Secrets()
	}

	for _, secret := range d.Spec.Secrets() {
		if d.Planned && d.PlannedObjects.On(a.Host.Name, status.Secret, secret.UUID) {
			continue
		}

		if !secret.TPM && slices.Contains(had, secret) {
			continue
		}

		if why := lacksSecret(ctx, a, d.Planned, secret.UUID, secret.Opens); why != "" {
			problems = append(problems, inventory.Problem{Attribute: secret.Attribute, Detail: why})
		}
	}

	return problems
}

// lacksSecret returns why a host can't open something with a secret, or "" if it can. planned says that it is asked for
// a plan.
func lacksSecret(ctx context.Context, a inventory.Reply, planned bool, uuid, opens string) string {
	has, err := a.HasUserSecret(ctx, planned, uuid)

	switch {
	case has:
		return ""
	case err == nil:
		return fmt.Sprintf("it has no secret %s, which %s is opened with; add the host to the hosts of the "+
			"virtfleet_secret", uuid, opens)
	default:
		return fmt.Sprintf("secret %s of %s can't be read: %v", uuid, opens, err)
	}
}

// SecretRemedy returns what to do about secrets if a host's QEMU refused what it opens with them; "" if they can't be
// the cause. libvirt has one error number for all that QEMU refuses, so a wrong value is named as a possible cause.
func SecretRemedy(ctx context.Context, h *inventory.Host, secrets []domain.HostSecret, cause error) string {
	internal := errors.Is(cause, libvirt.ErrInternal)
	if ctx.Err() != nil || !internal && !inventory.IsNotFound(cause) {
		return ""
	}

	opened := map[string][]string{}
	for _, secret := range secrets {
		opened[secret.UUID] = append(opened[secret.UUID], secret.Opens)
	}

	var lacks, has []string

	for _, uuid := range slices.Sorted(maps.Keys(opened)) {
		opens := strings.Join(opened[uuid], ", ")

		switch secret, err := h.Conn.UserSecret(ctx, uuid); {
		case inventory.IsNotFound(err):
			lacks = append(lacks, fmt.Sprintf("Host %q has no secret %s, which opens %s: add the host to the hosts of the "+
				"virtfleet_secret.", h.Name, uuid, opens))
		case err == nil && internal:
			has = append(has, fmt.Sprintf("%s with secret %q (%s)", opens, secret.Usage+"/"+secret.UsageID, uuid))
		}
	}

	if len(lacks) > 0 || len(has) == 0 {
		return strings.Join(lacks, " ")
	}

	return fmt.Sprintf("QEMU opens %s. If a value on host %q is wrong, set the right one in the virtfleet_secret, with "+
		"another value_wo_version.", strings.Join(has, ", and "), h.Name)
}

// growsEncrypted returns a problem for each encrypted disk that would grow while the VM doesn't run: libvirt then
// resizes a LUKS volume only with a secret that it finds by the volume's path.
func growsEncrypted(ctx context.Context, vm *inventory.VM, d Desired) []inventory.Problem {
	if d.runsOn(vm) {
		return nil
	}

	var problems []inventory.Problem

	made := d.RenamedOwnDisks(vm)
	for _, key := range slices.Sorted(maps.Keys(d.OwnDisks)) {
		is := made[key]
		uuid := d.Spec.Disks[key].Values[domain.EncryptionSecret]

		if uuid == "" || is.Volume == "" || is.Creating || d.OwnDisks[key].Bytes <= is.Bytes {
			continue
		}

		secret, err := vm.On.Conn.UserSecret(ctx, uuid)
		if err == nil && secret.Usage == "volume" && secret.UsageID == is.Path {
			continue
		}

		problems = append(problems, inventory.Problem{
			Attribute: OwnDiskAttribute(key, "size"), Summary: "Disk can't grow while the VM is off",
			Detail: fmt.Sprintf("Disk %q of VM %q is encrypted, and libvirt grows an encrypted volume only while a VM runs "+
				"on it.", key, vm.Name),
			Remedy: "Start the VM first, or together with this change by its run_strategy. Or set size back.",
		})
	}

	return problems
}
