package lifecycle

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Who interrupts a restart is told that the next apply starts the VM. Who interrupts a stop isn't.
func TestSayWhatIsStarted(t *testing.T) {
	t.Parallel()

	const before = "it was not forced"

	said := func(kind error, starts bool) *inventory.Error {
		var e *inventory.Error
		if !errors.As(sayWhatIsStarted(&inventory.Error{Kind: kind, Detail: before}, starts), &e) {
			t.Fatal("another error")
		}

		return e
	}

	if e := said(ErrNotReady, true); !strings.Contains(e.Detail, before+". ") ||
		!strings.Contains(e.Detail, "starts it") || e.Next != inventory.Continue {
		t.Errorf("of a restart: %+v", e)
	}

	if e := said(ErrNotReady, false); e.Detail != before {
		t.Errorf("of a stop: %+v", e)
	}

	if e := said(inventory.ErrBusy, true); e.Detail != before {
		t.Errorf("of another failure: %+v", e)
	}
}
