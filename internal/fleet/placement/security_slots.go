package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// takenSlots says that other VMs have all slots that the host's processor has for the keys of protected memory. The one
// with the UUID leaves.
func (p *Planner) takenSlots(
	ctx context.Context, a inventory.Reply, name string, use domain.HostUse, leaving string,
) []domain.Problem {
	if use.Slot == "" {
		return nil
	}

	devices, err := a.Host.Conn.GuestDevices(ctx, a.Info.Arch, "kvm", "")
	if err != nil {
		return nil // How many it has is then for QEMU to say, when the VM starts.
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

// fullSlots says that the others have all slots of a kind.
func fullSlots(limit int, slot domain.SecuritySlot, others map[string]domain.HostUse) []domain.Problem {
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

	return []domain.Problem{{Path: domain.LaunchSecurityType, Message: message}}
}
