package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// refusesImport returns an error for the import of a VM's own disk, which would be deleted with the VM, and of a volume
// that may lack a part of its content. Such a volume must not get into the state: the next creation would remove it if
// it left the state again.
func (r *volumeResource) refusesImport(
	ctx context.Context, s *storage.Storage, found hostset.Answer[libvirt.Volume], state *model, diags *diag.Diagnostics,
) bool {
	through, err := s.Interrupted(ctx, found.Host, *found.Value)
	if unasked, ok := errors.AsType[*storage.UnaskedError](err); ok {
		for _, host := range value.Keys(unasked.Hosts) {
			diags.Append(state.unaskedImport(host, unasked.Hosts[host]).Error())
		}
		return true
	}
	f := state.failure("import", found.Host, err)
	if through != "" {
		f.Host = through
		f.Err = fmt.Errorf("%w: a run that was creating it was interrupted, so it may lack a part of its content",
			libvirt.ErrOperationInvalid)
		f.Remedy = fmt.Sprintf("Apply without importing it, on host %q: the provider creates it again, or says what to do.",
			through)
	}
	if f.Err == nil {
		f.Err = r.verifyNoHalfCopy(ctx, found.Host, *found.Value)
	}
	if f.Err == nil && storage.IsCopyName(found.Value.Name) {
		var whole bool
		if whole, f.Err = s.IsWhole(ctx, found.Host, *found.Value); f.Err == nil && !whole {
			f.Err = fmt.Errorf("%w: its upload was interrupted", storage.ErrIncomplete)
			f.Remedy = "Apply the virtfleet_image of this name again, which completes the copy."
		}
	}
	if f.Err == nil {
		var owner string
		if owner, f.Err = s.Owner(ctx, found.Host, *found.Value); owner != "" {
			f.Err = fmt.Errorf("%w: VM %q has it as a disk of its own, which is moved and deleted with the VM",
				storage.ErrInUse, owner)
			f.Remedy = "Replace pool of that disk by file with the path, and apply. Then import the volume."
		}
	}
	if f.Err == nil {
		return false
	}
	diags.Append(f.Error())
	return true
}

// unaskedImport returns the failure of an import because a host that shares the volume's pool can't be asked.
func (m *model) unaskedImport(host string, err error) tfdiag.Failure {
	f := m.failure("import", host, err)
	f.Happened = fmt.Sprintf("host %q has the storage pool and can't be asked whether a run was creating the volume "+
		"through it when that run was interrupted, so the volume may lack a part of its content", host)
	f.Remedy = "Bring the host back. Or make sure that it is off, then set its fenced = true."
	return f
}

// importRemedy says how to import the volume of one host, of those that have one of this name.
func (m *model) importRemedy(has []hostset.Answer[libvirt.Volume]) string {
	var ids []string
	for _, a := range has {
		ids = append(ids, strconv.Quote(a.Host+"/"+m.id()))
	}
	return "To import the volume of one host, name the host in the import id: " + strings.Join(ids, " or ") + "."
}

// refusesHalfCopy returns an error for a volume that the state would take from another host than before, if a move
// hasn't copied it to the end.
func (r *volumeResource) refusesHalfCopy(
	ctx context.Context, found hostset.Answer[libvirt.Volume], state *model, diags *diag.Diagnostics,
) bool {
	err := r.verifyNoHalfCopy(ctx, found.Host, *found.Value)
	if err != nil {
		diags.Append(state.failure("read", found.Host, err).Error())
	}
	return err != nil
}

// verifyNoHalfCopy returns an error for a volume of a host that isn't known to be whole, because of a move.
func (r *volumeResource) verifyNoHalfCopy(ctx context.Context, host string, v libvirt.Volume) error {
	if v.Type != "file" {
		return nil // Moves copy files alone.
	}
	return r.Data.Fleet.VerifyNoHalfCopy(ctx, host, v.Path)
}

// importedEncryption returns the encryption of an imported volume with the secret that libvirt reports, otherwise with
// that of the VMs that have the volume. It returns nil if neither names one secret.
func importedEncryption(
	ctx context.Context, s *storage.Storage, found hostset.Answer[libvirt.Volume],
) *encryptionModel {
	v := *found.Value
	secrets := []string{v.Secret}
	if v.Encrypted && v.Secret == "" {
		hosts, err := s.UserHosts(ctx, found.Host, v.Pool)
		if err != nil {
			hosts = s.Hosts.Named(found.Host)
		}
		users, _ := s.KnownUsers(ctx, hosts, v) // It returns those of the hosts that answer.
		secrets = nil
		for _, u := range users {
			secrets = append(secrets, u.Secret)
		}
	}
	slices.Sort(secrets)
	secrets = slices.DeleteFunc(slices.Compact(secrets), func(uuid string) bool { return uuid == "" })
	if len(secrets) != 1 {
		return nil
	}
	return &encryptionModel{Secret: types.StringValue(secrets[0])}
}
