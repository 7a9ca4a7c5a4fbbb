package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_image"

const (
	noun = "image"
	// defaultTimeout is for fetching and sending the image.
	defaultTimeout = time.Hour
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

// ModifyPlan plans that every host has its copy, and that new content gets new names.
func (r *imageResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if !r.Plans(noun, req, resp) {
		return
	}
	var hosts types.Set
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(onhosts.HostsName), &hosts)...)
	targets, diags := onhosts.Targets(r.Data, hosts)
	resp.Diagnostics.Append(diags...)
	var planned types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("source"), &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.checkPool(ctx, req.Plan, targets)...)
		resp.Diagnostics.Append(r.checkFormat(ctx, req.Plan, targets, planned, "")...)
		resp.Diagnostics.Append(checkAvailable(ctx, planned)...)
		return
	}
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	var before types.Object
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("source"), &before)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if hosts.IsNull() {
		// These are the hosts that had the pool at the last read, or those where the pool is planned.
		names := value.Keys(value.StringMap(state.HostStates))
		if pool, ok := r.Data.Planned.Hosts(status.StoragePool, state.Pool.ValueString()); ok {
			names = pool
		}
		targets = targets.Named(names...)
	}
	set := func(name string, v any) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), v)...)
	}
	set(onhosts.StatesName, onhosts.PlanStates(targets, hosts, onhosts.Present))
	var n notes
	_, diags = meta.ReadPrivate(ctx, req.Private, notesKey, &n)
	resp.Diagnostics.Append(diags...)
	set("superseded", state.Superseded)
	if _, stale := n.checked(state.Source, state.SHA256.ValueString()); stale || !planned.Equal(before) {
		for _, name := range []string{"id", "volume", "sha256", "format"} {
			set(name, types.StringUnknown())
		}
		set("virtual_size", value.NewQuantityUnknown())
		set("superseded", types.ListUnknown(types.StringType))
		resp.Diagnostics.Append(r.checkFormat(ctx, req.Plan, targets, planned, "")...)
		resp.Diagnostics.Append(checkAvailable(ctx, planned)...)
	} else {
		if n.Removable {
			set("superseded", types.ListUnknown(types.StringType))
		}
		_, poolPlanned := r.Data.Planned.Hosts(status.StoragePool, state.Pool.ValueString())
		if poolPlanned || lacksCopy(targets, state.HostStates) {
			resp.Diagnostics.Append(r.checkFormat(ctx, req.Plan, targets, planned, state.Format.ValueString())...)
		}
	}
}

// checkFormat refuses an image that the pools of the hosts can't have, as far as the plan knows its format: it is that
// of the state, if not "", or in the header of a local file. An apply checks every image before it downloads all of it.
func (r *imageResource) checkFormat(
	ctx context.Context, plan tfsdk.Plan, targets hostset.Set, source types.Object, format string,
) (diags diag.Diagnostics) {
	var m model
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &m.Name)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &m.Pool)...)
	file, _ := source.Attributes()["file"].(types.String)
	if format == "" && file.ValueString() != "" {
		var err error
		format, err = storage.FileFormat(file.ValueString())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // The file may be created before the image.
			diags.Append(m.failure("fetch", err).AttributeError(path.Root("source")))
		}
	}
	if diags.HasError() || format == "" || m.Pool.IsUnknown() {
		return diags
	}
	for host, pool := range r.plannedPools(ctx, targets, m.Pool.ValueString()) {
		if err := pool.CheckImage(format); err != nil {
			f := m.failure("create", err)
			f.Host = host
			diags.Append(f.AttributeError(path.Root("pool")))
		}
	}
	return diags
}

// availableTimeout is how long a plan waits for the answers of the image's servers.
const availableTimeout = 10 * time.Second

// checkAvailable returns a warning if a server refuses to send the image or its checksum file, or if the local file isn't
// there. The same apply may put it there, so that is no error.
func checkAvailable(ctx context.Context, planned types.Object) (diags diag.Diagnostics) {
	var source sourceModel
	diags = planned.As(ctx, &source, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true})
	if diags.HasError() {
		return diags
	}
	ctx, cancel := context.WithTimeout(ctx, availableTimeout)
	defer cancel()
	if err := source.storage().CheckAvailable(ctx); err != nil {
		diags.AddAttributeWarning(path.Root("source"), "Image source not available", fmt.Sprintf(
			"The plan found: %s. The apply fails unless that changes before.\n\n%s", err, unavailableRemedy(err)))
	}
	return diags
}

// plannedPools returns the pool of each host as it is planned, or else as the host has it: the same apply may create or
// replace it. Pools whose type isn't known yet are left out.
func (r *imageResource) plannedPools(
	ctx context.Context, targets hostset.Set, name string,
) map[string]storage.Pool {
	pools := map[string]storage.Pool{}
	for _, host := range targets.Names() {
		if pool, ok := r.Data.Planned.Pool(host, name); ok {
			pools[host] = pool
		}
	}
	rest := targets.Without(slices.Collect(maps.Keys(pools))...)
	for _, a := range hostset.Found(r.Data.Storage().Pool(ctx, rest, name)) {
		pools[a.Host] = a.Value.Pool
	}
	maps.DeleteFunc(pools, func(_ string, p storage.Pool) bool { return p.Type == "" })
	return pools
}

// checkPool returns an error if no host has the image's pool and the same apply doesn't create it.
func (r *imageResource) checkPool(
	ctx context.Context, plan tfsdk.Plan, targets hostset.Set,
) (diags diag.Diagnostics) {
	var m model
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &m.Name)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &m.Pool)...)
	if diags.HasError() || m.Pool.IsUnknown() {
		return diags
	}
	if r.Data.Planned.HasPool(m.Pool.ValueString()) {
		return diags
	}
	if _, err := r.Data.Storage().CheckPool(ctx, targets, m.Pool.ValueString()); err != nil {
		f := m.failure("create", err)
		f.Remedy = onhosts.PoolRemedy
		diags.Append(f.AttributeError(path.Root("pool")))
	}
	return diags
}

// Create fetches the image and sends it to every host that has the pool.
func (r *imageResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	timeout, diags := plan.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	targets, shared, diags := r.targetHosts(ctx, &plan)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	n := notesOf(plan.Source)
	fetched, err := storage.Fetch(ctx, r.source(ctx, targets, &plan), r.Data.Fleet.Logger())
	if err != nil {
		resp.Diagnostics.Append(plan.fetchFailure(err))
		return
	}
	defer func() { _ = fetched.Close() }()
	plan.setFromInfo(fetched.ImageInfo)
	failed := r.sendTo(ctx, targets, shared, &plan, fetched)
	if len(failed) == len(targets) {
		resp.Diagnostics.Append(onhosts.Failures("create", plan.noun(), failed)...)
		return
	}
	resp.Diagnostics.Append(onhosts.Warnings("create", plan.noun(), failed)...)
	plan.Superseded = value.NewStringList([]string{})
	plan.HostStates = onhosts.StatesAfter(targets, failed, types.MapNull(types.StringType), onhosts.Present)
	n.Seal = fetched.Seal
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
	answers := s.Copies(ctx, hosts, state.ref(), n.Seal)
	if state.Hosts.IsNull() {
		answers = withPool(answers)
	}
	seen, diags := onhosts.Observe(onhosts.Question[storage.Copy]{
		Data: r.Data, Noun: state.noun(), Hosts: state.Hosts, Last: state.HostStates, Answers: answers, State: copyState,
	})
	resp.Diagnostics.Append(diags...)
	imported := state.Source == nil
	if len(answers) == 0 && !imported {
		return // No host has the pool, so the copies are unknown.
	}
	if seen.Concludes(ctx, resp, noun, state.ID.ValueString(), imported) {
		return
	}
	state.HostStates = value.NewStringMap(seen.States)
	if imported {
		found := seen.Found[0].Value
		state.Format = types.StringValue(found.Format)
		state.VirtualSize = value.NewQuantityFromBytes(found.CapacityBytes)
		state.Superseded = value.NewStringList([]string{})
	}
	n, _ = n.checked(state.Source, state.SHA256.ValueString())
	n.Removable = r.reviewSuperseded(ctx, s, hosts, &state)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, notesKey, n)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func copyState(c storage.Copy) string {
	if c.Incomplete {
		return partial
	}
	return onhosts.Present
}

// withPool drops the answers of hosts that don't have the pool, and so can't have a copy.
func withPool(answers []hostset.Answer[storage.Copy]) (with []hostset.Answer[storage.Copy]) {
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
		found := hostset.Found(answers)
		if len(found) == 0 && len(hostset.Silent(answers)) == 0 {
			continue
		}
		left = append(left, name)
		for _, a := range found {
			h, _ := hosts.Host(a.Host)
			if users, err := s.Users(ctx, hostset.NewSet(h), *a.Value); err == nil && len(users) == 0 {
				removable = true
			}
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
	timeout, diags := plan.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	targets := r.Data.Fleet.Connections().Named(value.Keys(value.StringMap(plan.HostStates))...)
	var n notes
	_, diags = meta.ReadPrivate(ctx, req.Private, notesKey, &n)
	resp.Diagnostics.Append(diags...)
	failed := map[string]error{}
	if plan.SHA256.IsUnknown() || lacksCopy(targets, state.HostStates) {
		if failed, diags = r.fetchAndSend(ctx, targets, &plan, &n); diags.HasError() {
			resp.Diagnostics.Append(diags...)
			return
		}
		resp.Diagnostics.Append(onhosts.Failures("update", plan.noun(), failed)...)
	}
	old := value.StringList(state.Superseded)
	if len(failed) == 0 && state.Volume.ValueString() != plan.Volume.ValueString() {
		old = append(old, state.Volume.ValueString())
	}
	known, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	plan.Superseded = r.removeOld(ctx, known, &plan, old, &resp.Diagnostics)
	leaving := onhosts.Leaving(r.Data, state.HostStates, targets)
	left := r.removeFrom(ctx, leaving, state.ref())
	resp.Diagnostics.Append(onhosts.Failures("remove", plan.noun(), left)...)
	plan.HostStates = onhosts.StatesAfter(targets, failed, state.HostStates, onhosts.Present)
	plan.HostStates = onhosts.StillThere(plan.HostStates, left, state.HostStates)
	if len(failed) > 0 {
		// The hosts still have the old copies.
		state.HostStates, state.Superseded = plan.HostStates, plan.Superseded
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
		return
	}
	n.Removable = false
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, notesKey, n)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete removes the copies that no disk is based on. If a disk is based on a copy, the destroy fails.
func (r *imageResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	for _, name := range append(value.StringList(state.Superseded), state.Volume.ValueString()) {
		failed := r.removeFrom(ctx, hosts, storage.Ref{Pool: state.Pool.ValueString(), Name: name})
		resp.Diagnostics.Append(onhosts.Failures("delete", state.noun(), failed)...)
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
