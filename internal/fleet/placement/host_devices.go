package placement

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// lackedDevices are the devices of the use that the host doesn't have.
func lackedDevices(ctx context.Context, h *inventory.Host, use domain.HostUse) []domain.Problem {
	var problems []domain.Problem

	for _, part := range use.Parts() {
		if h.LacksDevice(ctx, part) {
			problems = append(problems, domain.Problem{Path: use.Alone[part], Message: "has no " + part.String()})
		}
	}

	return problems
}

// DeviceBlockers are the devices that the VM has of its host and that another one lacks, where it would be defined with
// them while it is off.
func (p *Planner) DeviceBlockers(ctx context.Context, to *inventory.Host, vm *inventory.VM) []migration.Blocker {
	if vm.PersistentSpec == nil {
		return nil
	}

	var blockers []migration.Blocker
	for _, lacked := range lackedDevices(ctx, to, vm.PersistentSpec.HostUse()) {
		blockers = append(blockers, migration.Blocker{
			Reason: migration.HostResourcesNotAvailable, Status: status.False, Attribute: lacked.Path,
			Message: fmt.Sprintf("host %q %s", to.Name, lacked.Message),
			Remedy:  "Choose another host, or declare a device that all of its hosts have.",
		})
	}

	return blockers
}
