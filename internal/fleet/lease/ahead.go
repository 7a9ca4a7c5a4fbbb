package lease

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// silentPolls is after how many reads without a change a run looks for other leases of the same owner: an owner that
// lives would have renewed its lease by then.
const silentPolls = 4

// watchOwner begins to watch the other leases that the owner of s has, on this host and elsewhere, because this run
// may want them next if the owner was killed. Then acquire continues with what was seen of them. Each lease is watched
// for itself: that an owner doesn't renew one of them proves nothing about the others, and two owners may have the same
// name.
//
// It only reads: an owner that lives doesn't lose a lease that no other run wants.
func (k *Keeper) watchOwner(on Store, name string, s libvirt.OwnSecret) {
	owner := ownerOf(s)
	if owner == "" || k.lifetime.Err() != nil {
		return
	}

	k.watchOwnerOn(on, name, owner)

	if k.elsewhere == nil {
		return
	}

	for _, other := range k.elsewhere() {
		if other.Name() != on.Name() {
			k.watchOwnerOn(other, "", owner)
		}
	}
}

// watchOwnerOn watches the leases of that owner on a host, except one.
func (k *Keeper) watchOwnerOn(on Store, except, owner string) {
	key := keyOf(on, owner)
	if _, already := k.ownersAhead.LoadOrStore(key, struct{}{}); already {
		return
	}

	k.background.Go(func() {
		defer k.ownersAhead.Delete(key)

		ids, err := on.OwnSecretIDs(k.lifetime, UsagePrefix)
		if err != nil {
			return // Whoever wants these leases watches them later.
		}

		var all sync.WaitGroup
		defer all.Wait()

		for _, id := range ids {
			name := strings.TrimPrefix(id, UsagePrefix)
			if name == except || strings.HasPrefix(id, successorPrefix) {
				continue
			}

			all.Go(func() { k.watchLease(k.lifetime, on, name, owner) })
		}
	})
}

// watchLease watches a lease until it is abandoned, and forgets what it saw if the lease isn't that owner's, if it
// changes, or if a read isn't answered.
func (k *Keeper) watchLease(ctx context.Context, on Store, name, owner string) {
	w := k.continueWatch(on, name)

	for !w.abandoned() {
		s, err := Current(ctx, on, name)
		if err != nil || s == nil || ownerOf(*s) != owner {
			break
		}

		before := w.seen.UUID
		if w.look(*s) && before != "" {
			break
		}

		k.ahead.Store(keyOf(on, name), w)

		if admission.Pause(ctx, pollInterval) != nil {
			break
		}
	}

	if !w.abandoned() {
		k.ahead.Delete(keyOf(on, name))
	}
}

// continueWatch returns what this run has seen of a lease before this operation wants it. However long ago it was
// abandoned: it counts as abandoned only if the next read shows the same value, and a secret never gets a value twice.
// If it was not seen for long enough, only a watch counts that continues: in a gap, the host may not have answered its
// owner.
func (k *Keeper) continueWatch(on Store, name string) watch {
	found, _ := k.ahead.Load(keyOf(on, name))

	w, ok := found.(watch)
	if !ok || !w.abandoned() && time.Since(w.at) > renewInterval {
		return watch{}
	}

	w.unchanged-- // The next read may follow the last one sooner than after pollInterval.

	return w
}
