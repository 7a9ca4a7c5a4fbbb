package storagepool

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_storage_pool"

const noun = "storage pool"

// defaultTimeout is long enough to make a filesystem on a large disk, and to wait for a file server.
const defaultTimeout = 20 * time.Minute

// originKey is the key of the private state's storage.PoolOrigin. The state itself doesn't say what the resource
// created: a refresh gives it the settings that hosts have now.
const originKey = "origin"

// outdated is the value of host_states for a host whose pool is active with another definition than its persistent one.
const outdated = "outdated"

var (
	_ resource.ResourceWithConfigure      = (*poolResource)(nil)
	_ resource.ResourceWithImportState    = (*poolResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*poolResource)(nil)
	_ resource.ResourceWithValidateConfig = (*poolResource)(nil)
)

type poolResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return &poolResource{Resource: meta.Resource{TypeName: TypeName}}
}

// ValidateConfig checks everything that can be checked without a host.
func (*poolResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(config.lacks("target.")...)
	pool, _ := config.pool(ctx)
	if p := pool.Path; p != nil && *p != "" && !filepath.IsAbs(*p) {
		resp.Diagnostics.AddAttributeError(path.Root("target").AtName("path"), "Invalid "+noun, fmt.Sprintf(
			"target.path: %q isn't an absolute path on the host. libvirt would create it where its own process runs. "+
				"Begin it with a slash.", *p))
	}
}

// lacks returns an error if the model lacks required attributes of a block: "target." or "source.". A pool that exists
// keeps its source if none is declared, so only a new pool requires one.
func (m *model) lacks(block string) (diags diag.Diagnostics) {
	var missing []string
	blocks := map[string]types.Object{"target.": m.Target, "source.": m.Source}
	for _, attribute := range storage.Requires(m.Type.ValueString()) {
		name, ok := strings.CutPrefix(attribute, block)
		if !ok || blocks[block].IsUnknown() {
			continue
		}
		if v, ok := blocks[block].Attributes()[name]; !ok || v.IsNull() {
			missing = append(missing, attribute)
		}
	}
	if missing != nil {
		diags.AddAttributeError(path.Root("type"), "Invalid "+noun, fmt.Sprintf(
			"A pool of type %q needs %s.", m.Type.ValueString(), strings.Join(missing, " and ")))
	}
	return diags
}

// Create creates the pool on every host. If that fails on some hosts, the next plan shows them as an update.
func (r *poolResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var config, whole model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &whole)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	plan := whole.declaredOnly(&config)
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	pool, diags := plan.pool(ctx)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	c := r.removal(pool.Name, nil, resp.Private)
	var origin storage.PoolOrigin
	c.New = func(uuid string) onhosts.Do {
		origin.UUIDs = []string{uuid}
		return r.create(plan, pool)(uuid)
	}
	states, diags := c.Create(ctx, targets)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, originKey, origin.Applied(pool))...)
	resp.Diagnostics.Append(plan.write(ctx, pool, resp.Private)...)
	plan.ID, plan.HostStates = types.StringValue(pool.Name), states
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// create returns what creates the pool with a UUID.
func (r *poolResource) create(plan *model, pool storage.Pool) func(uuid string) onhosts.Do {
	settings := plan.settings()
	return func(uuid string) onhosts.Do {
		settings.UUID = uuid
		return func(ctx context.Context, hosts hostset.Set) map[string]error {
			return r.Data.Storage().ApplyPool(ctx, hosts, pool, settings)
		}
	}
}

// removal returns the change that removes the pool: with its contents if withData isn't nil.
func (r *poolResource) removal(name string, withData *storage.PoolOrigin, private meta.Private) onhosts.Change {
	return onhosts.Change{
		Data: r.Data, TypeName: TypeName, ImportID: name, Noun: nounOf(name), Healthy: onhosts.Active,
		Private: private,
		Check: func(ctx context.Context, hosts hostset.Set) map[string]error {
			return r.Data.Storage().CheckRemovePool(ctx, hosts, name, withData)
		},
		Remove: func(ctx context.Context, hosts hostset.Set) map[string]error {
			return r.Data.Storage().RemovePool(ctx, hosts, name, withData)
		},
		UUID: func(ctx context.Context, h *libvirt.Host) (string, error) {
			is, err := h.StoragePool(ctx, name)
			if err != nil {
				return "", err
			}
			return is.UUID, nil
		},
	}
}

// Read compares the pool on every host with the declared one.
func (r *poolResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	hosts := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	r.Data.Fleet.ReadAhead(hosts.Names()) //nolint:contextcheck // It outlives this reading.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	mounts := storage.ReadingMounts(reading, hosts)
	answers, last, diags := onhosts.OwnRecorded(ctx, state.noun(), hosts,
		storage.PoolOn(ctx, hosts, state.Name.ValueString()), state.HostStates, uuidOf, resp.Private)
	resp.Diagnostics.Append(diags...)
	seen, diags := onhosts.Observe(onhosts.Question[storage.HostPool]{
		Data: r.Data, Noun: state.noun(), Imported: state.isImported(), Hosts: state.Hosts, Last: last,
		Answers: answers, State: powerOf,
	})
	resp.Diagnostics.Append(diags...)
	if seen.Concludes(ctx, resp, noun, state.Name.ValueString(), state.isImported()) {
		return
	}
	if state.isImported() {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, originKey, storage.ImportedPools(seen.Found))...)
	}
	unmounted := storage.UnmountedPools(ctx, mounts, seen.Found)
	resp.Diagnostics.Append(onhosts.Warnings("read", state.noun(), unmounted)...)
	declared, diags := readDeclaration(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	resp.Diagnostics.Append(state.setFromHosts(ctx, seen, declared)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func uuidOf(p storage.HostPool) string { return p.UUID }

func powerOf(p storage.HostPool) string {
	switch {
	case p.Outdated:
		return outdated
	case p.Active:
		return onhosts.Active
	default:
		return onhosts.Inactive
	}
}

// setFromHosts sets the state to settings on hosts that differ from the declared ones. If several hosts differ, the
// first one counts. What isn't declared is that of the first host. applied is nil if all of the state is declared.
func (m *model) setFromHosts(
	ctx context.Context, seen onhosts.Observation[storage.HostPool], applied *declaration,
) (diags diag.Diagnostics) {
	states, d := types.MapValueFrom(ctx, types.StringType, seen.States)
	m.HostStates = states
	diags.Append(d...)
	if m.isImported() {
		first := *seen.Found[0].Value
		m.Autostart = types.BoolValue(first.Autostart)
		if first.Shared && !storage.SharedType(first.Type) {
			m.Shared = types.BoolValue(true)
		}
		m.Hosts = seen.ImportedHosts()
		diags.Append(m.setFromPool(ctx, first.Pool)...)
		return diags
	}
	all, d := m.pool(ctx)
	diags.Append(d...)
	declared, autostart := all, true
	if applied != nil {
		declared, autostart = all.Only(applied.Pool), applied.Autostart
	}
	for i, a := range seen.Found {
		is := *a.Value
		if (autostart || i == 0) && !m.Autostart.IsNull() && m.Autostart.ValueBool() != is.Autostart {
			m.Autostart = types.BoolValue(is.Autostart)
		}
		if m.Shared.ValueBool() && !is.Shared {
			m.Shared = types.BoolValue(false)
		}
	}
	for _, a := range seen.Found {
		if !declared.Mounted().IsIn(a.Value.Pool) {
			return append(diags, m.setFromPool(ctx, all.Merge(a.Value.Pool))...)
		}
	}
	if len(seen.Found) > 0 && !all.Mounted().IsIn(seen.Found[0].Value.Pool) {
		diags.Append(m.setFromPool(ctx, all.Merge(seen.Found[0].Value.Pool))...)
	}
	return diags
}

// Update changes the pool on every host to what is declared, and removes it from hosts that are no longer listed.
func (r *poolResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var config, plan, state model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	declared := plan.declaredOnly(&config)
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	pool, diags := declared.pool(ctx)
	resp.Diagnostics.Append(diags...)
	origin, diags := originOf(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	settings := declared.settings()
	settings.MustRefresh = !plan.RefreshTriggers.Equal(state.RefreshTriggers)
	if len(origin.UUIDs) > 0 {
		settings.NewUUID = origin.UUIDs[0] // A host that lacks the pool gets one that is recognized as the resource's.
	}
	c := r.removal(pool.Name, nil, resp.Private)
	c.New = r.create(declared, pool)
	c.Put = func(ctx context.Context, hosts hostset.Set) map[string]error {
		return r.Data.Storage().ApplyPool(ctx, hosts, pool, settings)
	}
	states, complete, diags := c.Update(ctx, targets, state.HostStates)
	resp.Diagnostics.Append(diags...)
	if complete {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, originKey, origin.Applied(pool))...)
	} else {
		plan.RefreshTriggers = state.RefreshTriggers // The next plan has the hosts read the pool.
	}
	// Also where it failed: the next read finds the hosts that lack what is newly declared.
	resp.Diagnostics.Append(declared.write(ctx, pool, resp.Private)...)
	plan.HostStates = states
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete stops and undefines the pool on every host that has it.
func (r *poolResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	name := state.Name.ValueString()
	origin, diags := originOf(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	var withData *storage.PoolOrigin
	if state.OnDestroy.ValueString() == onDestroyDelete {
		withData = &origin
	}
	c := r.removal(name, withData, req.Private)
	resp.Diagnostics.Append(c.Delete(ctx, state.Hosts, state.HostStates)...)
}

// ImportState accepts the pool's name. Read fills in the rest.
func (*poolResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), req, resp)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), req.ID)...)
}

func originOf(ctx context.Context, private meta.PrivateReader) (o storage.PoolOrigin, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, originKey, &o)
	return o, diags
}

// noun returns the pool's name in errors.
func (m *model) noun() string { return nounOf(m.Name.ValueString()) }

func nounOf(name string) string { return fmt.Sprintf("%s %q", noun, name) }
