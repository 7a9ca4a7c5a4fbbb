package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// A guest whose storage failed isn't forced off, unless it is to have no time to shut down.
func TestRefuseIOError(t *testing.T) {
	t.Parallel()

	stuck := &inventory.VM{State: libvirt.Paused, Reason: libvirt.ReasonIOError}
	if err := refuseIOError(stuck, stopOptions{grace: time.Second}); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}

	if err := refuseIOError(stuck, stopOptions{}); err != nil {
		t.Error(err)
	}

	if err := refuseIOError(stuck, stopOptions{grace: time.Second, forceIOError: true}); err != nil {
		t.Error(err)
	}

	suspended := &inventory.VM{State: libvirt.Paused, Reason: "User"}
	if err := refuseIOError(suspended, stopOptions{grace: time.Second}); err != nil {
		t.Error(err)
	}
}
