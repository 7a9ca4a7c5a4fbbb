package move

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestNotMoved_late: until the memory was copied once, a guest's writes can't be why a migration takes too long.
func TestNotMoved_late(t *testing.T) {
	t.Parallel()

	for iteration, want := range map[uint64]string{
		1: "47.0 MiB of 145.0 MiB remained, at 4.0 MiB/s. The timeout is too short",
		3: "Its guest writes to its memory faster",
	} {
		failed := &migration.FailedError{Err: migration.ErrLate}
		failed.State.Statistics = libvirt.Job{
			Elapsed: 25 * time.Second, Iteration: iteration, MemoryRate: 4 << 20,
			Memory: libvirt.Transfer{Total: 145 << 20, Remaining: 47 << 20},
		}

		err := notMoved(t.Context(), &inventory.VM{Name: "web"}, &inventory.Host{Name: "kvm1"},
			&inventory.Host{Name: "kvm2"}, failed)

		var said *inventory.Error
		if !errors.As(err, &said) || !strings.Contains(said.Remedy, want) ||
			!strings.Contains(said.Remedy, "allow_post_copy") {
			t.Errorf("in iteration %d: %v", iteration, err)
		}
	}
}
