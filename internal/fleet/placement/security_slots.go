package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// takenSlots returns a shortage if other VMs have all slots of the host's processor for the keys of protected memory.
// The VM whose UUID is leaving doesn't count.
func (p *Scheduler) takenSlots(
	ctx context.Context, a inventory.Reply, name string, use domain.HostUse, leaving string,
) []shortage {
	limit, known := slotsOf(ctx, a, use.Slot)
	if !known {
		return nil
	}

	p.reservations.mu.Lock()
	others := uses(p.residents(a, leaving), name)
	p.reservations.mu.Unlock()

	return fullSlots(limit, use.Slot, others)
}

// slotsOf returns how many slots of a kind the host's processor has, and false if that is unknown, or no kind is given.
func slotsOf(ctx context.Context, a inventory.Reply, slot domain.SecuritySlot) (limit int, known bool) {
	if slot == "" {
		return 0, false
	}

	devices, err := a.Host.Conn.GuestDevices(ctx, a.Info.Arch, "kvm", "")
	if err != nil {
		return 0, false // QEMU then reports a missing slot when the VM starts
	}

	return devices.MaxGuests(slot == domain.SlotSEVES)
}

// fullSlots returns a shortage if the other VMs have all slots of a kind.
func fullSlots(limit int, slot domain.SecuritySlot, others map[string]domain.HostUse) []shortage {
	holders := slices.DeleteFunc(slices.Sorted(maps.Keys(others)), func(name string) bool {
		return others[name].Slot != slot
	})
	if len(holders) < limit {
		return nil
	}

	message := fmt.Sprintf("has %d slots for guests with %s", limit, slot)
	if len(holders) > 0 {
		message += ", and has given them to VMs " + inventory.QuoteList(holders)
	}

	return []shortage{{
		Problem: domain.Problem{Path: domain.LaunchSecurityType, Message: message}, reason: migration.HostResourcesTaken,
	}}
}
