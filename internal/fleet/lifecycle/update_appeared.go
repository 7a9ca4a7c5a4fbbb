package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// verifyDevicesKnown returns an error if the VM has got a device since the change was planned, which would be removed.
func (u *update) verifyDevicesKnown() error {
	if u.want.Known == nil {
		return nil
	}

	appeared := slices.DeleteFunc(domain.Undeclared(u.vm.DevicePaths(), u.want.Spec), func(path string) bool {
		return slices.Contains(u.want.Known, path)
	})
	if len(appeared) == 0 {
		return nil
	}

	return &inventory.Error{
		VM: u.vm.Name, Host: u.vm.Host, Kind: inventory.ErrBusy,
		Detail: fmt.Sprintf("since the change was planned, it has got %s. This run would remove that, which was not "+
			"planned. Nothing is changed", strings.Join(appeared, ", ")),
		Remedy: "To keep the device, declare it.", Next: inventory.Review,
	}
}
