package secret

import (
	"context"
	"slices"
	"strings"
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
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_secret"

const noun = "secret"

const defaultTimeout = 5 * time.Minute

// privateDestroyed is the key in private state of a planned destroy. The destroy that is part of a replacement lacks
// it: there, privatePlanned is the value_wo_version of the secret in its place, and missing if that was unknown.
const (
	privateDestroyed = "destroyed"
	privatePlanned   = "planned_version"
)

// privateImported is the key in private state of an imported secret, until its state has a value_wo_version. The first
// one doesn't say that the value in the configuration is the passphrase which the hosts have.
const privateImported = "imported"

var (
	_ resource.ResourceWithConfigure   = (*secretResource)(nil)
	_ resource.ResourceWithImportState = (*secretResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*secretResource)(nil)
)

type secretResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return &secretResource{Resource: meta.Resource{TypeName: TypeName}}
}

func (m *model) secret() libvirt.UserSecret {
	return libvirt.UserSecret{
		UUID: m.ID.ValueString(), Usage: m.Usage.ValueString(), UsageID: m.UsageID.ValueString(),
		Description: m.Description.ValueString(), Private: m.Private.ValueBool(),
	}
}

// changeTo returns the change that writes the secret with that value, or removes it. Create sets the id of m.
func (r *secretResource) changeTo(m *model, data []byte) onhosts.Change {
	usage, usageID := m.Usage.ValueString(), m.UsageID.ValueString()
	put := onhosts.Each(func(ctx context.Context, h *libvirt.Host) error { return h.PutUserSecret(ctx, m.secret(), data) })
	return onhosts.Change{
		Data: r.Data, TypeName: TypeName, ImportID: usage + "/" + usageID, Noun: m.noun(), Healthy: onhosts.Present,
		Put: put, JoinRemedy: joinRemedy,
		New: func(uuid string) onhosts.Do {
			m.ID = types.StringValue(uuid)
			return put
		},
		UUID: func(ctx context.Context, h *libvirt.Host) (string, error) {
			is, err := h.SecretByUsage(ctx, usage, usageID)
			if err != nil {
				return "", err
			}
			return is.UUID, nil
		},
		Remove: onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			return h.RemoveUserSecret(ctx, m.ID.ValueString())
		}),
	}
}

// Create defines the secret on every host. If that fails on some hosts, the next plan shows them as an update.
func (r *secretResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	data, diags := writtenValue(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	states, diags := r.changeTo(&plan, data).Create(ctx, targets)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.HostStates = states
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, nil)...) // It may replace one.
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Read asks every host for the secret, and never for its value. One that is gone from all hosts is missing there: VMs
// know it by its UUID, with which the next apply creates it again.
func (r *secretResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	hosts := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	imported := state.Usage.IsNull()
	seen, diags := onhosts.Observe(onhosts.Question[libvirt.UserSecret]{
		Data: r.Data, Noun: state.noun(), Imported: imported, Restored: true, Hosts: state.Hosts, Last: state.HostStates,
		Answers: hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
			return h.UserSecret(ctx, state.ID.ValueString())
		}),
		State: func(libvirt.UserSecret) string { return onhosts.Present },
	})
	resp.Diagnostics.Append(diags...)
	if seen.Concludes(ctx, resp, noun, state.ID.ValueString(), imported) {
		return
	}
	state.setFromHosts(seen, imported)
	if imported {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, true)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (m *model) setFromHosts(seen onhosts.Observation[libvirt.UserSecret], imported bool) {
	m.HostStates = value.NewStringMap(seen.States)
	for _, a := range seen.Found {
		is := a.Value
		if imported || !m.Description.IsNull() && is.Description != m.Description.ValueString() {
			m.Description = value.NewStringOrNull(is.Description)
		}
		m.Usage, m.UsageID = types.StringValue(is.Usage), types.StringValue(is.UsageID)
		m.Private = types.BoolValue(is.Private)
	}
	if imported {
		m.Hosts = seen.ImportedHosts()
	}
}

// notOnAllHosts is the state's value_wo_version while hosts have different values.
const notOnAllHosts = "not on all hosts"

// Update writes the definition to every host, and the value if there is a new value_wo_version, but an imported
// passphrase keeps its value with the first one. It removes the secret from hosts that are no longer listed.
func (r *secretResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	data, diags := writtenValue(ctx, req.Config)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	if opens, ok := opened[state.Usage.ValueString()]; ok {
		leaving := onhosts.Leaving(r.Data, state.HostStates, targets)
		resp.Diagnostics.Append(opens.refuseLoss(ctx, leaving, &state, stillNeeded)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	c := r.changeTo(&plan, data)
	known, _ := onhosts.Known(r.Data, plan.Hosts, state.HostStates)
	keeps, diags := state.keepsPassphrase(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	writes := !plan.ValueVersion.Equal(state.ValueVersion) && !keeps
	if !writes {
		c.Put = putKeepingValue(&plan, data, known, value.StringMap(state.HostStates))
	}
	c.New, c.UUIDs = func(string) onhosts.Do { return c.Put }, []string{state.ID.ValueString()}
	copies, silent := r.copiesElsewhere(ctx, known, &state)
	states, complete, diags := c.Update(ctx, targets, state.HostStates)
	resp.Diagnostics.Append(diags...)
	failed := c.Put(ctx, copies)
	resp.Diagnostics.Append(onhosts.Failures("update", plan.noun(), failed)...)
	resp.Diagnostics.Append(notUpdated(&plan, silent, writes)...)
	if writes && (!complete || len(failed) > 0 || len(silent) > 0) {
		// The next apply writes a value to all hosts, even if the configuration has the former version again.
		plan.ValueVersion = types.StringValue(notOnAllHosts)
	}
	if !plan.ValueVersion.IsNull() {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, nil)...)
	}
	plan.HostStates = states
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete removes the secret from every host that has it.
func (r *secretResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	c := r.changeTo(&state, nil)
	c.UUIDs = []string{state.ID.ValueString()}
	known := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	copies, silent := r.copiesElsewhere(ctx, known, &state)
	resp.Diagnostics.Append(state.refuseDelete(ctx, req.Private, slices.Concat(known, copies))...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(c.Delete(ctx, state.Hosts, state.HostStates)...)
	resp.Diagnostics.Append(onhosts.Failures("delete", state.noun(), c.Remove(ctx, copies))...)
	resp.Diagnostics.Append(notDeleted(&state, silent)...)
}

// ImportState accepts a UUID, or "<usage>/<usage_id>".
func (r *secretResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", noun, &resp.Diagnostics) {
		return
	}
	id := req.ID
	if usage, usageID, ok := strings.Cut(req.ID, "/"); ok {
		answers := hostset.Ask(ctx, r.Data.Fleet.Connections(),
			func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
				return h.SecretByUsage(ctx, usage, usageID)
			})
		found, diags := onhosts.Imported(answers, noun, req.ID)
		resp.Diagnostics.Append(diags...)
		if diags.HasError() {
			return
		}
		id = found[0].Value.UUID
		resp.Diagnostics.Append(warnOfOthers(id, req.ID, found)...)
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
}
