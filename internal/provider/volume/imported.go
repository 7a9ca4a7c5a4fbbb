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
	if f.Err == nil {
		var owner string
		if owner, f.Err = s.Owner(ctx, found.Host, *found.Value); owner != "" {
			f.Err = fmt.Errorf("%w: VM %q has it as a disk of its own, which is moved and deleted with the VM",
				storage.ErrInUse, owner)
			f.Remedy = "Replace pool of that disk by file with the path, and apply. Then import the volume."
		}
	}
	if f.Err == nil {
		diags.Append(state.warnOfUpload(ctx, s, found)...)
		return false
	}
	diags.Append(f.Error())
	return true
}

// warnOfUpload returns a warning for an imported volume that may be what an interrupted upload of an image has left.
// There is no record of uploads, and any volume may have such a name, for example one with a MAC address, and no data
// yet: so that isn't refused.
func (m *model) warnOfUpload(
	ctx context.Context, s *storage.Storage, found hostset.Answer[libvirt.Volume],
) (diags diag.Diagnostics) {
	if !storage.IsCopyName(found.Value.Name) {
		return nil
	}
	if blank, err := s.BeginsBlank(ctx, found.Host, *found.Value); err != nil || !blank {
		return nil
	}
	diags.AddWarning("Volume may be incomplete: "+m.id(), fmt.Sprintf("On host %q it has no data at its beginning, and a "+
		"name like that of an image's copy. An upload of an image that was interrupted leaves such a volume.\n\nIf it is "+
		"one, don't import it, or run \"terraform state rm\" for it. Then apply its virtfleet_image, which completes the "+
		"copy. Otherwise there is nothing to do.", found.Host))
	return diags
}

// unaskedImport returns the failure of an import because a host that shares the volume's pool can't be asked.
func (m *model) unaskedImport(host string, err error) tfdiag.Failure {
	f := m.failure("import", host, err)
	f.Happened = fmt.Sprintf("host %q has the storage pool and can't be asked. A run may have been interrupted while it "+
		"created the volume through that host, so the volume may lack a part of its content", host)
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
