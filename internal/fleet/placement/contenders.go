package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Two runs may start two VMs with one disk at the same moment: each would find that the other VM is off. What both runs
// see are the locks of the VMs: a run holds a VM's lock from before the VM is defined, or found, until it runs. So a
// run first holds its own VM's lock, and then looks which other VMs have the disk. It starts its VM only while it holds
// the locks of these too, and reads them again under their locks. Of two runs, one at least sees the other's VM, and
// waits. If both do, the run whose VM has the higher UUID gives up.
//
// A disk that no other VM has costs no lock. What other runs defined since the hosts were read is asked with one call
// for each other host, and only for a disk that other hosts may have too. What isn't seen is a disk that another run
// has added to its VM since it was read, without a change of its name or power.

const (
	// rivalPatience is how long a start waits for the run that is changing another VM with the same disk: longer than it
	// takes to take over the lock of a killed run.
	rivalPatience = 2 * time.Minute
	// yieldingPatience is how long it waits if that run may wait for this one.
	yieldingPatience = 2 * time.Second
	// roomPatience is how long it waits while it keeps other runs from the room of the host that has the other VM: the
	// other run may wait for that room.
	roomPatience = 20 * time.Second
	// returnPatience is how long it waits to start a VM again that this run has shut down. The other run gives up before
	// if both began to wait at once.
	returnPatience = rivalPatience + 30*time.Second
	// startReserve is what a wait leaves of the time of its operation, for the start itself.
	startReserve = 10 * time.Second
	// lookPatience is how long a start waits for what another host says about its VMs.
	lookPatience = 5 * time.Second
	// holderPatience limits the question whether the run that has a lock was killed: longer than that takes.
	holderPatience = 20 * time.Second
)

// patienceFor returns how long the start of a VM waits for the run that is changing the contender. That run may wait
// for this one, too.
func (s *StartPermit) patienceFor(o contender) time.Duration {
	switch {
	case s.returns:
		return returnPatience
	case s.uuid >= o.entry.UUID:
		return yieldingPatience
	case s.room && o.on == s.on:
		return roomPatience
	default:
		return rivalPatience
	}
}

// inTimeOf returns the patience that the operation has time for.
func inTimeOf(ctx context.Context, patience time.Duration) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		patience = min(patience, max(time.Until(deadline)-startReserve, yieldingPatience))
	}

	return patience
}

// contender is a VM that is off and, if it were started, would write to a disk of the claim, or has its name.
type contender struct {
	on     *inventory.Host
	entry  *inventory.Entry
	reason string // what they have in common, for users
}

// contenders returns the VMs that would be rivals if they were started. An image in the backing chain of a disk doesn't
// count: many VMs may have the disk of one VM as their base.
func contenders(answers []inventory.Reply, c claim) []contender {
	var all []contender

	for _, a := range answers {
		if a.View == nil || a.Err != nil {
			continue
		}

		for _, e := range a.View.Named(c.name) {
			if e.UUID != c.uuid && !claims(e) {
				all = append(all, contender{a.Host, e, "it has the name of another VM"})
			}
		}

		for _, disk := range c.disks {
			for _, e := range a.View.Having(disk) {
				if e.UUID == c.uuid || claims(e) {
					continue
				}

				if other, ok := sameDiskOf(disk, e, c.host == a.Host.Name); ok {
					all = append(all, contender{a.Host, e, fmt.Sprintf("its %s (%s) is also %s of another VM", disk.Text(),
						disk.Source.Name(), other.Text())})
				}
			}
		}
	}

	slices.SortFunc(all, func(x, y contender) int { return strings.Compare(x.key(), y.key()) })

	return slices.CompactFunc(all, func(x, y contender) bool { return x.key() == y.key() })
}

// key orders the contenders as all runs order them.
func (o contender) key() string { return o.entry.UUID + " " + o.on.Name }

// sameDiskOf returns the disk of another VM that is the same as this one, unless both are declared as shareable.
func sameDiskOf(disk domain.DiskUse, e *inventory.Entry, sameHost bool) (domain.DiskUse, bool) {
	uses := e.DiskUses()
	i := slices.IndexFunc(uses, func(other domain.DiskUse) bool {
		return (!disk.Shareable || !other.Shareable) &&
			domain.SameDisk(disk.Source, other.Source, sameHost || disk.Shared || other.Shared)
	})

	if i < 0 {
		return domain.DiskUse{}, false
	}

	return uses[i], true
}

// lockContenders returns once no other VM has the claim, and no other run can start one that would have it, until
// release is called. The VM is started with the returned context, which ends when one of the locks is lost. What a host
// that doesn't answer in this operation may start is not waited for: it counts as it does in every check.
func (cs *Claims) lockContenders(
	ctx context.Context, permit *StartPermit, vm *inventory.VM, c claim,
) (held context.Context, release func(), err error) {
	var unlock []func()

	release = sync.OnceFunc(func() {
		for _, u := range slices.Backward(unlock) {
			u()
		}
	})
	locked := map[string]bool{}

	for held = ctx; ; {
		cs.lookElsewhere(held, vm, c)

		answers, err := cs.hosts.SnapshotOfAnswering(held)
		if err == nil {
			err = rivals(answers, cs.withLinks(held, answers, c, nil))
		}

		if err != nil {
			release()

			return nil, nil, err
		}

		others := slices.DeleteFunc(contenders(answers, c), func(o contender) bool {
			return locked[o.key()] || o.on.IsSilent(held)
		})
		if len(others) == 0 {
			return held, release, nil
		}

		for _, o := range others {
			next, u, err := cs.lockContender(held, permit, vm, o)
			if err != nil {
				release()

				return nil, nil, err
			}

			held, unlock, locked[o.key()] = next, append(unlock, u), true
			cs.hosts.RefreshVMs(held, o.on.Name, []string{o.entry.UUID})
		}
	}
}

// lookElsewhere brings the views of other hosts up to date, if VMs there can have a disk of the claim. A host that
// doesn't answer now counts as it was read last, and one that didn't answer then isn't asked.
func (cs *Claims) lookElsewhere(ctx context.Context, vm *inventory.VM, c claim) {
	anywhere := func(d domain.DiskUse) bool { return d.Shared || d.Source.Network != nil }
	if !slices.ContainsFunc(c.disks, anywhere) {
		return
	}

	answers, err := cs.hosts.SnapshotOfAnswering(ctx)
	if err != nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()

	var wg sync.WaitGroup

	for _, a := range answers {
		if a.Host == vm.On || a.View == nil || a.Err != nil {
			continue
		}

		wg.Go(func() {
			if err := cs.hosts.LookAgain(ctx, a.Host); err != nil {
				cs.log.WarnContext(ctx, "which VMs run on another host is as it was read last", "name", c.name,
					"host", a.Host.Name, "error", err.Error())
			}
		})
	}

	wg.Wait()
}

// lockContender takes the lock of a VM that another run may be starting. If this run has it, nothing is taken: its own
// starts of VMs with one disk wait for each other.
func (cs *Claims) lockContender(
	ctx context.Context, permit *StartPermit, vm *inventory.VM, o contender,
) (held context.Context, unlock func(), err error) {
	patience := permit.patienceFor(o)

	l, err := cs.takeContender(ctx, o, patience)
	if err != nil && ctx.Err() == nil && patience < rivalPatience && o.wasKilled(ctx) {
		l, err = cs.takeContender(ctx, o, rivalPatience) // A run that was killed doesn't wait for this one.
	}

	switch {
	case err != nil && ctx.Err() == nil:
		return nil, nil, o.notLocked(vm, err)
	case err != nil:
		return nil, nil, err
	case l == nil:
		return ctx, func() {}, nil
	}

	held, end := l.With(ctx)

	return held, func() { end(); l.Release() }, nil
}

func (cs *Claims) takeContender(ctx context.Context, o contender, patience time.Duration) (*lease.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, inTimeOf(ctx, patience))
	defer cancel()

	return cs.records.LeaseAgainstOthers(ctx, o.on, o.entry.UUID, "starting a VM with the same disk as")
}

// wasKilled reports whether no run renews the lock of the contender.
func (o contender) wasKilled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()

	holder, err := lease.LiveHolder(ctx, o.on.Conn, o.entry.UUID)

	return holder == "" && err == nil
}

// notLocked returns the error that this run didn't get the lock of the contender: another run has it, or its host
// doesn't answer. The VM was not started, so the error doesn't have the cause, only its text.
func (o contender) notLocked(vm *inventory.VM, err error) error {
	reason, until := "its lock was not taken in time: "+err.Error(), fmt.Sprintf("host %q answers", o.on.Name)

	if locked, ok := errors.AsType[*inventory.Error](err); ok && errors.Is(err, records.ErrLocked) {
		reason, until = locked.Detail, "that run has ended"
	}

	return &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrShared,
		Detail: fmt.Sprintf("%s, %q (UUID %s) on host %q, which may be starting: %s", o.reason, o.entry.Name, o.entry.UUID,
			o.on.Name, reason),
		Remedy: "Only one of the two may run. Wait until " + until + ".", Next: inventory.Retry,
	}
}
