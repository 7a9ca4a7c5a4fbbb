package virtualmachine

import (
	"cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/migrationoptions"
)

// unread are the attributes that no host records, so that no refresh tells whether an update has reached them. True are
// those that an update brings to the host: keepUnreached says which of them a failed update has reached. The others say
// how the provider works. They are applied as soon as they are in the configuration.
var unread = map[string]bool{
	"update_policy":       false,
	"wait_for":            false,
	"timeouts":            false,
	migrationoptions.Name: false,
	profileName:           false, // It changes nothing of an existing VM.
	graphicsAccessName:    true,
}

// keepUnreached sets what an update that failed didn't bring to the host, and no refresh reads, to what it was before.
// The next plan then shows the change again. vm is the VM that the update returned. No refresh tells a first-boot block
// that is still to be removed from one that was never declared.
func (m *model) keepUnreached(before *model, vm *fleet.VM) {
	if m.CloudInit.IsNull() {
		m.CloudInit = cloudInitFromFleet(vm, *cmp.Or(vm.DeclaredSpec(), &domain.Spec{}), before.CloudInit)
	}
	if m.Ignition.IsNull() {
		m.Ignition = ignitionFromFleet(vm, before.Ignition, m.updatePolicy())
	}
	if !vm.PasswordSet {
		m.GraphicsAccess = before.GraphicsAccess
	}
}
