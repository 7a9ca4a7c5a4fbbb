package volume

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// privateUsers is the key in private state of the UUIDs of the VMs that used the volume when one was last seen to. They
// tell the volume that was moved with its VM from another one of the same name.
const privateUsers = "users"

// recordUsers records which VMs use the volume. While none does, those that did count: its VM may have left already.
func recordUsers(
	ctx context.Context, s *storage.Storage, found hostset.Answer[libvirt.Volume], to meta.PrivateWriter,
) diag.Diagnostics {
	h, ok := s.Hosts.Host(found.Host)
	if !ok || h.SeenUsing == nil || found.Value.Path == "" {
		return nil
	}
	vms, err := h.SeenUsing(ctx, found.Value.Path)
	if err != nil || len(vms) == 0 {
		return nil
	}
	return meta.WritePrivate(ctx, to, privateUsers, value.Keys(vms))
}

// lastPlace is what the host that had a volume last says about it.
type lastPlace struct {
	// missing says that the host answers and doesn't have the volume; otherwise it is fenced. noPool says that it doesn't
	// have the pool either.
	missing, noPool bool
	// users are the UUIDs of the VMs that used the volume there.
	users []string
	// mounts has the mount point of the volume's directory.
	mounts storage.Mounts
}

// isSame reports whether what another host has is the volume, because all hosts have what the pool has.
func (l lastPlace) isSame(ctx context.Context, s *storage.Storage, pool, last, other string) bool {
	if l.missing && !l.noPool {
		return s.SamePool(ctx, pool, last, other)
	}
	return s.IsShared(ctx, s.Hosts.Named(other), pool)
}

// findMoved returns the volume that a VM has taken to another host, of those that have its name: the VM used it, or is
// one of the configuration, and uses it there. Another volume of the name may be that of another configuration.
func (r *volumeResource) findMoved(
	ctx context.Context, s *storage.Storage, state *model, at lastPlace, has []hostset.Answer[libvirt.Volume],
) (found *hostset.Answer[libvirt.Volume], diags diag.Diagnostics) {
	var moved []hostset.Answer[libvirt.Volume]
	for _, a := range has {
		users, err := s.KnownUsers(ctx, s.Hosts.Named(a.Host), *a.Value)
		if err != nil {
			return nil, diag.Diagnostics{state.failure("read", a.Host, err).Error()}
		}
		if slices.ContainsFunc(users, func(u storage.User) bool {
			_, ours := r.Data.Managed.VM(u.UUID)
			return u.UUID != "" && (ours || slices.Contains(at.users, u.UUID))
		}) {
			moved = append(moved, a)
		}
	}
	if len(moved) == 1 {
		found = &moved[0]
	}
	if at.missing {
		if kept := r.keepMissing(ctx, s, state, at.noPool, found); len(kept) > 0 {
			return nil, kept
		}
	}
	if found == nil {
		return nil, diag.Diagnostics{state.refuseOthers(at, has).Error()}
	}
	return found, nil
}

// refuseOthers returns the failure that a volume is gone, and that nothing shows which volume of its name is this one.
func (m *model) refuseOthers(at lastPlace, has []hostset.Answer[libvirt.Volume]) tfdiag.Failure {
	last := m.CurrentHost.ValueString()
	why := "doesn't have it any more"
	if !at.missing {
		why = "is fenced"
	}
	var others, ids []string
	for _, a := range has {
		others = append(others, fmt.Sprintf("Host %q has a volume of this name at %s.", a.Host, a.Value.Path))
		ids = append(ids, strconv.Quote(a.Host+"/"+m.id()))
	}
	f := m.failure("read", last, nil)
	f.Happened = fmt.Sprintf("Host %q, which had it last, %s. %s It may be another volume: either no VM that is in "+
		"this configuration, or used this volume, uses it there, or several hosts have such a volume. Nothing is changed.",
		last, why, strings.Join(others, " "))
	f.Remedy = fmt.Sprintf("If the hosts have the same storage there, set shared = true in its virtfleet_storage_pool, "+
		"and apply that first, with -target. Otherwise find out where the data is. If the volume was moved or restored "+
		"there, take it out of the state with \"terraform state rm\", and import it with the id %s. If it is "+
		"lost, take it out of the state: the next apply creates it again, without its data.", strings.Join(ids, " or "))
	return f
}

// warnOfNamesakes warns of a new volume that has the name of one on another host, of another configuration or made
// without Terraform. When Terraform plans a change again during an apply, it hasn't sent its state: then the warning
// may be about a volume of this configuration, as far as the apply hasn't made any change yet.
func (r *volumeResource) warnOfNamesakes(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var plan model
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &plan.Name)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("pool"), &plan.Pool)...)
	s, on, ref := r.Data.Storage(), host.ValueString(), plan.ref()
	if on == "" || ref.Pool == "" || ref.Name == "" || r.Data.Applies.Load() || resp.Diagnostics.HasError() {
		return
	}
	others := s.Hosts.Present().Without(append(r.Data.Volumes.Hosts(ref.Pool, ref.Name), on)...)
	var names []string
	for _, a := range hostset.Found(s.SeenVolume(ctx, others, ref)) {
		if !s.SamePool(ctx, ref.Pool, on, a.Host) {
			names = append(names, strconv.Quote(a.Host))
		}
	}
	if len(names) > 0 {
		resp.Diagnostics.AddAttributeWarning(path.Root("name"), "Volume has the name of another one", fmt.Sprintf(
			"%s is planned on host %q. There is a volume of this name on: %s.\n\nIf that isn't one of this configuration, "+
				"choose another name: no VM can move between these hosts with either, and once one of the two is lost, its plan "+
				"fails. If that is this volume, import it instead.", plan.noun(), on, strings.Join(names, ", ")))
	}
}
