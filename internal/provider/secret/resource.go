package secret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// writtenValue returns the secret's value, which only the configuration has.
func writtenValue(ctx context.Context, config interface {
	Get(ctx context.Context, target any) diag.Diagnostics
},
) (data []byte, diags diag.Diagnostics) {
	var m model
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() || m.ValueBase64WO.IsNull() {
		return []byte(m.ValueWO.ValueString()), diags
	}
	data, more := decode(m.ValueBase64WO.ValueString(), path.Root("value_base64_wo"))
	return data, append(diags, more...)
}

// isLost reports whether all hosts can tell, and none of them has the secret: its value is lost already.
func (m *model) isLost(ctx context.Context, hosts hostset.Set) bool {
	answers := hostset.Ask(ctx, hosts, func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
		return h.UserSecret(ctx, m.ID.ValueString())
	})
	return len(hostset.Found(answers)) == 0 && len(hostset.Silent(answers)) == 0
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

// putKeepingValue returns the Put of a change without a new value_wo_version. The value in the configuration may be
// another one now, typed again or generated, so hosts that have the secret keep its value. A host that lacks it gets
// the value of one of the known hosts, or that of the configuration if libvirt doesn't reveal the value. It gets none
// while a host that had the secret, according to states, doesn't answer.
func putKeepingValue(m *model, data []byte, known hostset.Set, states map[string]string) onhosts.Do {
	id := m.ID.ValueString()
	return func(ctx context.Context, s hostset.Set) map[string]error {
		value := sync.OnceValues(func() ([]byte, error) {
			if m.Private.ValueBool() {
				return data, nil
			}
			answers := hostset.Ask(ctx, known, func(ctx context.Context, h *libvirt.Host) (*[]byte, error) {
				value, err := h.UserSecretValue(ctx, id)
				return &value, err
			})
			if values := hostset.Found(answers); len(values) > 0 {
				return *values[0].Value, nil
			}
			for _, a := range answers {
				silent := errors.Is(a.Err, libvirt.ErrUnreachable) || errors.Is(a.Err, libvirt.ErrNoSecretDriver)
				if silent && states[a.Host] == onhosts.Present {
					return nil, fmt.Errorf("%w: the value is unknown while host %q doesn't answer. To write the one of the "+
						"configuration, change value_wo_version", libvirt.ErrOperationInvalid, a.Host)
				}
			}
			return data, nil
		})
		return onhosts.Each(func(ctx context.Context, h *libvirt.Host) error {
			switch _, err := h.UserSecret(ctx, id); {
			case err == nil:
				return h.PutUserSecret(ctx, m.secret(), nil)
			case !errors.Is(err, libvirt.ErrNotFound):
				return err
			}
			data, err := value()
			if err != nil {
				return err
			}
			return h.PutUserSecret(ctx, m.secret(), data)
		})(ctx, s)
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
	for _, f := range silences("update", &plan, silent) {
		if !writes {
			f.Remedy = "If it has one, change value_wo_version when the host answers: then the secret is written to it."
			resp.Diagnostics.Append(f.Warning())
			continue
		}
		f.Remedy = "Bring the host back, or set its fenced = true if it is off for good, and apply again. Until then the " +
			"state doesn't have the new value_wo_version."
		resp.Diagnostics.Append(f.Error()) // With a warning alone, Terraform would refuse another value_wo_version.
	}
	if (!complete || len(failed) > 0 || len(silent) > 0) && writes {
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
	if opens, ok := opened[state.Usage.ValueString()]; ok {
		destroyed, confirmed, diags := state.removal(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		remedy := opens.lost + elsewhere
		if !destroyed {
			remedy = newVersion
		}
		if !confirmed && !state.isLost(ctx, slices.Concat(known, copies)) {
			resp.Diagnostics.Append(opens.refuseLoss(ctx, slices.Concat(known, copies), &state, remedy)...)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(c.Delete(ctx, state.Hosts, state.HostStates)...)
	resp.Diagnostics.Append(onhosts.Failures("delete", state.noun(), c.Remove(ctx, copies))...)
	for _, f := range silences("delete", &state, silent) {
		f.Remedy = "If it has one, remove it there: virsh secret-undefine " + state.ID.ValueString()
		resp.Diagnostics.Append(f.Warning())
	}
}

// removal says whether a delete is a planned destroy, or else part of a replacement, and then whether a new
// value_wo_version confirms the value of the secret in its place. Terraform tells no plan about a replacement that a
// user asks for ("terraform taint").
func (m *model) removal(
	ctx context.Context, private meta.PrivateReader,
) (destroyed, confirmed bool, diags diag.Diagnostics) {
	_, diags = meta.ReadPrivate(ctx, private, privateDestroyed, &destroyed)
	var planned any
	_, more := meta.ReadPrivate(ctx, private, privatePlanned, &planned)
	diags.Append(more...)
	keeps, more := m.keepsPassphrase(ctx, private)
	diags.Append(more...)
	return destroyed, !destroyed && !keeps && m.hasOtherVersion(planned), diags
}

// keepsPassphrase reports whether the secret is an imported passphrase that has no value_wo_version yet: the first one
// is recorded, and the hosts keep their value.
func (m *model) keepsPassphrase(ctx context.Context, private meta.PrivateReader) (keeps bool, diags diag.Diagnostics) {
	if _, ok := opened[m.Usage.ValueString()]; !ok {
		return false, nil
	}
	_, diags = meta.ReadPrivate(ctx, private, privateImported, &keeps)
	return keeps, diags
}

// copiesElsewhere returns the hosts other than the known ones to which a VM that moved has brought the secret, and the
// hosts that can't tell. A move brings no private secret: libvirt doesn't give its value out.
func (r *secretResource) copiesElsewhere(
	ctx context.Context, known hostset.Set, m *model,
) (copies hostset.Set, silent map[string]error) {
	if m.Private.ValueBool() {
		return nil, nil
	}
	others := r.Data.Fleet.Connections().Present().Without(known.Names()...)
	answers := hostset.Ask(ctx, others, func(ctx context.Context, h *libvirt.Host) (*libvirt.UserSecret, error) {
		// It finds also one that a killed move has begun to bring.
		return h.SecretByUsage(ctx, m.Usage.ValueString(), m.UsageID.ValueString())
	})
	var names []string
	for _, a := range hostset.Found(answers) {
		if a.Value.UUID == m.ID.ValueString() {
			names = append(names, a.Host)
		}
	}
	return others.Named(names...), hostset.Silent(answers)
}

// silences returns what is unknown about hosts that can't tell whether they have a copy.
func silences(verb string, m *model, silent map[string]error) (failures []tfdiag.Failure) {
	for _, host := range value.Keys(silent) {
		failures = append(failures, tfdiag.Failure{
			Verb: verb, Noun: m.noun(), Host: host, Err: silent[host],
			Happened: "the host isn't in hosts, and can't tell whether a VM that moved there has brought a copy",
		})
	}
	return failures
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
