package move

import (
	"context"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// bringCheckpoints makes known on the target, where the VM is now, the checkpoints that it had at the source. libvirt
// doesn't move them, although their bitmaps move with the disks: without them, no backup can continue its chain. It
// returns those that failed, and why. The move itself has succeeded by then.
func (m *move) bringCheckpoints(ctx context.Context, now *inventory.VM) (lost []string) {
	for _, c := range m.checkpoints {
		err := m.to.Conn.RedefineCheckpoint(ctx, now.UUID, c, now.Active)
		if err != nil {
			lost = append(lost, fmt.Sprintf("%s: %s", c.Name, inventory.PlainCause(err)))
		}
	}

	return lost
}
