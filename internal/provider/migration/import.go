package migration

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	fleetmigration "github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// ImportState imports a migration that the VM has a record of, by "<id of the VM>/<id of the migration>". Read fills in
// the result. The order is not recorded, but the id follows from it: a configuration with that id is this migration.
func (r *Resource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	uuid, id, _ := strings.Cut(req.ID, "/")
	m := model{VirtualMachineID: types.StringValue(uuid)}
	vm, record, err := r.Data.Fleet.MigrationRecord(ctx, uuid, fleet.LastKnown{}, id)
	if err == nil {
		err = whyNotImportable(vm, id, record)
	}
	if err != nil {
		resp.Diagnostics.Append(m.failure("import", err).Error())
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("virtual_machine_id"), uuid)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("id"), id)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("target_host"), m.orderedHost(id,
		record.TargetHost))...)
	resp.Diagnostics.Append(saveLastKnown(ctx, resp.Private, vm)...)
}

// orderedHost returns the target host that the migration with that id was ordered to, null if the order named none. It
// is also null if the order had triggers, which can't be guessed.
func (m *model) orderedHost(id, went string) types.String {
	named := *m
	named.TargetHost = types.StringValue(went)
	if named.plannedID().ValueString() == id {
		return named.TargetHost
	}
	return types.StringNull()
}

// whyNotImportable returns the error that there is nothing to import.
func whyNotImportable(vm *fleet.VM, id string, record *domain.Migration) error {
	switch {
	case id == "" || record == nil:
		return &fleet.Error{
			VM: vm.Name, Host: vm.Host, Kind: fleet.ErrNotFound, Detail: "it has no record of that migration",
			Remedy: "Import by \"<id of the virtual machine>/<id of the migration>\". " +
				knownMigrations(vm.Metadata.Migrations),
		}
	case record.Failed:
		return &fleet.Error{
			VM: vm.Name, Host: vm.Host, Kind: fleet.ErrInvalid, Detail: "that migration failed: " + record.FailureReason,
			Remedy: "There is nothing to take over. Apply without importing it, which tries again.",
		}
	case record.Phase != fleetmigration.PhaseSucceeded:
		return &fleet.Error{
			VM: vm.Name, Host: vm.Host, Kind: fleet.ErrInvalid,
			Detail: fmt.Sprintf("migration %s from host %q to host %q, begun at %s by %s, has not ended: its phase is %q", id,
				record.SourceHost, record.TargetHost, record.Start.Format(time.RFC3339), record.Owner, record.Phase),
			Remedy: "Apply without importing it: the apply waits for it if it continues, and completes it if its run was " +
				"killed.",
		}
	default:
		return nil
	}
}

// knownMigrations lists the migrations that could be imported.
func knownMigrations(records []domain.Migration) string {
	var all []string
	for _, m := range records {
		if m.ID != "" && m.Phase == fleetmigration.PhaseSucceeded {
			all = append(all, fmt.Sprintf("%s (from host %q to host %q, begun at %s by %s)", m.ID, m.SourceHost,
				m.TargetHost, m.Start.Format(time.RFC3339), m.Owner))
		}
	}
	if len(all) == 0 {
		return "The VM has none: changes of host and drains can't be imported."
	}
	return "The VM has " + strings.Join(all, ", ") + "."
}
