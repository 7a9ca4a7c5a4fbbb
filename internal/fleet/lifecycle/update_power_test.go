package lifecycle

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Who interrupts a restart is told that the next apply starts the VM. Who interrupts a stop isn't.
func TestSayWhatIsStarted(t *testing.T) {
	t.Parallel()

	const before = "Apply again to continue."

	remedy := func(kind error, starts bool) string {
		var e *inventory.Error
		if !errors.As(sayWhatIsStarted(&inventory.Error{Kind: kind, Remedy: before}, starts), &e) {
			t.Fatal("another error")
		}

		return e.Remedy
	}

	if got := remedy(ErrNotReady, true); got == before {
		t.Errorf("of a restart: %s", got)
	}

	if got := remedy(ErrNotReady, false); got != before {
		t.Errorf("of a stop: %s", got)
	}

	if got := remedy(inventory.ErrBusy, true); got != before {
		t.Errorf("of another failure: %s", got)
	}
}
