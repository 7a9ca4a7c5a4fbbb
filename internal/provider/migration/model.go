package migration

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the resource's configuration, plan and state.
type model struct {
	VirtualMachineID types.String   `tfsdk:"virtual_machine_id"`
	TargetHost       types.String   `tfsdk:"target_host"`
	Triggers         types.Map      `tfsdk:"triggers"`
	MigrationOptions types.Object   `tfsdk:"migration_options"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`
	ID               types.String   `tfsdk:"id"`
	Phase            types.String   `tfsdk:"phase"`
	MigrationState   types.Object   `tfsdk:"migration_state"`
}

// plannedID returns the id of the migration, unknown while any value that it follows from is unknown.
func (m *model) plannedID() types.String {
	of := struct {
		VirtualMachine, Target string
		Triggers               map[string]string `json:",omitempty"`
	}{m.VirtualMachineID.ValueString(), m.TargetHost.ValueString(), value.StringMap(m.Triggers)}
	unknown := m.VirtualMachineID.IsUnknown() || m.TargetHost.IsUnknown() || m.Triggers.IsUnknown()
	for _, v := range m.Triggers.Elements() {
		unknown = unknown || v.IsUnknown()
	}
	if unknown {
		return types.StringUnknown()
	}
	// JSON has the keys of a map in order.
	data, err := json.Marshal(of)
	if err != nil {
		return types.StringUnknown()
	}
	sum := sha256.Sum256(data)
	return types.StringValue(hex.EncodeToString(sum[:16]))
}

// moveOrder returns the order for the fleet.
func (m *model) moveOrder(last fleet.LastKnown) fleet.MoveOrder {
	return fleet.MoveOrder{
		UUID: m.VirtualMachineID.ValueString(), Last: last, ID: m.plannedID().ValueString(),
		Target: m.TargetHost.ValueString(), Options: migrationoptions.Options(m.MigrationOptions),
		Priority: admission.PriorityUser,
	}
}

// fromRecord sets the result of the migration.
func (m *model) fromRecord(r domain.Migration) {
	m.Phase = types.StringValue(r.Phase)
	m.MigrationState = migrationoptions.FromRecord(r)
}

// isNewer reports whether the state is about a later attempt than the record. That attempt failed before it had a
// record.
func (m *model) isNewer(r domain.Migration) bool {
	start, _ := m.MigrationState.Attributes()["start_time"].(types.String)
	began, err := time.Parse(time.RFC3339Nano, start.ValueString())
	return err == nil && began.After(r.Start)
}
