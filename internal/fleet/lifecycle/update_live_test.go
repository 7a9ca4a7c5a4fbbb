package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Only a guest that was asked to release a device holds it. A host that was too busy to ask it doesn't have it
// restarted.
func TestHeldByGuest(t *testing.T) {
	t.Parallel()

	u := &update{vm: &inventory.VM{Name: "web", Host: "kvm1"}}

	for _, test := range []struct {
		kind domain.StepKind
		why  error
		held bool
	}{
		{domain.Detach, &libvirt.Error{Kind: libvirt.ErrNotReleased, Err: context.DeadlineExceeded}, true},
		{domain.Detach, &libvirt.Error{Kind: libvirt.ErrBusy, Err: errors.New("cannot acquire state change lock")}, false},
		{domain.Detach, &libvirt.Error{Kind: libvirt.ErrBusy, Err: context.DeadlineExceeded}, false},
		{domain.Detach, fmt.Errorf("reading the devices: %w", context.DeadlineExceeded), false},
		{domain.ChangeMedium, &libvirt.Error{Kind: libvirt.ErrBusy, Err: errors.New("locked")}, false},
	} {
		s := domain.Step{Kind: test.kind, Path: "interfaces.lan"}
		if heldByGuest(s, test.why) != test.held {
			t.Errorf("%v, %v: held is %t", test.kind, test.why, !test.held)
		}

		e, _ := errors.AsType[*inventory.Error](u.stepFailed(t.Context(), s, test.why))
		if e == nil || strings.Contains(e.Remedy, "gives a device back") != test.held {
			t.Errorf("%v, %v: %+v", test.kind, test.why, e)
		}
	}
}
