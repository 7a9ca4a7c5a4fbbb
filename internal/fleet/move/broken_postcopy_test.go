package move

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What on_irrecoverable ends may have become whole since the migration was given up. Only the source can tell.
func TestHoldsAllMemory(t *testing.T) {
	t.Parallel()

	failed := &libvirt.Domain{State: libvirt.Running, Reason: libvirt.ReasonPostcopyFailed}
	paused := &libvirt.Domain{State: libvirt.Paused, Reason: libvirt.ReasonPostcopyFailed}
	off := func(reason string) *libvirt.Domain { return &libvirt.Domain{State: libvirt.Shutoff, Reason: reason} }

	for name, test := range map[string]struct {
		source, target *libvirt.Domain
		want           bool
	}{
		"the source has sent all":         {off(libvirt.ReasonMigrated), failed, true},
		"the source has crashed":          {off("Crashed"), failed, false},
		"the source was destroyed":        {off("Destroyed"), failed, false},
		"the source has forgotten":        {off("Unknown"), failed, false},
		"the source is gone":              {nil, failed, false},
		"the source has its part":         {paused, failed, false},
		"the target has ended since then": {off(libvirt.ReasonMigrated), off("Crashed"), false},
		"the target is gone":              {off(libvirt.ReasonMigrated), nil, false},
	} {
		if got := holdsAllMemory(test.source, test.target); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
