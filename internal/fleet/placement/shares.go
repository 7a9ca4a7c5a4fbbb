package placement

import (
	"context"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// SharesLeft returns how much is left of what the host divides among its VMs, as far as VMs with these uses need it and
// it is known.
func (cy *Capacity) SharesLeft(
	ctx context.Context, a inventory.Reply, needs []domain.HostUse,
) map[evacuation.Share]uint64 {
	asked := domain.HostUse{Networks: map[string][]string{}, Floors: map[string]domain.NetworkFloor{}}
	totals := make(map[evacuation.Share]uint64)

	for _, use := range needs {
		for network := range use.Networks {
			asked.Networks[network] = nil
		}

		for network := range use.Floors {
			asked.Floors[network] = domain.NetworkFloor{}
		}

		if limit, known := slotsOf(ctx, a, use.Slot); known {
			totals[evacuation.Share{Kind: evacuation.SecuritySlots, Of: string(use.Slot)}] = uint64(max(0, limit))
		}
	}

	has := offerTo(ctx, a, asked, "")

	for network := range asked.Floors {
		if g, known := has.guarantees[network]; known {
			totals[evacuation.Share{Kind: evacuation.Bandwidth, Of: network}] = g.Limit
		}
	}

	for network, devices := range has.networks {
		totals[evacuation.Share{Kind: evacuation.NetworkDevices, Of: network}] = uint64(len(devices))
	}

	if len(totals) == 0 {
		return nil
	}

	cy.reservations.mu.Lock()
	defer cy.reservations.mu.Unlock()

	return has.sharesLeft(totals, uses(cy.residents(a, ""), ""))
}

// sharesLeft returns what the others leave of the totals.
func (has offer) sharesLeft(
	totals map[evacuation.Share]uint64, others map[string]domain.HostUse,
) map[evacuation.Share]uint64 {
	left := make(map[evacuation.Share]uint64, len(totals))

	for share, all := range totals {
		var taken uint64

		for _, use := range others {
			if share.Kind == evacuation.NetworkDevices {
				taken += uint64(handedTo(use, share.Of, has.networks[share.Of])) //nolint:gosec // A count.
			} else {
				taken += evacuation.SharesOf(use)[share]
			}
		}

		left[share] = all - min(all, taken)
	}

	return left
}
