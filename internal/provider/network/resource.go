package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_network"

const defaultTimeout = 5 * time.Minute

// declaredKey is the key of the private state's list of blocks that the configuration declared at the last apply.
// Differences in these blocks on a host are drift.
const declaredKey = "declared"

var (
	_ resource.ResourceWithConfigure      = (*networkResource)(nil)
	_ resource.ResourceWithImportState    = (*networkResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*networkResource)(nil)
	_ resource.ResourceWithValidateConfig = (*networkResource)(nil)
)

type networkResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return &networkResource{meta.Resource{TypeName: TypeName}}
}

// Schema describes the resource.
func (r *networkResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = networkSchema
}

// ValidateConfig checks everything that can be checked without a host.
func (r *networkResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	spec, known, diags := config.spec(config.declaredBlocks())
	resp.Diagnostics.Append(diags...)
	// The unknown value may be the one that a block lacks.
	if known {
		resp.Diagnostics.Append(problemDiagnostics(spec)...)
	}
}

// problemDiagnostics returns the problems as errors at their attributes.
func problemDiagnostics(spec network.Spec) (diags diag.Diagnostics) {
	for _, p := range spec.Validate() {
		diags.AddAttributeError(path.Root(p.Block), "Invalid network", p.Reason)
	}
	return diags
}

// validWanted returns what every host is to have, and why that is invalid. left are the addresses whose reservations
// aren't declared.
func (m *model) validWanted(declared, left []string) (network.Wanted, diag.Diagnostics) {
	spec, _, diags := m.spec(declared)
	spec = withoutReservations(spec, left)
	diags.Append(problemDiagnostics(spec)...)
	return m.wanted(spec), diags
}

// noun returns the network's name in errors.
func noun(name types.String) string { return fmt.Sprintf("network %q", name.ValueString()) }

// Create creates the network on every host. If it fails on some hosts, a later apply creates the network there. If it
// fails on all hosts, Create returns an error.
func (r *networkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun(plan.Name), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	declared, left := config.declaredBlocks(), config.undeclaredReservations()
	want, diags := plan.validWanted(declared, left)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	states, diags := r.changeTo(&plan, want, resp.Private).Create(ctx, targets)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.HostStates = states
	resp.Diagnostics.Append(r.readUndeclared(ctx, targets, &plan)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, declaredKey, declared)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, undeclaredReservationsKey, left)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// readUndeclared reads undeclared blocks from the first host that has the network.
func (r *networkResource) readUndeclared(ctx context.Context, targets hostset.Set, m *model) (diags diag.Diagnostics) {
	var have network.Spec
	found := hostset.Found(hostset.Ask(ctx, targets, func(ctx context.Context, h *libvirt.Host) (*network.State, error) {
		return network.Read(ctx, h, m.Name.ValueString())
	}))
	if len(found) > 0 {
		have = found[0].Value.Spec
	}
	var unknown []string
	for name := range m.blocks() {
		if m.block(name).IsUnknown() {
			unknown = append(unknown, name)
		}
	}
	return m.fromSpec(ctx, have, unknown)
}

// Update changes the network to what is planned on every host, and removes it from hosts that are no longer listed.
func (r *networkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var config, plan, state model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun(plan.Name), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	declared, left := config.declaredBlocks(), config.undeclaredReservations()
	want, diags := plan.validWanted(declared, left)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	states, complete, diags := r.changeTo(&plan, want, resp.Private).Update(ctx, targets, state.HostStates)
	resp.Diagnostics.Append(diags...)
	plan.HostStates = states
	if !complete {
		// After a failure a host may still have the old definition, so the next plan compares with the old one.
		for _, block := range declared {
			plan.setBlock(block, state.block(block))
		}
		plan.Active, plan.Autostart = state.Active, state.Autostart
	} else {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, declaredKey, declared)...)
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, undeclaredReservationsKey, left)...)
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// updateHost changes the network of one host to what is planned.
func (r *networkResource) updateHost(ctx context.Context, h *libvirt.Host, plan *model, want network.Wanted) error {
	name := plan.Name.ValueString()
	return network.Update(ctx, r.Data.Fleet.LockOn, h, name, want, func(ctx context.Context) (bool, error) {
		if plan.UpdatePolicy.ValueString() == updateRestart {
			return true, nil
		}
		// At the time of the plan, no running VM used the network, or no restart was needed.
		i, err := findInterruption(ctx, h, name, want, nil)
		if err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			return false, err
		}
		if i != nil && len(i.users) > 0 {
			return false, fmt.Errorf("%w: %s is used by %s now", network.ErrRestartRequired, noun(plan.Name),
				strings.Join(i.users, ", "))
		}
		return i != nil, nil
	})
}

// changeTo returns the change that makes the network as planned.
func (r *networkResource) changeTo(plan *model, want network.Wanted, private meta.Private) onhosts.Change {
	c := r.removal(plan.Name, private)
	c.Healthy = plan.healthyState()
	put := func(want network.Wanted) onhosts.Do {
		return onhosts.Each(func(ctx context.Context, h *libvirt.Host) error { return r.updateHost(ctx, h, plan, want) })
	}
	c.Put = put(want)
	c.New = func(uuid string) onhosts.Do {
		created := want
		created.UUID = uuid
		return put(created)
	}
	return c
}

// removal returns the change that removes the network, except where a VM's definition uses it.
func (r *networkResource) removal(name types.String, private meta.Private) onhosts.Change {
	return onhosts.Change{
		Data: r.Data, TypeName: TypeName, ImportID: name.ValueString(), Noun: noun(name), Private: private,
		Check: onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			return network.CheckDelete(ctx, h, name.ValueString())
		}),
		Remove: onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			return network.Delete(ctx, r.Data.Fleet.LockOn, h, name.ValueString())
		}),
		UUID: func(ctx context.Context, h *libvirt.Host) (string, error) {
			is, err := h.Network(ctx, name.ValueString())
			if err != nil {
				return "", err
			}
			return is.UUID, nil
		},
	}
}

// Delete removes the network from every host.
func (r *networkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun(state.Name), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	resp.Diagnostics.Append(r.removal(state.Name, req.Private).Delete(ctx, state.Hosts, state.HostStates)...)
}

// ImportState accepts the network's name. Read fills in the rest.
func (r *networkResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	onhosts.ImportByName(ctx, &r.Resource, "network", network.Read, req, resp)
}
