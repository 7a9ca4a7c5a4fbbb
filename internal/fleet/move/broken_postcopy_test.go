package move

import (
	"context"
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// What on_irrecoverable ends may have become whole since the migration was given up. Only the source can tell, and if
// libvirt there has forgotten the VM, QEMU's log.
func TestHoldsAllMemory(t *testing.T) {
	t.Parallel()

	failed := &libvirt.Domain{State: libvirt.Running, Reason: libvirt.ReasonPostcopyFailed}
	paused := &libvirt.Domain{State: libvirt.Paused, Reason: libvirt.ReasonPostcopyFailed}
	off := func(reason string) *libvirt.Domain { return &libvirt.Domain{State: libvirt.Shutoff, Reason: reason} }

	for name, test := range map[string]struct {
		source, target *libvirt.Domain
		want, forgot   bool
	}{
		"the source has sent all":         {off(libvirt.ReasonMigrated), failed, true, false},
		"the source has crashed":          {off("Crashed"), failed, false, false},
		"the source was destroyed":        {off("Destroyed"), failed, false, false},
		"the source has forgotten":        {off("Unknown"), failed, false, true},
		"the source is gone":              {nil, failed, false, true},
		"the source has its part":         {paused, failed, false, false},
		"the target has ended since then": {off(libvirt.ReasonMigrated), off("Crashed"), false, false},
		"the target is gone":              {off(libvirt.ReasonMigrated), nil, false, false},
		"both are gone":                   {nil, nil, false, false},
	} {
		if got := holdsAllMemory(test.source, test.target); got != test.want {
			t.Errorf("%s: %v", name, got)
		}

		if got := sourceForgot(test.source, test.target); got != test.forgot {
			t.Errorf("%s: is QEMU's log asked? %v", name, got)
		}
	}
}

// Where libvirt has forgotten how the source's process ended, QEMU's log decides, and what it doesn't say is no leave
// to destroy anything.
func TestVerifyNotSent(t *testing.T) {
	t.Parallel()

	const line = "2026-11-21 15:05:00.250+0000: shutting down"

	unreadable := errors.New("no such file")

	for name, test := range map[string]struct {
		log        string
		err, wants error
	}{
		"it has sent all":               {line + ", reason=migrated\nqemu: terminating\n", nil, migration.ErrAllSent},
		"it had sent all, ran, crashed": {line + ", reason=migrated\n" + line + ", reason=crashed\n", nil, nil},
		"it was destroyed":              {line + ", reason=destroyed\n", nil, nil},
		"the host lost power":           {"2026-11-21 15:05:00.250+0000: starting up\n", nil, nil},
		"the log can't be read":         {"", unreadable, unreadable},
	} {
		from := &inventory.Host{Name: "kvm1"}
		from.Config.ReadEnd = func(context.Context, string, int) ([]byte, error) { return []byte(test.log), test.err }

		if err := verifyNotSent(t.Context(), from, "web"); !errors.Is(err, test.wants) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
