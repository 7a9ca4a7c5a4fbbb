package volume

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// checkRemoval returns an error for the removal of a volume that an unreachable host may use, and of one that libvirt
// can't remove: the apply would find that out only after the VMs that use the volume are gone. It also returns an error
// if a VM uses a copy of the volume, and a warning if the same plan takes the volume from a VM.
func (r *volumeResource) checkRemoval(ctx context.Context, state *model) (diags diag.Diagnostics) {
	own := state.CurrentHost.ValueString()
	silent, err := r.Data.Storage().SilentUserHosts(ctx, own, state.Pool.ValueString())
	if err == nil {
		err = r.Data.Storage().CheckDelete(ctx, own, state.ref())
	}
	if err != nil {
		diags.Append(state.removalFailure(own, err).Error())
	}
	if f := r.checkCopy(ctx, "delete", state); f != nil {
		diags.Append(f.Error())
	}
	for host, err := range silent {
		f := state.failure("delete", host, err)
		f.Happened = "host " + strconv.Quote(host) + " shares the storage pool and can't be asked whether it uses the volume"
		f.Remedy = "Bring the host back. Or make sure that it is off, then set its fenced = true."
		diags.Append(f.Error())
	}
	diags.Append(r.checkReceivers(ctx, state)...)
	if vm := r.Data.Volumes.Removes(state.saved()); vm != "" {
		diags.Append(meta.RemovedWithDisk(state.ref().String(), vm))
	}
	return diags
}

// checkReceivers returns an error if a VM is to get the volume that is removed. Of a volume that another one of its
// name replaces, the VM gets that one.
func (r *volumeResource) checkReceivers(ctx context.Context, state *model) (diags diag.Diagnostics) {
	s, own, ref := r.Data.Storage(), state.CurrentHost.ValueString(), state.ref()
	if r.Data.Planned.MayHaveVolume(ref) {
		return nil
	}
	removal := storage.Removal{
		Hosts: []string{own}, Path: state.Path.ValueString(), Ref: ref, What: state.noun(),
		Keep: "replace the virtfleet_volume with a removed block that has lifecycle { destroy = false }",
	}
	if users, err := s.UserHosts(ctx, own, ref.Pool); err == nil {
		removal.Hosts = append(removal.Hosts, users.Without(own).Names()...)
	}
	for _, c := range s.Handovers.Remove("volume "+state.id()+" on "+own, []storage.Removal{removal}) {
		f := state.failure("delete", own, nil)
		f.Happened, f.Remedy = c.Detail(), c.Remedy()
		diags.Append(f.Error())
	}
	return diags
}

// changeUsersFirst is what to do about a volume that is in use. Two volumes of a pool can't have one name, so that
// create_before_destroy only helps if the name changes.
const changeUsersFirst = "Change or move what stays and uses it first, in an apply of its own. If the volume is " +
	"replaced and gets another name or pool, lifecycle { create_before_destroy = true } in it changes what uses it in " +
	"the same apply."

// warnOfUsers names what uses a volume that is to be destroyed. A plan isn't told whether that is destroyed, too.
func (r *volumeResource) warnOfUsers(ctx context.Context, state *model) (diags diag.Diagnostics) {
	hosts, err := r.Data.Storage().UserHosts(ctx, state.CurrentHost.ValueString(), state.Pool.ValueString())
	if err != nil {
		return nil // The removal is refused then.
	}
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		return r.Data.Storage().SeenUsers(ctx, h.Name(), state.ref(), false)
	}
	if uses := onhosts.InUse(ctx, hosts, state.noun(), users); len(uses) > 0 {
		// Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Volume is in use: "+state.id(), strings.Join(uses, " ")+" "+
			onhosts.StorageStaysInUse+" "+changeUsersFirst)
	}
	return diags
}

// checkCopy returns a failure if a VM on another host uses a copy of the volume, and nothing uses the volume itself.
// This is the case after a VM was moved with its disks and the source's files were kept. The change would be one of the
// old file.
func (r *volumeResource) checkCopy(ctx context.Context, verb string, state *model) *tfdiag.Failure {
	s, own, ref := r.Data.Storage(), state.CurrentHost.ValueString(), state.ref()
	others := s.Hosts.Present().Without(append(r.Data.Volumes.Hosts(ref.Pool, ref.Name), own)...)
	user, err := s.UserOfCopy(ctx, own, others, ref)
	if user == nil && err == nil {
		return nil
	}
	f := state.failure(verb, own, err)
	if user != nil {
		f.Happened = fmt.Sprintf("On host %q, VM %q uses a volume of this name, and nothing uses the one on host %q. If the "+
			"VM was moved with its disks, this would %s the old file", user.Host, user.VM, own, verb)
		f.Remedy = fmt.Sprintf("If so, check that the VM has its data. Then run \"virsh vol-delete --pool %s %s\" on host "+
			"%q and plan again: the resource then finds the VM's volume. %s", ref.Pool, ref.Name, own, otherwiseBy[verb])
	}
	return &f
}

// otherwiseBy says how to change a volume all the same, if the one of the same name on another host isn't its copy.
var otherwiseBy = map[string]string{
	"grow": "If these are two volumes, there is nothing to do.",
	"delete": "If these are two volumes, take this one out of the state with \"terraform state rm\", and delete it with " +
		"that command.",
}
