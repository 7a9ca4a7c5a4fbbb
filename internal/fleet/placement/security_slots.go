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
	if use.Slot == "" {
		return nil
	}

	devices, err := a.Host.Conn.GuestDevices(ctx, a.Info.Arch, "kvm", "")
	if err != nil {
		return nil // QEMU then reports a missing slot when the VM starts
	}

	limit, known := devices.MaxGuests(use.Slot == domain.SlotSEVES)
	if !known {
		return nil
	}

	p.reservations.mu.Lock()
	others := uses(p.residents(a, leaving), name)
	p.reservations.mu.Unlock()

	return fullSlots(limit, use.Slot, others)
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
