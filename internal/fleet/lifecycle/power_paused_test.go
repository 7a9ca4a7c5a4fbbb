package lifecycle

import (
	"errors"
	"strings"
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

// A VM that is being started from saved memory, or moved by hand, isn't forced off because its guest can't be asked.
func TestRefuseLoading(t *testing.T) {
	t.Parallel()

	for _, reason := range []string{libvirt.ReasonStartingUp, libvirt.ReasonMigration} {
		loading := &inventory.VM{Active: true, State: libvirt.Paused, Reason: reason}
		m := &Manager{}

		outcome, err := m.shutDownOrDestroy(t.Context(), loading, stopOptions{grace: time.Second})
		if !errors.Is(err, inventory.ErrBusy) {
			t.Errorf("%s: %q, %v", reason, outcome, err)
		}

		if err := refuseLoading(loading, stopOptions{}); err != nil {
			t.Errorf("%s, without time to shut down: %v", reason, err)
		}
	}

	for _, vm := range []*inventory.VM{
		{State: libvirt.Paused, Reason: "User"},
		{State: libvirt.Running},
		{State: libvirt.Paused, Reason: libvirt.ReasonMigration, Stranded: true},
	} {
		if err := refuseLoading(vm, stopOptions{grace: time.Second}); err != nil {
			t.Errorf("%s %s: %v", vm.State, vm.Reason, err)
		}
	}
}

// What QEMU has stopped for good is said. Any other refusal may pass.
func TestExplainRefusedResume(t *testing.T) {
	t.Parallel()

	vm := &inventory.VM{Name: "web", Host: "kvm1"}

	for _, cause := range []error{libvirt.ErrResetRequired, libvirt.ErrInternal, libvirt.ErrBusy} {
		err := explainRefusedResume(vm, cause)
		if !errors.Is(err, cause) || strings.Contains(err.Error(), "for good") != errors.Is(cause, libvirt.ErrResetRequired) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
