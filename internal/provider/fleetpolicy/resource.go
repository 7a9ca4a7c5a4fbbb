package fleetpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Model is a kind of policy in Terraform. It embeds Common.
type Model[P policy.Policy] interface {
	Shared() *Common
	// Known reports whether the state has more than the id that an import begins with.
	Known() bool
	// ToFleet returns the policy with that id. FromFleet sets everything that isn't in Common.
	ToFleet(id string) P
	FromFleet(P)
	// Validate checks everything that can be checked without a host.
	Validate() diag.Diagnostics
}

// Kind is one kind of policy.
type Kind[P policy.Policy] struct {
	// TypeName is the resource's full name, and Noun its name in errors.
	TypeName, Noun string
	Schema         schema.Schema
	// NewModel returns an empty model, a pointer to a struct.
	NewModel func() Model[P]
	// In returns the fleet's store for policies of this kind.
	In func(*fleet.Fleet) records.Policies[P]
}

// New returns the resource that manages the policies of a kind.
func New[P policy.Policy](kind Kind[P]) resource.Resource {
	return &managed[P]{Resource: meta.Resource{TypeName: kind.TypeName}, kind: kind}
}

var (
	_ resource.ResourceWithConfigure      = (*managed[policy.Identity])(nil)
	_ resource.ResourceWithImportState    = (*managed[policy.Identity])(nil)
	_ resource.ResourceWithModifyPlan     = (*managed[policy.Identity])(nil)
	_ resource.ResourceWithValidateConfig = (*managed[policy.Identity])(nil)
)

// managed manages policies of one kind.
type managed[P policy.Policy] struct {
	meta.Resource
	kind Kind[P]
}

// Schema describes the resource.
func (r *managed[P]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.kind.Schema
}

// ValidateConfig checks everything that can be checked without a host.
func (r *managed[P]) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	if config := r.model(ctx, req.Config, &resp.Diagnostics); config != nil {
		resp.Diagnostics.Append(config.Validate()...)
	}
}

// model reads a configuration, plan or state. It returns nil if it can't be read.
func (r *managed[P]) model(ctx context.Context, from interface {
	Get(ctx context.Context, target any) diag.Diagnostics
}, diags *diag.Diagnostics,
) Model[P] {
	m := r.kind.NewModel()
	diags.Append(from.Get(ctx, m)...)
	if diags.HasError() {
		return nil
	}
	return m
}

// policies returns the fleet's policies of this kind.
func (r *managed[P]) policies() records.Policies[P] { return r.kind.In(r.Data.Fleet) }

// Create writes the policy to every host. A host that doesn't answer gets it in a later apply, which refuses if that
// host then has another policy of the same name.
func (r *managed[P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan := r.model(ctx, req.Plan, &resp.Diagnostics)
	if plan == nil || !r.Asks("create", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Shared().Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	began := time.Now()
	id, err := r.newID(ctx, plan)
	if err != nil {
		resp.Diagnostics.Append(r.failure(ctx, plan, "create", err, began).Error())
		return
	}
	var having []string
	written := r.Data.Written.Writing(r.TypeName, id)
	defer func() { written(having) }()
	lacking, err := r.policies().Put(ctx, plan.ToFleet(id))
	having = slices.DeleteFunc(r.Data.Fleet.AskedHosts(), func(h string) bool { return slices.Contains(lacking, h) })
	if len(having) == 0 {
		resp.Diagnostics.Append(r.failure(ctx, plan, "create", err, began).Error())
		return
	}
	if err != nil {
		f := r.failure(ctx, plan, "write", err, began)
		f.Remedy = "The other hosts have it. Apply again when these answer."
		resp.Diagnostics.Append(f.Warning())
	}
	plan.Shared().ID = types.StringValue(id)
	plan.Shared().StaleHosts = value.NewStringList(append([]string{}, lacking...))
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// newID returns a new id, or the id of the same policy if the hosts have it already. A killed create
// may have left it behind, or it may be another resource's: nothing tells which. The plan says so.
func (r *managed[P]) newID(ctx context.Context, plan Model[P]) (string, error) {
	copies, err := r.policies().Copies(ctx, func(p P) bool { return policy.Same(p, plan.ToFleet(p.Identified().ID)) })
	if err != nil {
		return "", err
	}
	if found, _ := foundAndSilent(copies); found != nil {
		return (*found).Identified().ID, nil
	}
	return uuid.NewString(), nil
}

// Read compares the copies of all hosts. The policy is gone if every host answered and none has it.
func (r *managed[P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	state := r.model(ctx, req.State, &resp.Diagnostics)
	if state == nil || !r.Asks("read", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	began := time.Now()
	id := state.Shared().ID.ValueString()
	copies, err := r.policies().Copies(ctx, func(p P) bool { return p.Identified().ID == id })
	if err != nil {
		resp.Diagnostics.Append(r.failure(ctx, state, "read", err, began).Error())
		return
	}
	found, silent := foundAndSilent(copies)
	switch {
	case found == nil && silent == nil:
		resp.State.RemoveResource(ctx)
		return
	case found == nil && (r.Data.OnUnreachable != meta.OnUnreachableKeep || !state.Known()):
		resp.Diagnostics.Append(r.failure(ctx, state, "read", silent.Err, began).Error())
		return
	case silent != nil:
		f := r.failure(ctx, state, "compare", silent.Err, began)
		f.Happened = fmt.Sprintf("host %q doesn't answer, so its copy of %s could not be compared", silent.Host, f.Noun)
		resp.Diagnostics.Append(f.Warning())
	}
	if found == nil {
		return
	}
	setFromCopies(state, copies, *found)
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// Update writes the policy to every host.
func (r *managed[P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	plan := r.model(ctx, req.Plan, &resp.Diagnostics)
	if plan == nil {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Shared().Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	began := time.Now()
	lacking, err := r.policies().Put(ctx, plan.ToFleet(plan.Shared().ID.ValueString()))
	if err != nil {
		f := r.failure(ctx, plan, "update", err, began)
		f.Happened = "not written on host " + strings.Join(lacking, ", ")
		resp.Diagnostics.Append(f.Error())
	}
	if len(lacking) == len(r.Data.Fleet.AskedHosts()) {
		return
	}
	plan.Shared().StaleHosts = value.NewStringList(append([]string{}, lacking...))
	resp.Diagnostics.Append(resp.State.Set(ctx, plan)...)
}

// Delete removes the policy from every host, unless the same apply has written it for another resource.
func (r *managed[P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	state := r.model(ctx, req.State, &resp.Diagnostics)
	if state == nil || !r.Asks("delete", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Shared().Timeouts.Delete, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	began := time.Now()
	staying, removed := r.Data.Written.Removing(r.TypeName, state.Shared().ID.ValueString())
	defer removed()
	if len(staying) > 0 {
		noun := fmt.Sprintf("%s %q", r.kind.Noun, state.Shared().label())
		resp.Diagnostics.Append(meta.KeptForAnother(noun, staying...))
		return
	}
	if left, err := r.policies().Remove(ctx, state.Shared().ID.ValueString()); err != nil {
		f := r.failure(ctx, state, "delete", err, began)
		f.Happened = "it may still be on host " + strings.Join(left, ", ")
		resp.Diagnostics.Append(f.Error())
	}
}

// ImportState finds the policy by id or name. Read fills in the rest.
func (r *managed[P]) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", r.kind.Noun, &resp.Diagnostics) {
		return
	}
	copies, err := r.policies().Copies(ctx, func(p P) bool {
		return req.ID == p.Identified().ID || req.ID == p.Identified().Name
	})
	if err == nil {
		found, silent := foundAndSilent(copies)
		switch {
		case found != nil:
			resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), (*found).Identified().ID)...)
			return
		case silent != nil:
			err = silent.Err
		default:
			err = &fleet.Error{Kind: fleet.ErrNotFound, Detail: fmt.Sprintf("no host has the %s %q", r.kind.Noun, req.ID)}
		}
	}
	resp.Diagnostics.Append(tfdiag.Failure{Verb: "import", Noun: r.kind.Noun, Err: err}.Error())
}

// failure turns an error about the policy into one for the user.
func (r *managed[P]) failure(
	ctx context.Context, m Model[P], verb string, err error, began time.Time,
) tfdiag.Failure {
	return tfdiag.Failure{
		Verb: verb, Noun: fmt.Sprintf("%s %q", r.kind.Noun, m.Shared().label()), Err: err, Elapsed: time.Since(began),
	}.Within(ctx)
}
