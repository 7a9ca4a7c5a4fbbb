package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_image"

const (
	noun = "image"
	// defaultTimeout is for fetching and sending the image.
	defaultTimeout       = time.Hour
	defaultDeleteTimeout = 20 * time.Minute
)

var (
	_ resource.ResourceWithConfigure   = (*imageResource)(nil)
	_ resource.ResourceWithImportState = (*imageResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*imageResource)(nil)
)

type imageResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return &imageResource{Resource: meta.Resource{TypeName: TypeName}}
}

// Create fetches the image and sends it to every host that has the pool.
func (r *imageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := r.targetHosts(ctx, &plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	n := notesOf(plan.Source)
	fetched, err := storage.Fetch(ctx, r.source(ctx, targets, &plan), r.Data.Fleet.Logger())
	if err != nil {
		resp.Diagnostics.Append(plan.fetchFailure(ctx, err))
		return
	}
	defer func() { _ = fetched.Close() }()
	plan.setFromInfo(fetched.ImageInfo)
	resp.Diagnostics.Append(plan.warnOdd(fetched.Format, fetched.Bytes)...)
	failed := r.sendTo(ctx, targets, &plan, fetched)
	if len(failed) == len(targets) {
		resp.Diagnostics.Append(onhosts.Failures("create", plan.noun(), failed)...)
		return
	}
	resp.Diagnostics.Append(onhosts.Warnings("create", plan.noun(), failed)...)
	plan.Superseded = value.NewStringList([]string{})
	plan.HostStates = onhosts.StatesAfter(targets, failed, types.MapNull(types.StringType), onhosts.Present)
	n.Seal = fetched.Seal
	n.Mounts = r.mountsOf(ctx, targets, &plan, nil)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, notesKey, n)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Read reads the copies on every host that has the pool.
func (r *imageResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	var n notes
	_, diags := meta.ReadPrivate(ctx, req.Private, notesKey, &n)
	resp.Diagnostics.Append(diags...)
	s := r.Data.Storage()
	hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	r.Data.Fleet.ReadAhead(hosts.Names())
	answers := s.Copies(ctx, hosts, state.ref(), n.Seal)
	n.Mounts = reviewMounts(ctx, hosts, state.Pool.ValueString(), answers, n.Mounts)
	if state.Hosts.IsNull() {
		answers = withPool(answers)
	}
	seen, diags := onhosts.Observe(onhosts.Question[storage.ImageCopy]{
		Data: r.Data, Noun: state.noun(), Hosts: state.Hosts, Last: state.HostStates, Answers: answers, State: copyState,
	})
	resp.Diagnostics.Append(diags...)
	imported := state.Source == nil // So it stays until the first apply.
	importing := imported && state.HostStates.IsNull()
	if len(answers) == 0 && !importing {
		return // No host has the pool, so the copies are unknown.
	}
	removable := r.reviewSuperseded(ctx, s, hosts, &state)
	// An earlier copy that disks are still based on is in no other state, so nothing else would remove it.
	seen.Gone = seen.Gone && len(state.Superseded.Elements()) == 0
	if seen.Concludes(ctx, resp, noun, state.ID.ValueString(), importing) {
		return
	}
	state.HostStates = value.NewStringMap(seen.States)
	if imported {
		found := seen.Found[0].Value
		state.Format = types.StringValue(found.Format)
		state.VirtualSize = value.NewQuantityFromBytes(found.CapacityBytes)
		state.Superseded = value.NewStringList([]string{})
	}
	n, _ = n.checked(ctx, state.Source, state.SHA256.ValueString())
	n.Removable = removable
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, notesKey, n)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// reviewMounts returns the mount points of the copies that were found. A copy that isn't there gets an error if its
// filesystem isn't mounted any more.
func reviewMounts(
	ctx context.Context, hosts hostset.Set, pool string, answers []hostset.Answer[storage.ImageCopy], last storage.Mounts,
) storage.Mounts {
	files := map[string]string{}
	for _, a := range answers {
		if a.Value != nil {
			files[a.Host] = a.Value.Path
		} else if a.Err == nil {
			files[a.Host] = ""
		}
	}
	now, gone := last.Review(ctx, hosts, pool, files)
	for i, a := range answers {
		answers[i].Err = cmp.Or(a.Err, gone[a.Host])
	}
	return now
}

// mountsOf returns the mount points of the copies that were just written.
func (r *imageResource) mountsOf(
	ctx context.Context, hosts hostset.Set, m *model, last storage.Mounts,
) storage.Mounts {
	return reviewMounts(ctx, hosts, m.Pool.ValueString(), r.Data.Storage().Copies(ctx, hosts, m.ref(), nil), last)
}

func copyState(c storage.ImageCopy) string {
	if c.Incomplete {
		return partial
	}
	return onhosts.Present
}

// withPool drops the answers of hosts that don't have the pool, and so can't have a copy.
func withPool[T any](answers []hostset.Answer[T]) (with []hostset.Answer[T]) {
	for _, a := range answers {
		if !errors.Is(a.Err, libvirt.ErrNoPool) {
			with = append(with, a)
		}
	}
	return with
}

// reviewSuperseded forgets earlier copies that are gone, and records whether one can be removed.
func (r *imageResource) reviewSuperseded(
	ctx context.Context, s *storage.Storage, hosts hostset.Set, state *model,
) (removable bool) {
	left := []string{}
	for _, name := range value.StringList(state.Superseded) {
		ref := storage.Ref{Pool: state.Pool.ValueString(), Name: name}
		answers := s.Volume(ctx, hosts, ref)
		if state.Hosts.IsNull() {
			answers = withPool(answers)
		}
		found := hostset.Found(answers)
		if len(found) == 0 && len(hostset.Silent(answers)) == 0 {
			continue
		}
		left = append(left, name)
		for _, a := range found {
			sharing, err := s.UserHosts(ctx, a.Host, ref.Pool)
			if err != nil {
				continue
			}
			removable = removable || s.Unused(ctx, sharing, *a.Value)
		}
	}
	state.Superseded = value.NewStringList(left)
	return removable
}

// Update sends the image to hosts that lack it, and new content to all of them.
func (r *imageResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets := r.Data.Fleet.Connections().Named(value.Keys(value.StringMap(plan.HostStates))...)
	var n notes
	_, diags := meta.ReadPrivate(ctx, req.Private, notesKey, &n)
	resp.Diagnostics.Append(diags...)
	failed := map[string]error{}
	if plan.SHA256.IsUnknown() || lacksCopy(targets, state.HostStates) {
		failed, diags = r.fetchAndSend(ctx, targets, &plan, &state, &n)
		if resp.Diagnostics.Append(diags...); diags.HasError() {
			return
		}
		resp.Diagnostics.Append(onhosts.Failures("update", plan.noun(), failed)...)
	}
	plan.HostStates = onhosts.StatesAfter(targets, failed, state.HostStates, onhosts.Present)
	resp.Diagnostics.Append(r.removeFromLeaving(ctx, targets, &plan, &state)...)
	if plan.Superseded.IsUnknown() { // Otherwise the plan says that they stay, even if they can be removed by now.
		resp.Diagnostics.Append(r.removeSuperseded(ctx, &plan, &state, len(failed) == 0)...)
	}
	if len(failed) > 0 {
		state.setFromFailed(&plan)
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return
	}
	n.Removable = false
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, notesKey, n)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete removes the copies. If a disk is based on a copy, the destroy fails, and no host's copy is removed. A copy
// that this run has written for another resource stays. While an earlier copy can't be removed, the current ones stay,
// too: the image then isn't half gone, and its state remains.
func (r *imageResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultDeleteTimeout, &resp.Diagnostics)
	defer cancel()
	hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	for _, name := range append(value.StringList(state.Superseded), state.Volume.ValueString()) {
		if name == state.Volume.ValueString() && resp.Diagnostics.HasError() {
			return
		}
		ref := storage.Ref{Pool: state.Pool.ValueString(), Name: name}
		left, kept := r.remove(ctx, hosts, nil, ref)
		gone := hosts.Named(onhosts.Having(state.HostStates)...).Without(append(left.Left(), kept...)...)
		for _, host := range value.Keys(left.Failed) {
			f := state.failure("delete", left.Failed[host])
			f.Happened = state.leftBy(ref, left, gone)
			if f.Host = host; errors.Is(f.Err, storage.ErrInUse) {
				f.Remedy = "Apply again once nothing uses it. If another resource has the image now, because the resource was " +
					"renamed or has another key in for_each, " +
					"remove this one with \"terraform state rm\". A moved block avoids that."
			}
			resp.Diagnostics.Append(f.Error())
		}
		for _, host := range kept {
			resp.Diagnostics.Append(meta.KeptForAnother(state.noun(), host))
		}
	}
}

var copyName = regexp.MustCompile(`^([^/]+)/((.+)-[0-9a-f]{12})$`)

// ImportState accepts "<pool>/<volume>". The configuration must have the image's source; the next apply fetches the
// image once to verify that it is the same.
func (*imageResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	parts := copyName.FindStringSubmatch(req.ID)
	if parts == nil {
		resp.Diagnostics.AddError("Unable to import image", fmt.Sprintf(
			"%q is not <pool>/<name>-<first 12 digits of its SHA-256>.", req.ID))
		return
	}
	for name, v := range map[string]string{"id": req.ID, "pool": parts[1], "volume": parts[2], "name": parts[3]} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), v)...)
	}
}
