package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ModifyPlan plans that every host has its copy, and that new content gets new names.
func (r *imageResource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if req.Plan.Raw.IsNull() && r.Data != nil && !r.Data.Unknown {
		var state model
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		hosts, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
		resp.Diagnostics.Append(r.checkRemoval(ctx, hosts, &state)...)
		resp.Diagnostics.Append(r.warnOfUsers(ctx, hosts, &state)...)
	}
	if !r.Plans(noun, req, resp) {
		return
	}
	var hosts types.Set
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root(onhosts.HostsName), &hosts)...)
	targets, diags := onhosts.Targets(r.Data, hosts)
	resp.Diagnostics.Append(diags...)
	var pool, name types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("pool"), &pool)...)
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("name"), &name)...)
	var planned types.Object
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("source"), &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	pools := func(hosts hostset.Set) map[string]storage.Pool { return r.plannedPools(ctx, hosts, pool) }
	if req.State.Raw.IsNull() {
		resp.Diagnostics.Append(r.checkNew(ctx, req.Plan, targets, pools(targets), planned)...)
		return
	}
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	var before types.Object
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("source"), &before)...)
	if resp.Diagnostics.HasError() {
		return
	}
	r.Data.Planned.PlanVolume(state.ID.ValueString())
	if !name.Equal(state.Name) || !pool.Equal(state.Pool) {
		r.Data.Planned.PlanImageReplaced(state.ID.ValueString())
		known, _ := onhosts.Known(r.Data, state.Hosts, state.HostStates)
		resp.Diagnostics.Append(r.checkRemoval(ctx, known, &state)...)
		resp.Diagnostics.Append(r.warnOfUsers(ctx, known, &state)...)
	}
	if hosts.IsNull() {
		// These are the hosts that had the pool at the last read and keep it, and those that get it. Other pools of that name
		// may be on hosts without being planned. The apply doesn't plan pools that stay as they are.
		had := value.Keys(value.StringMap(state.HostStates))
		if !state.Hosts.IsNull() { // The last read asked no others.
			had = append(had, slices.Collect(maps.Keys(pools(targets)))...)
		}
		targets = targets.Named(r.Data.Planned.WithPool(state.Pool.ValueString(), had)...)
	}
	set := func(name string, v any) {
		resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root(name), v)...)
	}
	set(onhosts.StatesName, onhosts.PlanStates(targets, hosts, types.MapNull(types.StringType), onhosts.Present))
	var n notes
	_, diags = meta.ReadPrivate(ctx, req.Private, notesKey, &n)
	resp.Diagnostics.Append(diags...)
	set("superseded", state.Superseded)
	if _, stale := n.checked(ctx, state.Source, state.SHA256.ValueString()); stale || !planned.Equal(before) {
		for _, name := range []string{"id", "volume", "sha256", "format"} {
			set(name, types.StringUnknown())
		}
		set("virtual_size", value.NewQuantityUnknown())
		set("superseded", types.ListUnknown(types.StringType))
		resp.Diagnostics.Append(checkFormat(ctx, req.Plan, pools(targets), planned, "")...)
		resp.Diagnostics.Append(checkAvailable(ctx, planned)...)
		resp.Diagnostics.Append(r.checkRoom(ctx, req.Plan, targets, targets, planned)...)
		return
	}
	leaving := onhosts.Leaving(r.Data, state.HostStates, targets)
	resp.Diagnostics.Append(r.checkRemoval(ctx, leaving, &state)...)
	// No later apply looks for those that stay on a host that leaves.
	forgets := (len(leaving) > 0 || !hosts.Equal(state.Hosts)) && len(state.Superseded.Elements()) > 0
	if n.Removable || forgets {
		set("superseded", types.ListUnknown(types.StringType))
	}
	_, poolPlanned := r.Data.Planned.Hosts(status.StoragePool, state.Pool.ValueString())
	if poolPlanned || lacksCopy(targets, state.HostStates) {
		resp.Diagnostics.Append(checkFormat(ctx, req.Plan, pools(targets), planned, state.Format.ValueString())...)
		resp.Diagnostics.Append(r.checkRoom(ctx, req.Plan, targets, withoutCopy(targets, state.HostStates), planned)...)
	}
}

// checkRemoval returns an error for each of the hosts that lose their copies while the pool's filesystem isn't mounted:
// the apply can't remove a copy there, and finds that out only after it has removed those of other hosts.
func (r *imageResource) checkRemoval(ctx context.Context, hosts hostset.Set, m *model) (diags diag.Diagnostics) {
	failed := hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		return r.Data.Storage().CheckDelete(ctx, h.Name, m.ref())
	})
	maps.DeleteFunc(failed, func(_ string, err error) bool { return !errors.Is(err, storage.ErrUnmounted) })
	return onhosts.Failures("delete", m.noun(), failed)
}

// failsInUse says what becomes of a destroy of an image that is in use. A VM's own disk never follows another image, so
// that create_before_destroy makes a copy, and then fails.
const failsInUse = onhosts.StorageStaysInUse + " If a VM's disk with pool was made from it, keep the image as it is " +
	"as long as that disk is there: with create_before_destroy, the apply creates a copy, and fails at the VM. For new " +
	"disks, declare another virtfleet_image.\n\nFor other users, such as a CD-ROM: " + tfdiag.ChangeUsersFirst

// warnOfUsers names what uses copies that are to be removed from hosts. A plan isn't told whether that is removed, too.
func (r *imageResource) warnOfUsers(ctx context.Context, hosts hostset.Set, m *model) (diags diag.Diagnostics) {
	if s := r.Data.Storage(); s.IsShared(ctx, hosts, m.Pool.ValueString()) {
		hosts = s.Hosts.Present()
	}
	users := func(ctx context.Context, h *libvirt.Host) ([]string, error) {
		var users []string
		for _, name := range append(value.StringList(m.Superseded), m.Volume.ValueString()) {
			of, err := r.Data.Storage().SeenUsers(ctx, h.Name(), storage.Ref{Pool: m.Pool.ValueString(), Name: name}, true)
			if err != nil {
				return nil, err
			}
			users = append(users, of...)
		}
		return users, nil
	}
	if uses := onhosts.InUse(ctx, hosts, m.noun(), users); len(uses) > 0 {
		// Terraform shows only one of several warnings with the same title.
		diags.AddWarning("Image is in use: "+m.ref().String(), strings.Join(uses, " ")+" "+failsInUse)
	}
	return diags
}

// checkNew returns errors for a new image that no host can have, and a warning if its source isn't available.
func (r *imageResource) checkNew(
	ctx context.Context, plan tfsdk.Plan, targets hostset.Set, pools map[string]storage.Pool, source types.Object,
) (diags diag.Diagnostics) {
	if len(pools) == 0 {
		diags.Append(r.checkPool(ctx, plan, targets)...)
	}
	diags.Append(checkFormat(ctx, plan, pools, source, "")...)
	diags.Append(checkAvailable(ctx, source)...)
	diags.Append(r.warnOfExisting(ctx, plan, pools)...)
	diags.Append(r.checkRoom(ctx, plan, targets, targets, source)...)
	return diags
}

// warnOfExisting warns of copies of images with the name of a new one, except those that the state has. Which of them
// has the same content is known only in the apply.
func (r *imageResource) warnOfExisting(
	ctx context.Context, plan tfsdk.Plan, pools map[string]storage.Pool,
) (diags diag.Diagnostics) {
	var m model
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &m.Name)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &m.Pool)...)
	if diags.HasError() || m.Name.IsUnknown() {
		return diags
	}
	hosts := map[string][]string{}
	for _, host := range value.Keys(pools) {
		pool := m.Pool.ValueString()
		if r.Data.Planned.PoolChange(host, pool).From != "" {
			continue // The pool leaves its volumes.
		}
		for _, copied := range r.Data.Storage().SeenCopies(ctx, host, pool, m.Name.ValueString()) {
			if !r.Data.Saved.Has(TypeName, copied.String()) {
				hosts[copied.Name] = append(hosts[copied.Name], host)
			}
		}
	}
	for _, name := range value.Keys(hosts) {
		diags.Append(onhosts.TakenOver(path.Root("name"), fmt.Sprintf("Storage pool %q has a copy of an image of this name "+
			"already: volume %q on %s. If the content of the new image is the same, it takes the copy over.",
			m.Pool.ValueString(), name, strings.Join(hosts[name], ", "))))
	}
	return diags
}

// checkRoom returns a warning for each of the receiving hosts, which are to get a copy, whose pool has no room for a
// local image, as far as its size is known. It is no error: a host may have the copy already, the same plan may remove
// other volumes, and a plan knows only how much room libvirt saw at its last reading of the pool. A pool whose
// filesystem isn't mounted gets no copy, which is an error if no host gets one.
func (r *imageResource) checkRoom(
	ctx context.Context, plan tfsdk.Plan, targets, receiving hostset.Set, source types.Object,
) (diags diag.Diagnostics) {
	var m model
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &m.Name)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &m.Pool)...)
	file, _ := source.Attributes()["file"].(types.String)
	_, bytes, err := storage.FileFormat(file.ValueString())
	if err != nil { // It is downloaded, or created before the image.
		bytes = 0
	}
	pool := m.Pool.ValueString()
	if diags.HasError() || pool == "" {
		return diags
	}
	unmounted := map[string]error{}
	data := sync.OnceValues(func() (uint64, error) { return storage.FileData(ctx, file.ValueString()) })
	for _, host := range receiving.Names() {
		if r.Data.Planned.PoolChange(host, pool).From != "" {
			continue
		}
		switch err := r.lackOfRoom(ctx, host, pool, bytes, data); {
		case errors.Is(err, storage.ErrUnmounted):
			unmounted[host] = err
		case err != nil:
			f := m.failure("create", err)
			f.Host, f.Happened = host, "the apply fails unless the host has the copy already, or there is room by then"
			diags.Append(diag.WithPath(path.Root("pool"), f.Warning()))
		}
	}
	for _, host := range value.Keys(unmounted) {
		f := m.failure("create", unmounted[host])
		if f.Host = host; len(unmounted) == len(targets) {
			diags.Append(f.AttributeError(path.Root("pool")))
			continue
		}
		f.Happened = "this host gets no copy, unless the filesystem is mounted by then"
		diags.Append(diag.WithPath(path.Root("pool"), f.Warning()))
	}
	return diags
}

// lackOfRoom returns why a host's pool has no room for the copy of a local image of that size; nil if it has, or can't
// tell. data returns how much of the image isn't zeros: it reads the image, and is called only if that decides.
func (r *imageResource) lackOfRoom(
	ctx context.Context, host, pool string, bytes uint64, data func() (uint64, error),
) error {
	lacks := func(err error) bool {
		return errors.Is(err, storage.ErrUnmounted) ||
			bytes > 0 && (errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrOvercommitted))
	}
	need := storage.Demand{Now: bytes, Growth: bytes}
	err := r.Data.Storage().CheckRoom(ctx, host, pool, need)
	if bytes > 0 && errors.Is(err, storage.ErrNoSpace) {
		if need.Now, err = data(); err == nil {
			err = r.Data.Storage().CheckRoom(ctx, host, pool, need)
		}
	}
	if !lacks(err) {
		return nil
	}
	return err
}

// checkFormat refuses an image that the pools of hosts can't have, because of their type or because of its format,
// as far as the plan knows that: it is that of the state, if not "", or in the header of a local file. An apply checks
// every image before it downloads all of it.
func checkFormat(
	ctx context.Context, plan tfsdk.Plan, pools map[string]storage.Pool, source types.Object, format string,
) (diags diag.Diagnostics) {
	var m model
	diags.Append(plan.GetAttribute(ctx, path.Root("name"), &m.Name)...)
	diags.Append(plan.GetAttribute(ctx, path.Root("pool"), &m.Pool)...)
	file, _ := source.Attributes()["file"].(types.String)
	if format == "" && file.ValueString() != "" {
		var err error
		var bytes uint64
		format, bytes, err = storage.FileFormat(file.ValueString())
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // The file may be created before the image.
			f := m.failure("fetch", err)
			f.Remedy = unavailableRemedy(err)
			diags.Append(f.AttributeError(path.Root("source")))
		}
		diags.Append(m.warnOdd(format, bytes)...)
	}
	if diags.HasError() {
		return diags
	}
	for host, pool := range pools {
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

// checkAvailable returns a warning if a server refuses to send the image or its checksum file, or if the local file
// isn't there. The same apply may put it there, so that is no error.
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
// replace it. Pools whose type or name isn't known yet are left out.
func (r *imageResource) plannedPools(
	ctx context.Context, targets hostset.Set, pool types.String,
) map[string]storage.Pool {
	pools, name := map[string]storage.Pool{}, pool.ValueString()
	if pool.IsUnknown() {
		return pools
	}
	for _, host := range targets.Names() {
		if is, ok := r.Data.Planned.Pool(host, name); ok {
			pools[host] = is
		}
	}
	rest := targets.Without(slices.Collect(maps.Keys(pools))...)
	for _, a := range hostset.Found(storage.PoolOn(ctx, rest, name)) {
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
