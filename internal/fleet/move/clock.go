package move

import (
	"context"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// clockTimeout bounds the request to the guest agent to set the clock.
const clockTimeout = 5 * time.Second

// clockPoll is the pause between attempts to set the clock of a guest that was saved. Its agent first has to connect to
// its channel again.
const clockPoll = 250 * time.Millisecond

// SetClockOfSaved sets the clock of a guest that was resumed from its saved memory. It retries until the guest agent is
// connected again.
func (rec *Recovery) SetClockOfSaved(ctx context.Context, vm *inventory.VM) {
	if spec := vm.PersistentSpec; spec == nil || spec.GuestAgent == nil || !*spec.GuestAgent {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()

	for {
		err := vm.On.Conn.SetGuestTime(ctx, vm.UUID)
		if err == nil {
			return
		}

		if admission.Pause(ctx, clockPoll) != nil {
			rec.log.DebugContext(ctx, "guest's clock not set", "name", vm.Name, "host", vm.Host, "error", err.Error())

			return
		}
	}
}

// SetClock sets the guest's clock after the time for which it was paused, if possible. The VM, which runs on that host
// now, may have been read before it moved.
func (rec *Recovery) SetClock(ctx context.Context, on *inventory.Host, vm *inventory.VM) {
	if !vm.AgentConnected {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()

	if err := on.Conn.SetGuestTime(ctx, vm.UUID); err != nil {
		rec.log.DebugContext(ctx, "guest's clock not set", "name", vm.Name, "host", on.Name, "error", err.Error())
	}
}
