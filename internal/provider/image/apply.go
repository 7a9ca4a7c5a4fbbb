package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// targetHosts returns the hosts that a new image is to be on. If hosts isn't set, those are the configured hosts that
// have the pool.
func (r *imageResource) targetHosts(
	ctx context.Context, m *model,
) (targets hostset.Set, diags diag.Diagnostics) {
	targets, diags = onhosts.Targets(r.Data, m.Hosts)
	if diags.HasError() {
		return nil, diags
	}
	with, answers := []string{}, storage.PoolOn(ctx, targets, m.Pool.ValueString())
	for _, a := range answers {
		switch {
		case a.Err != nil && m.Hosts.IsNull():
			f := m.failure("look for the storage pool of", a.Err)
			f.Host, f.Happened = a.Host, "left out; the next plan shows it as an update if it has the pool"
			diags.Append(f.Warning())
		case a.Value != nil:
			with = append(with, a.Host)
		}
	}
	if m.Hosts.IsNull() {
		targets = targets.Named(with...)
	}
	if len(with) == 0 {
		err := fmt.Errorf("%w: no host has a storage pool %q", libvirt.ErrNotFound, m.Pool.ValueString())
		silent := hostset.Silent(answers)
		for _, host := range value.Keys(silent) {
			err = errors.Join(err, silent[host])
		}
		diags.Append(m.failure("create", err).AttributeError(path.Root("pool")))
	}
	return targets, diags
}

// sendTo sends the image to hosts.
func (r *imageResource) sendTo(
	ctx context.Context, targets hostset.Set, m *model, fetched *storage.Image,
) (failed map[string]error) {
	written := r.Data.Written.Writing(TypeName, m.ID.ValueString())
	defer func() { written(targets.Without(value.Keys(failed)...).Names()) }()
	return r.Data.Storage().Put(ctx, targets, m.ref(), fetched)
}

// remove removes a copy from hosts, or from none of them if it is in use on one. It stays where this run has written it
// for another resource, and in pools that staying shares. written are the hosts where it stays for another resource.
func (r *imageResource) remove(
	ctx context.Context, hosts, staying hostset.Set, ref storage.Ref,
) (left onhosts.Removal, written []string) {
	s := r.Data.Storage()
	written, with, removed := r.removing(hosts, staying, ref)
	defer removed()
	check := func(ctx context.Context, of hostset.Set) map[string]error { return s.CheckCopies(ctx, of, with, ref) }
	remove := func(ctx context.Context, of hostset.Set) map[string]error { return s.RemoveCopies(ctx, of, with, ref) }
	return onhosts.RemoveTogether(ctx, hosts.Without(written...), check, remove), written
}

// removing must be called before a copy is removed from hosts, and removed afterwards. It returns those of the hosts on
// which this run has written the copy for another resource, and the hosts whose shared pools keep it.
func (r *imageResource) removing(
	hosts, staying hostset.Set, ref storage.Ref,
) (written []string, with hostset.Set, removed func()) {
	all, removed := r.Data.Written.Removing(TypeName, ref.String())
	with = r.Data.Fleet.Connections().Named(append(all, staying.Names()...)...)
	return hosts.Named(all...).Names(), with, removed
}

// source returns the image's source. It accepts only formats that all pools of the hosts can have.
func (r *imageResource) source(ctx context.Context, targets hostset.Set, m *model) storage.Source {
	source := m.Source.storage()
	source.Accepts = func(format string) error {
		for _, a := range hostset.Found(storage.PoolOn(ctx, targets, m.Pool.ValueString())) {
			if err := a.Value.CheckImage(format); err != nil {
				return err
			}
		}
		return nil
	}
	return source
}

// lacksCopy reports whether a host has no complete copy.
func lacksCopy(targets hostset.Set, states types.Map) bool {
	return len(withoutCopy(targets, states)) > 0
}

// withoutCopy returns the hosts that have no complete copy.
func withoutCopy(targets hostset.Set, states types.Map) hostset.Set {
	var have []string
	for host, state := range value.StringMap(states) {
		if state == onhosts.Present {
			have = append(have, host)
		}
	}
	return targets.Without(have...)
}

// fetchAndSend fetches the image and sends it to the hosts that lack it.
func (r *imageResource) fetchAndSend(
	ctx context.Context, targets hostset.Set, plan, state *model, n *notes,
) (failed map[string]error, diags diag.Diagnostics) {
	now := notesOf(plan.Source)
	fetched, err := storage.Fetch(ctx, r.source(ctx, targets, plan), r.Data.Fleet.Logger())
	if err != nil {
		diags.Append(plan.fetchFailure(ctx, err))
		return nil, diags
	}
	defer func() { _ = fetched.Close() }()
	if !plan.SHA256.IsUnknown() && !plan.SHA256.IsNull() && plan.SHA256.ValueString() != fetched.SHA256 {
		f := plan.failure("update", fmt.Errorf("%w: the source has other content than it had (SHA-256 %s, it was %s)",
			storage.ErrChecksum, fetched.SHA256, plan.SHA256.ValueString()))
		f.Remedy = "Set source.checksum, or change source, to have the new content as a new copy."
		diags.Append(f.AttributeError(path.Root("source")))
		return nil, diags
	}
	imported := state.Volume.ValueString()
	if state.SHA256.IsNull() && fetched.Volume(plan.Name.ValueString()) != imported {
		f := plan.failure("update", fmt.Errorf("%w: the imported copy is %s, which is named after its SHA-256, and the "+
			"source has %s", storage.ErrChecksum, imported, fetched.SHA256))
		f.Remedy = "Set source to where the content of the copy comes from. To have the new content, run \"terraform state " +
			"rm\" for the image, and apply: the imported copy stays on its hosts."
		diags.Append(f.AttributeError(path.Root("source")))
		return nil, diags
	}
	plan.setFromInfo(fetched.ImageInfo)
	diags.Append(plan.warnOdd(fetched.Format, fetched.Bytes)...)
	now.Seal = fetched.Seal
	failed = r.sendTo(ctx, targets, plan, fetched)
	now.Mounts = r.mountsOf(ctx, targets, plan, n.Mounts)
	*n = now
	return failed, diags
}

// removeFromLeaving removes the copy from the hosts that are no longer targets, and adds those that keep it to the
// plan's host_states.
func (r *imageResource) removeFromLeaving(
	ctx context.Context, targets hostset.Set, plan, state *model,
) (diags diag.Diagnostics) {
	leaving := onhosts.Leaving(r.Data, state.HostStates, targets)
	left, _ := r.remove(ctx, leaving, targets, state.ref())
	for _, host := range value.Keys(left.Failed) {
		f := plan.failure("remove", left.Failed[host])
		f.Host, f.Happened = host, left.KeptText(state.HostStates)
		diags.Append(f.Error())
	}
	plan.HostStates = onhosts.StillThere(plan.HostStates, left.Left(), state.HostStates)
	return diags
}

// removeSuperseded removes copies of earlier content, and sets the plan's superseded to those that remain. sent says
// that all targets have the content of the plan: then the state's copies are of earlier content, too, and the next
// apply no longer asks the hosts that the image has left.
func (r *imageResource) removeSuperseded(
	ctx context.Context, plan, state *model, sent bool,
) (diags diag.Diagnostics) {
	known, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	names, asked := value.StringList(state.Superseded), known
	if sent {
		asked, _ = onhosts.Known(r.Data, plan.Hosts, plan.HostStates)
		if state.Volume.ValueString() != plan.Volume.ValueString() {
			names = append(names, state.Volume.ValueString())
		}
	}
	plan.Superseded = r.removeOld(ctx, known, asked, plan, names, &diags)
	return diags
}

// setFromFailed sets what an update has changed that couldn't send the content of the plan to all hosts. These still
// have the old copies. Some have the new one: if its content isn't declared again, it is removed.
func (m *model) setFromFailed(plan *model) {
	m.HostStates, m.Superseded = plan.HostStates, plan.Superseded
	if left := plan.Volume.ValueString(); left != m.Volume.ValueString() {
		m.Superseded = value.NewStringList(append(value.StringList(plan.Superseded), left))
	}
}

// removeUnused removes a copy of earlier content from the hosts on which no disk is based on it.
func (r *imageResource) removeUnused(ctx context.Context, hosts hostset.Set, ref storage.Ref) map[string]error {
	written, with, removed := r.removing(hosts, nil, ref)
	defer removed()
	return r.Data.Storage().RemoveCopies(ctx, hosts.Without(written...), with, ref)
}

// removeOld removes copies of earlier content that no disk is based on, and returns the names of the remaining ones.
// asked are the hosts on which the next apply looks for these: it no longer sees what remains on the others.
func (r *imageResource) removeOld(
	ctx context.Context, hosts, asked hostset.Set, m *model, names []string, diags *diag.Diagnostics,
) types.List {
	kept := []string{}
	for _, name := range names {
		if name == m.Volume.ValueString() {
			continue // This content is declared again.
		}
		ref := storage.Ref{Pool: m.Pool.ValueString(), Name: name}
		failed := r.removeUnused(ctx, hosts, ref)
		if len(asked.Named(value.Keys(failed)...)) > 0 {
			kept = append(kept, name)
		}
		for _, host := range value.Keys(failed) {
			f := m.failure("remove the earlier copy of", failed[host])
			f.Host, f.Happened = host, fmt.Sprintf("volume %q is kept", name)
			f.Remedy = "It is removed by an apply once no disk is based on it and all hosts answer."
			if _, ok := asked.Host(host); !ok {
				f.Remedy = fmt.Sprintf("The image is no longer on this host, so no apply removes it there. Once no disk is "+
					"based on it, run \"virsh vol-delete --pool %s %s\" on the host.", ref.Pool, name)
			}
			diags.Append(f.Warning())
		}
	}
	return value.NewStringList(kept)
}

// leftBy says which copy a destroy can't remove, and what it has removed: gone are the hosts that no longer have it.
func (m *model) leftBy(ref storage.Ref, left onhosts.Removal, gone hostset.Set) string {
	text := fmt.Sprintf("volume %q is kept", ref)
	if ref.Name != m.Volume.ValueString() {
		return text + ". It has earlier content of the image. The copies of the current content stay, too"
	}
	if kept := left.KeptText(m.HostStates); kept != "" {
		text += ". " + kept
	}
	if len(gone) > 0 {
		text += ". It is removed from " + strings.Join(gone.Names(), ", ")
	}
	return text
}
