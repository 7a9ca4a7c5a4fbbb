package storagepool

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
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

// ModifyPlan plans that the pool is active on every host, which repairs pools that aren't, and warns about what uses a
// pool that is to be removed.
func (r *poolResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	var state model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	if req.Plan.Raw.IsNull() {
		resp.Diagnostics.Append(r.refuseRemoval(ctx, &state, req.Private)...)
		resp.Diagnostics.Append(r.warnOfUsers(ctx, &state, true, "", types.Set{}, nil)...)
	}
	if !r.Plans(noun, req, resp) {
		return
	}
	var config, whole model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &whole)...)
	resp.Diagnostics.Append(planUndeclared(ctx, &config, &state, &resp.Plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan := *whole.declaredOnly(&config)
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	pool, diags := plan.pool(ctx)
	resp.Diagnostics.Append(diags...)
	if onhosts.Undecided(plan.Hosts) {
		r.Data.Planned.PlanPoolSomewhere(pool.Name)
	} else {
		r.Data.Planned.PlanPool(pool, targets.Names())
	}
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.planNew(ctx, &plan, pool, targets)...)
		return
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(onhosts.StatesName),
		onhosts.PlanStates(targets, plan.Hosts, state.HostStates, onhosts.Active))...)
	before, diags := state.pool(ctx)
	resp.Diagnostics.Append(diags...)
	var left []string
	other := ""
	if plan.Name.Equal(state.Name) {
		other = pool.OtherStorage(before)
	}
	if other != "" || pool.Directory() != before.Directory() {
		left = r.planChanges(ctx, pool, &state)
	}
	resp.Diagnostics.Append(checkLabel(ctx, "update", pool, targets)...)
	replaced := !plan.Name.Equal(state.Name) || !plan.Type.Equal(state.Type)
	if plan.Name.Equal(state.Name) {
		r.planHosts(&plan, state.HostStates, targets)
	}
	if replaced {
		resp.Diagnostics.Append(r.refuseRemoval(ctx, &state, req.Private)...)
	}
	resp.Diagnostics.Append(r.warnOfUsers(ctx, &state, replaced, other, plan.Hosts, targets)...)
	if replaced {
		r.Data.Planned.PlanPoolReplaced(state.Name.ValueString())
		return
	}
	resp.Diagnostics.Append(r.checkInCommon(ctx, pool, gets(pool, before, targets, state.HostStates), plan.Hosts)...)
	c := r.removal(pool.Name, nil, req.Private)
	resp.Diagnostics.Append(c.CheckJoining(ctx, targets, plan.Hosts, state.HostStates)...)
	isOutdated := slices.Contains(slices.Collect(maps.Values(value.StringMap(state.HostStates))), outdated)
	if isOutdated || mayRedefine(ctx, &plan, &state) {
		effect := "Running VMs don't notice."
		if pool.LosesVolumes() {
			effect = "Meanwhile its hosts can't use its volumes. Shut down the VMs that use them first: otherwise the apply " +
				"fails."
		}
		volumes := "Its volumes are not moved."
		if other != "" {
			volumes = "Its volumes are not moved: with " + other + ", it doesn't have them any more."
		}
		resp.Diagnostics.AddWarning("Storage pool will be stopped and started", fmt.Sprintf("The definition of %s %q "+
			"changes in place, for which the pool is stopped and started. %s %s%s",
			noun, plan.Name.ValueString(), volumes, effect, strings.Join(left, "")))
	}
}

// planNew records which hosts get a new pool, and checks that they can.
func (r *poolResource) planNew(
	ctx context.Context, plan *model, pool storage.Pool, targets hostset.Set,
) (diags diag.Diagnostics) {
	r.planHosts(plan, types.MapNull(types.StringType), targets)
	diags.Append(plan.lacks("source.")...)
	diags.Append(checkLabel(ctx, "create", pool, targets)...)
	diags.Append(r.checkInCommon(ctx, pool, targets, plan.Hosts)...)
	if pool.Name != "" {
		c := r.removal(pool.Name, nil, nil)
		diags.Append(c.CheckNew(ctx, targets, plan.Hosts, path.Root("name"))...)
	}
	return diags
}

// mayRedefine reports whether the apply may give hosts another definition of the pool. What isn't declared any more
// stays as it is there: that needs no other definition.
func mayRedefine(ctx context.Context, plan, state *model) bool {
	if state.Target.Equal(plan.Target) && state.Source.Equal(plan.Source) {
		return false
	}
	for _, part := range []types.Object{plan.Target, plan.Source} {
		if raw, err := part.ToTerraformValue(ctx); err != nil || !raw.IsFullyKnown() {
			return true
		}
	}
	wanted, diags := plan.pool(ctx)
	is, more := state.pool(ctx)
	return diags.HasError() || more.HasError() || !wanted.Mounted().IsIn(is)
}

// planHosts records which hosts get the pool and which it leaves. last are the host_states in the state, null for a new
// pool.
func (r *poolResource) planHosts(plan *model, last types.Map, targets hostset.Set) {
	if onhosts.Undecided(plan.Hosts) {
		return
	}
	var working []string
	for host, is := range value.StringMap(last) {
		if is == onhosts.Active {
			working = append(working, host)
		}
	}
	leaving := onhosts.Leaving(r.Data, last, targets)
	r.Data.Planned.PlanPoolHosts(
		plan.Name.ValueString(), targets.Names(), targets.Without(working...).Names(), leaving.Names())
}

// refuseRemoval returns an error if the pool is to be removed together with storage that can't be removed, or that
// isn't what the resource created.
func (r *poolResource) refuseRemoval(
	ctx context.Context, state *model, private meta.PrivateReader,
) diag.Diagnostics {
	if state.OnDestroy.ValueString() != onDestroyDelete {
		return nil
	}
	pool, diags := state.pool(ctx)
	if err := pool.CheckRemovable(); err != nil {
		diags.Append(tfdiag.Failure{Verb: "delete", Noun: state.noun(), Err: err}.Error())
	}
	if r.Data == nil || r.Data.Unknown || diags.HasError() {
		return diags
	}
	origin, more := originOf(ctx, private)
	diags.Append(more...)
	hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	for _, a := range hostset.Found(storage.PoolOn(ctx, hosts, pool.Name)) {
		if err := origin.Check(a.Host, a.Value.UUID, a.Value.Pool); err != nil {
			diags.Append(tfdiag.Failure{Verb: "delete", Noun: state.noun(), Host: a.Host, Err: err}.Error())
		}
	}
	return diags
}

// planChanges records on which hosts the pool leaves its volumes, and returns a line about those of each. Each host is
// asked, because the state has the settings of only one of those that differ.
func (r *poolResource) planChanges(ctx context.Context, pool storage.Pool, state *model) (left []string) {
	var leaving []string
	hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
	for _, a := range hostset.Found(storage.PoolOn(ctx, hosts, state.Name.ValueString())) {
		was := a.Value.Live
		change := meta.PoolChange{OtherStorage: pool.OtherStorage(was)}
		from, to := was.Directory(), pool.Directory()
		if from != "" && to != "" && filepath.Clean(from) != filepath.Clean(to) {
			change.From, change.To = from, to
		}
		if pool.Name == was.Name && change != (meta.PoolChange{}) {
			r.Data.Planned.PlanPoolChange(a.Host, pool.Name, change)
			// A filesystem that is mounted elsewhere takes them along.
			if change.OtherStorage != "" || !was.LosesVolumes() {
				leaving = append(leaving, a.Host)
			}
		}
	}
	answers := hostset.Ask(ctx, hosts.Named(leaving...), func(ctx context.Context, h *libvirt.Host) (*[]string, error) {
		names, err := h.VolumeNames(ctx, pool.Name)
		return &names, err
	})
	for _, a := range hostset.Found(answers) {
		if names := *a.Value; len(names) > 0 {
			slices.Sort(names)
			left = append(left, fmt.Sprintf("\n  - %d volumes stay behind on host %s: %s", len(names), a.Host, someOf(names)))
		}
	}
	return left
}

// someOf returns the first names of a list.
func someOf(names []string) string {
	const most = 5
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// warnOfUsers lists the VMs that use a pool which is to be removed from hosts, or to be one of other storage, and says
// what becomes of them.
func (r *poolResource) warnOfUsers(
	ctx context.Context, state *model, removed bool, other string, planned types.Set, targets hostset.Set,
) (diags diag.Diagnostics) {
	if r.Data == nil || r.Data.Unknown {
		return nil
	}
	pool, diags := state.pool(ctx)
	losing := onhosts.Losing(r.Data, state.Hosts, state.HostStates, removed || other != "", planned, targets)
	effect := "Its data stays. VMs that run don't notice. Without the pool, a VM that stays doesn't start if its " +
		"definition names the pool."
	if pool.LosesVolumes() {
		effect = "If VMs run on its volumes when the pool is stopped, the apply fails. Without the pool, none of those " +
			"that stay starts."
	}
	if other != "" {
		effect = "It is planned with " + other + ", and its volumes stay where they are. A VM whose disk isn't found there " +
			"doesn't start."
	}
	if removed && state.OnDestroy.ValueString() == onDestroyDelete {
		effect = "Its data is to be deleted with it, because on_destroy is \"delete\": the apply fails while they use it."
	}
	// A host's own definition has the directory that libvirt has chosen if none is declared, and what was changed there.
	on := map[string]storage.Pool{}
	for _, a := range hostset.Found(storage.PoolOn(ctx, losing, pool.Name)) {
		on[a.Host] = a.Value.Live
	}
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		if own, ok := on[h.Name()]; ok {
			return storage.PoolUsers(ctx, h, own)
		}
		return storage.PoolUsers(ctx, h, pool)
	}
	if removed {
		effect += " " + onhosts.UsersGoFirst
	}
	if uses := onhosts.InUse(ctx, losing, state.noun(), users); len(uses) > 0 {
		// Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Storage pool is in use: "+pool.Name, strings.Join(uses, " ")+" "+effect)
	}
	return diags
}
