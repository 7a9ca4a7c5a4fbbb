package migration

import (
	"context"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// ModifyPlan plans a new migration, or keeps the result of the existing one.
func (r *Resource) ModifyPlan(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse,
) {
	if r.Data == nil {
		return
	}
	if req.Plan.Raw.IsNull() {
		if r.Data.Unknown {
			resp.Diagnostics.Append(r.Data.UnknownError("delete", noun))
		}
		return
	}
	var planned model
	resp.Diagnostics.Append(req.Config.Get(ctx, &planned)...)
	if resp.Diagnostics.HasError() {
		return
	}
	planned.ID = planned.plannedID()
	planned.Phase, planned.MigrationState = types.StringUnknown(),
		types.ObjectUnknown(migrationoptions.StateType.AttrTypes)
	if !req.State.Raw.IsNull() {
		var state model
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
		resp.RequiresReplace = planned.changedPaths(&state)
		if len(resp.RequiresReplace) == 0 {
			planned.ID, planned.Phase, planned.MigrationState = state.ID, state.Phase, state.MigrationState
		}
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privatePlanned, state.ID.ValueString())...)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &planned)...)
	resp.Diagnostics.Append(migrationoptions.Validate(planned.MigrationOptions, path.Root(migrationoptions.Name))...)
	if !planned.Phase.IsUnknown() || resp.Diagnostics.HasError() {
		return
	}
	order := planned.moveOrder(fleet.LastKnown{})
	var replaced string
	if req.State.Raw.IsNull() {
		_, diags := meta.ReadPrivate(ctx, req.Private, privatePlanned, &replaced)
		resp.Diagnostics.Append(diags...)
	}
	if replaced != "" && replaced == order.ID {
		// Its record doesn't count, because it is destroyed first. With create_before_destroy it is destroyed last, and
		// nothing is moved, but Terraform says that to no plan, and shows no warnings of a plan that replaces.
		order.ID = ""
	}
	r.checkMigration(ctx, &planned, order, resp)
}

// changedPaths returns the attributes whose changes make it another migration. An id belongs to one order only, so a
// migration with the same id is the same one, even if an import has left other values unknown.
func (m *model) changedPaths(state *model) path.Paths {
	if id := m.plannedID(); !id.IsUnknown() && id.Equal(state.ID) {
		return nil
	}
	var at path.Paths
	if !m.VirtualMachineID.Equal(state.VirtualMachineID) {
		at = append(at, path.Root("virtual_machine_id"))
	}
	if !m.TargetHost.Equal(state.TargetHost) {
		at = append(at, path.Root("target_host"))
	}
	// An empty map means the same as no map.
	same := maps.Equal(value.StringMap(m.Triggers), value.StringMap(state.Triggers))
	if m.plannedID().IsUnknown() && !m.Triggers.Equal(state.Triggers) || !same {
		at = append(at, path.Root("triggers"))
	}
	return at
}

// checkMigration asks the fleet whether the migration can work, as far as the values that it depends on are known.
func (r *Resource) checkMigration(
	ctx context.Context, m *model, order fleet.MoveOrder, resp *resource.ModifyPlanResponse,
) {
	options, err := m.MigrationOptions.ToTerraformValue(ctx)
	if err != nil || r.Data.Unknown || m.VirtualMachineID.IsUnknown() || m.TargetHost.IsUnknown() ||
		!options.IsFullyKnown() {
		return
	}
	problems, err := r.Data.Fleet.CheckMigration(ctx, order)
	if err != nil {
		resp.Diagnostics.Append(m.failure("plan", err).Error())
	}
	for i, p := range problems {
		problems[i].Attribute = attributeOf(p.Attribute)
	}
	resp.Diagnostics.Append(tfdiag.Problems(problems)...)
}

// attributeOf returns the attribute of this resource that corresponds to one of the VM.
func attributeOf(of string) string {
	switch {
	case of == "host" || of == "target_host":
		return "target_host"
	case strings.HasPrefix(of, migrationoptions.Name+"."):
		return of
	default:
		return "virtual_machine_id"
	}
}
