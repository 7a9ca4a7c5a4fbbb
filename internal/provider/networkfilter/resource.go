package networkfilter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
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
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_network_filter"

const defaultTimeout = 5 * time.Minute

// digestsKey is the key of the private state's map from a host to the digest of its filter's definition after the last
// apply.
const digestsKey = "digests"

// differs is the value of host_states for a host whose filter has changed since.
const differs = "differs"

var (
	_ resource.ResourceWithConfigure      = (*filterResource)(nil)
	_ resource.ResourceWithImportState    = (*filterResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*filterResource)(nil)
	_ resource.ResourceWithValidateConfig = (*filterResource)(nil)
)

type filterResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource { return &filterResource{meta.Resource{TypeName: TypeName}} }

// model is the resource in Terraform.
type model struct {
	ID         types.String   `tfsdk:"id"`
	Name       types.String   `tfsdk:"name"`
	Hosts      types.Set      `tfsdk:"hosts"`
	HostStates types.Map      `tfsdk:"host_states"`
	Chain      types.String   `tfsdk:"chain"`
	Priority   types.Int64    `tfsdk:"priority"`
	References types.List     `tfsdk:"references"`
	Rules      types.List     `tfsdk:"rules"`
	XML        types.String   `tfsdk:"xml"`
	Timeouts   timeouts.Value `tfsdk:"timeouts"`
}

func (m *model) noun() string { return fmt.Sprintf("network filter %q", m.Name.ValueString()) }

// filter returns what the configuration says, and whether all of it is known.
func (m *model) filter() (f network.Filter, known bool, diags diag.Diagnostics) {
	plain := map[string]any{}
	known = !m.Name.IsUnknown()
	for name, v := range map[string]attr.Value{
		"chain": m.Chain, "priority": m.Priority, "references": m.References, "rules": m.Rules, "xml": m.XML,
	} {
		p, all := value.Plain(v)
		known = known && all
		if p != nil {
			plain[name] = p
		}
	}
	if err := value.Decode(plain, &f); err != nil {
		diags.AddError("Invalid network filter", err.Error())
	}
	return f, known, diags
}

// Schema describes the resource.
func (r *filterResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = filterSchema
}

// ValidateConfig checks everything that can be checked without a host.
func (r *filterResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	f, known, diags := config.filter()
	resp.Diagnostics.Append(diags...)
	if !known || resp.Diagnostics.HasError() {
		return
	}
	if _, err := f.Document(config.Name.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(path.Root(rulesAt(f)), "Invalid network filter", err.Error()+".")
	}
}

// rulesAt returns the attribute that has the filter's rules.
func rulesAt(f network.Filter) string {
	if f.XML != "" {
		return "xml"
	}
	return "rules"
}

// changeTo returns the change that defines the filter as f, or removes it. The digests of the hosts' new definitions go
// into digests.
func (r *filterResource) changeTo(
	m *model, f network.Filter, digests map[string]string, private meta.Private,
) onhosts.Change {
	name := m.Name.ValueString()
	var mu sync.Mutex
	put := func(uuid string) onhosts.Do {
		return onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			have, err := network.PutFilter(ctx, h, name, uuid, f)
			if err == nil {
				mu.Lock()
				digests[h.Name()] = have.Digest
				mu.Unlock()
			}
			return err
		})
	}
	return onhosts.Change{
		Data: r.Data, TypeName: TypeName, ImportID: name, Noun: m.noun(), Healthy: onhosts.Present, Put: put(""), New: put,
		Private: private,
		UUID: func(ctx context.Context, h *libvirt.Host) (string, error) {
			is, err := network.ReadFilter(ctx, h, name)
			if err != nil {
				return "", err
			}
			return is.UUID, nil
		},
		Check: onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			return network.CheckDeleteFilter(ctx, h, name)
		}),
		Remove: onhosts.Each(func(ctx context.Context, h *libvirt.Host) error { return network.DeleteFilter(ctx, h, name) }),
	}
}

// Create defines the filter on every host. If it fails on some hosts, a later apply defines the filter there. If it
// fails on all hosts, Create returns an error.
func (r *filterResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", plan.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	f, _, diags := plan.filter()
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	digests := map[string]string{}
	states, diags := r.changeTo(&plan, f, digests, resp.Private).Create(ctx, targets)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.ID, plan.HostStates = plan.Name, states
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, digestsKey, digests)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Read compares the filters on the hosts with those after the last apply.
func (r *filterResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", state.noun(), &resp.Diagnostics) {
		return
	}
	var digests map[string]string
	_, diags := meta.ReadPrivate(ctx, req.Private, digestsKey, &digests)
	resp.Diagnostics.Append(diags...)
	asked := onhosts.Asked(r.Data, state.Hosts, state.HostStates)
	name := state.Name.ValueString()
	answers := hostset.Ask(ctx, asked, func(ctx context.Context, h *libvirt.Host) (*network.FilterState, error) {
		return network.ReadFilter(ctx, h, name)
	})
	answers, last, diags := onhosts.OwnRecorded(ctx, state.noun(), asked, answers, state.HostStates,
		func(s network.FilterState) string { return s.UUID }, resp.Private)
	resp.Diagnostics.Append(diags...)
	o, diags := onhosts.Observe(onhosts.Question[network.FilterState]{
		Data: r.Data, Noun: state.noun(), Hosts: state.Hosts, Last: last, Answers: answers,
		State: func(network.FilterState) string { return onhosts.Present },
	})
	resp.Diagnostics.Append(diags...)
	imported := state.HostStates.IsNull()
	if o.Concludes(ctx, resp, "network filter", name, imported) {
		return
	}
	if imported { // Until the first apply, all hosts are compared with the first one.
		state.XML = types.StringValue(o.Found[0].Value.XML)
		digests = map[string]string{}
		for _, host := range asked.Names() {
			digests[host] = o.Found[0].Value.Digest
		}
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, digestsKey, digests)...)
	}
	for _, a := range o.Found {
		if !isAsApplied(digests, a.Host, a.Value.Digest) {
			o.States[a.Host] = differs
		}
	}
	state.HostStates = value.NewStringMap(o.States)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// isAsApplied reports whether a host's filter has the digest that it had after the last apply: that of any host if the
// host has another key now. Without digests nothing is known to differ.
func isAsApplied(digests map[string]string, host, digest string) bool {
	if want, ok := digests[host]; ok {
		return want == digest
	}
	return len(digests) == 0 || slices.Contains(slices.Collect(maps.Values(digests)), digest)
}

// Update defines the filter on every host, and removes it from hosts that are no longer listed.
func (r *filterResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", plan.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	targets, diags := onhosts.Targets(r.Data, plan.Hosts)
	resp.Diagnostics.Append(diags...)
	f, _, diags := plan.filter()
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	digests := map[string]string{}
	states, complete, diags := r.changeTo(&plan, f, digests, resp.Private).Update(ctx, targets, state.HostStates)
	resp.Diagnostics.Append(diags...)
	plan.HostStates = states
	if !complete {
		// The next plan compares with the old values.
		plan.Chain, plan.Priority, plan.References = state.Chain, state.Priority, state.References
		plan.Rules, plan.XML = state.Rules, state.XML
		var before map[string]string
		_, diags := meta.ReadPrivate(ctx, req.Private, digestsKey, &before)
		resp.Diagnostics.Append(diags...)
		digests = digestsOfState(before, digests)
	}
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, digestsKey, digests)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// newer stands for the digest of a definition that the state doesn't have. No definition has it.
const newer = "newer"

// digestsOfState returns the digests after an update that has failed on a host: the state keeps its old values, so a
// host that has taken the new definition differs from it. Otherwise the plan of the old configuration would be empty.
func digestsOfState(before, taken map[string]string) map[string]string {
	digests := map[string]string{}
	for host := range taken {
		digests[host] = newer
	}
	maps.Copy(digests, before)
	return digests
}

// Delete removes the filter from every host.
func (r *filterResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", state.noun(), &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	resp.Diagnostics.Append(
		r.changeTo(&state, network.Filter{}, nil, req.Private).Delete(ctx, state.Hosts, state.HostStates)...)
}

// ImportState accepts the filter's name. Read fills in the rest.
func (r *filterResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	onhosts.ImportByName(ctx, &r.Resource, "network filter", network.ReadFilter, req, resp)
}
