package placement

import (
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// SchedulingBlockers returns what excludes a host for a VM that doesn't name it. They are known without asking the
// host. Scheduler.judge checks the same for a VM that is created.
func SchedulingBlockers(vm *inventory.VM, h *inventory.Host) []migration.Blocker {
	return append(unscheduledBlocker(h), LabelBlocker(vm, h, status.False)...)
}

// unscheduledBlocker returns a blocker if VMs are only placed on the host if they name it.
func unscheduledBlocker(h *inventory.Host) []migration.Blocker {
	if !h.Config.Unschedulable {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.HostNotSchedulable, Status: status.False, Attribute: "host",
		Message: fmt.Sprintf("host %q accepts only VMs that name it (schedulable = false)", h.Name),
		Remedy:  "Name the host as the target, or make it schedulable.",
	}}
}

// LabelBlocker returns a blocker if the host lacks labels that the VM's placement requires. In a plan that names the
// host it is only a doubt: the same apply may change the labels.
func LabelBlocker(vm *inventory.VM, h *inventory.Host, certainty status.ConditionStatus) []migration.Blocker {
	if policy.HasLabels(h.Config.Labels, vm.Metadata.HostLabels) {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.HostLabelsMismatch, Status: certainty, Attribute: "host",
		Message: fmt.Sprintf("host %q lacks labels that the VM's placement requires (%s)", h.Name,
			labelText(missingLabels(h.Config.Labels, vm.Metadata.HostLabels))),
		Remedy: "Choose another host, or change the host's labels or placement.host_labels.",
	}}
}
