package placement

import (
	"context"
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// TestStartAlone_requiresItsPermit: a VM isn't started without a permit, or with one of another VM or host.
func TestStartAlone_requiresItsPermit(t *testing.T) {
	t.Parallel()

	here, there := &inventory.Host{}, &inventory.Host{}
	vm := &inventory.VM{UUID: "this", On: here}

	for name, permit := range map[string]*StartPermit{
		"none":            nil,
		"of another VM":   permitStart(&inventory.VM{UUID: "other", On: here}, func() {}),
		"on another host": permitStart(&inventory.VM{UUID: "this", On: there}, func() {}),
	} {
		err := (&Claims{}).StartAlone(t.Context(), permit, vm, func(context.Context) error {
			t.Errorf("%s: it was started", name)

			return nil
		})
		if !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if err := permitStart(vm, func() {}).verify(vm); err != nil {
		t.Error(err)
	}
}
