package networkdhcphost

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
)

const (
	// othersBegin is how long an update waits for the updates of the reservations whose values it is to get to begin:
	// Terraform begins several at the same time. othersEnd is how long it waits until they end.
	othersBegin = 5 * time.Second
	othersEnd   = time.Minute
	othersPoll  = 200 * time.Millisecond
)

// awaitFree waits until no other reservation has a value of the planned one any more, as long as the same run changes
// those. If their updates wait for this one in turn, as when two swap or three rotate addresses, it removes this one,
// so that no two ever have the same value; removed says so. It returns the other reservations that still have a value.
func (r *hostResource) awaitFree(
	ctx context.Context, targets hostset.Set, plan, state *model,
) (removed bool, taken map[string]error) {
	begun := time.Now()
	changed := begun // when the others were last known to be changed
	for {
		taken = plan.takenOn(hostset.Ask(ctx, targets, plan.read), false, nil)
		if len(taken) == 0 || ctx.Err() != nil {
			return removed, taken
		}
		change, awaited := r.Data.Reservations.Awaits(plan.key(), plan.others(taken))
		if change {
			changed = time.Now()
		}
		if awaited && !removed {
			removed = true // On some hosts at least.
			for host, err := range r.remove(ctx, targets, state) {
				taken[host] = err
				change = false
			}
			if !change {
				return removed, taken
			}
			continue
		}
		if time.Since(changed) > othersBegin || time.Since(begun) > othersEnd {
			return removed, taken
		}
		select {
		case <-time.After(othersPoll):
		case <-ctx.Done():
		}
	}
}

// others returns the ids of other reservations.
func (m *model) others(taken map[string]error) (ids []string) {
	for _, err := range taken {
		if reserved, is := errors.AsType[*network.ReservedError](err); is {
			ids = append(ids, m.Network.ValueString()+"/"+reserved.Have.Key())
		}
	}
	return ids
}

// remove removes the reservation from hosts.
func (r *hostResource) remove(ctx context.Context, hosts hostset.Set, m *model) map[string]error {
	return r.change(ctx, hosts, m, network.RemoveReservation)
}

// put writes the reservation on hosts.
func (r *hostResource) put(ctx context.Context, hosts hostset.Set, m *model) map[string]error {
	return r.change(ctx, hosts, m, network.PutReservation)
}

// change changes the reservation on hosts. It is no error if its network is gone: the next refresh leaves the host out.
func (r *hostResource) change(
	ctx context.Context, hosts hostset.Set, m *model,
	onHost func(context.Context, network.LockFunc, *libvirt.Host, string, network.DHCPHost) error,
) map[string]error {
	return hostset.Each(ctx, hosts, func(ctx context.Context, h hostset.Host) error {
		err := onHost(ctx, r.Data.Fleet.LockShared, h.Conn, m.Network.ValueString(), m.reservation())
		if errors.Is(err, libvirt.ErrNotFound) {
			return nil
		}
		return err
	})
}

// restore writes the former reservation again on hosts where the update has failed after awaitFree has removed it.
func (r *hostResource) restore(ctx context.Context, hosts hostset.Set, state *model) diag.Diagnostics {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	return onhosts.Failures("restore", state.noun(), r.put(ctx, hosts, state))
}
