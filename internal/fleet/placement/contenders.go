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
// A disk that no other VM has costs no lock. For a disk that other hosts may have too, the definitions of all hosts are
// read again, so that a disk counts that another run has added to a VM a moment ago. A disk that is plugged into a
// running VM is in its definition before: see PlugAlone.

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
	// readPatience is how long it waits for the definitions of a host that has just answered.
	readPatience = inventory.AskTimeout
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

// contender is a VM that doesn't write to a disk of the claim, and will once it is started or gets the disk that its
// definition has; or it is off and has the claim's name.
type contender struct {
	on     *inventory.Host
	entry  *inventory.Entry
	reason string // what they have in common, for users
	// purpose says for what its lock is taken, and doubt what it may be doing: for users.
	purpose, doubt string
}

// contenderOf returns a contender for the claim.
func (c claim) contenderOf(on *inventory.Host, e *inventory.Entry, reason string) contender {
	o := contender{on, e, reason, "starting a VM with the same disk as", "which may be starting"}
	if c.plugged {
		o.purpose = "giving another VM a disk of"
	}

	if e.Active() {
		o.doubt = "which may be about to get it"
	}

	return o
}

// contenders returns the VMs that would be rivals if they were started. An image in the backing chain of a disk doesn't
// count: many VMs may have the disk of one VM as their base.
func contenders(answers []inventory.Reply, c claim) []contender {
	var all []contender

	for _, a := range answers {
		if a.View == nil || a.Err != nil {
			continue
		}

		for _, e := range c.namesakes(a.View) {
			if !claims(e) {
				all = append(all, c.contenderOf(a.Host, e, "it has the name of another VM"))
			}
		}

		for _, disk := range c.disks {
			for _, e := range a.View.Having(disk) {
				if e.UUID == c.uuid {
					continue
				}

				if other, ok := sameDiskOf(disk, e, c.host == a.Host.Name); ok {
					all = append(all, c.contenderOf(a.Host, e, fmt.Sprintf("its %s (%s) is also %s of another VM", disk.Text(),
						disk.Source.Name(), other.Text())))
				}
			}
		}
	}

	slices.SortFunc(all, func(x, y contender) int { return strings.Compare(x.key(), y.key()) })

	return slices.CompactFunc(all, func(x, y contender) bool { return x.key() == y.key() })
}

// key orders the contenders as all runs order them.
func (o contender) key() string { return o.entry.UUID + " " + o.on.Name }

// sameDiskOf returns the disk that another VM will have and that is the same as this one, unless both are declared as
// shareable.
func sameDiskOf(disk domain.DiskUse, e *inventory.Entry, sameHost bool) (domain.DiskUse, bool) {
	uses := e.NextDiskUses()
	if !claims(e) {
		uses = e.DiskUses()
	}

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
	contend, locked := map[string]bool{}, map[string]bool{}
	c.unsettled = func(on *inventory.Host, e *inventory.Entry) bool {
		key := contender{on: on, entry: e}.key()

		return contend[key] && !locked[key] && !on.IsSilent(held)
	}

	held = ctx
	cs.readElsewhere(held, c)

	for {
		answers, err := cs.repliesFor(held, vm, c)
		others := contenders(answers, c)

		for _, o := range others {
			contend[o.key()] = true
		}

		if err == nil {
			err = rivals(answers, cs.withLinks(held, answers, c, c.askable()))
		}

		if err != nil {
			release()

			return nil, nil, err
		}

		others = slices.DeleteFunc(others, func(o contender) bool {
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

		cs.lookElsewhere(held, vm, c)
	}
}

// anywhere reports whether VMs on other hosts can have a disk of the claim.
func (c claim) anywhere() bool {
	return slices.ContainsFunc(c.disks, func(d domain.DiskUse) bool { return d.Shared || d.Source.Network != nil })
}

// repliesFor returns what the hosts said that can have other VMs with the claim. To plug in a disk that only the VM's
// host can have, nothing is read: QEMU locks such a file against other runs' VMs there.
func (cs *Claims) repliesFor(ctx context.Context, vm *inventory.VM, c claim) ([]inventory.Reply, error) {
	if !c.plugged || c.anywhere() {
		return cs.hosts.SnapshotOfAnswering(ctx)
	}

	a, err := cs.hosts.LastReplyOf(ctx, vm.On)

	return []inventory.Reply{a}, err
}

// readElsewhere brings the views of all hosts up to date with what other runs wrote into definitions, if VMs on other
// hosts can have a disk of the claim. The VM's own definition was written before: of two runs that add one disk to two
// VMs, the one that reads later sees the other's.
func (cs *Claims) readElsewhere(ctx context.Context, c claim) {
	ask := func(ctx context.Context, h *inventory.Host) error {
		looking, cancel := context.WithTimeout(ctx, lookPatience) // A host that hangs doesn't take all the time of a reading.
		defer cancel()

		if err := cs.hosts.LookAgain(looking, h); err != nil {
			return err
		}

		return cs.hosts.ReadAgain(ctx, h)
	}

	cs.askEach(ctx, c, nil, inTimeOf(ctx, readPatience), ask)
}

// lookElsewhere brings the views of the other hosts up to date with what runs there, if VMs there can have a disk of
// the claim.
func (cs *Claims) lookElsewhere(ctx context.Context, vm *inventory.VM, c claim) {
	cs.askEach(ctx, c, vm.On, lookPatience, cs.hosts.LookAgain)
}

// askEach asks the hosts about their VMs, if several hosts can have a disk of the claim. A host that doesn't answer now
// counts as it was read last, and one that didn't answer then isn't asked.
func (cs *Claims) askEach(
	ctx context.Context, c claim, except *inventory.Host, patience time.Duration,
	ask func(context.Context, *inventory.Host) error,
) {
	if !c.anywhere() {
		return
	}

	answers, err := cs.hosts.SnapshotOfAnswering(ctx)
	if err != nil {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var wg sync.WaitGroup

	for _, a := range answers {
		if a.Host == except || a.View == nil || a.Err != nil {
			continue
		}

		wg.Go(func() {
			if err := ask(ctx, a.Host); err != nil {
				cs.log.WarnContext(ctx, "which VMs another host has is as it was read last", "name", c.name,
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
	if err != nil && ctx.Err() == nil && patience < rivalPatience && cs.wasKilled(ctx, o) {
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

	return cs.records.LeaseAgainstOthers(ctx, o.on, o.entry.UUID, o.purpose)
}

// wasKilled reports whether no run renews the lock of the contender.
func (cs *Claims) wasKilled(ctx context.Context, o contender) bool {
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()

	holder, err := cs.records.LiveHolder(ctx, o.on, o.entry.UUID)

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
		Detail: fmt.Sprintf("%s, %q (UUID %s) on host %q, %s: %s", o.reason, o.entry.Name, o.entry.UUID, o.on.Name, o.doubt,
			reason),
		Remedy: "Only one of the two may run with it. Wait until " + until + ".", Next: inventory.Retry,
	}
}
