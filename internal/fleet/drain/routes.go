package drain

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
)

// routes has, by host, what blocks a move of the VM there, apart from room. For hosts that the VM can move to, it also
// has how much is copied, and how much room the disks require there.
type routes struct {
	blockers map[string][]migration.Blocker
	bytes    map[string]uint64
	space    map[string]evacuation.Space
}

func (dr *Drainer) routes(
	ctx context.Context, inspected migration.VM, vm *inventory.VM, others []inventory.Reply, by *turn,
	o migration.Options,
) (w routes, err error) {
	w = routes{map[string][]migration.Blocker{}, map[string]uint64{}, map[string]evacuation.Space{}}

	var (
		mu     sync.Mutex
		failed []error
		asked  int
		calls  errgroup.Group
	)

	calls.SetLimit(inspectionsAtOnce)

	// What the VM itself has stays when a host takes VMs again. Its state may pass.
	own := slices.DeleteFunc(migration.DomainBlockers(inspected), func(b migration.Blocker) bool {
		return b.Reason == migration.StateNotMigratable
	})

	for _, a := range others {
		if excluded := dr.knownBlockers(vm, a, by); len(excluded) > 0 {
			mu.Lock()
			w.blockers[a.Host.Name] = append(excluded, own...)
			mu.Unlock()

			continue
		}

		calls.Go(func() error {
			blockers, load, err := dr.routeTo(ctx, inspected, vm, a.Host, o)
			if err != nil && ctx.Err() != nil {
				return err
			}

			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				// A host that fails is no target; other hosts may be.
				b := migration.UnansweredBlocker(a.Host.Name, inventory.WithoutHost(err))
				w.blockers[a.Host.Name] = append([]migration.Blocker{b}, own...)
				failed = append(failed, err)

				return nil
			}

			asked++

			w.blockers[a.Host.Name] = blockers
			if len(migration.Blocking(blockers)) == 0 {
				w.bytes[a.Host.Name], w.space[a.Host.Name] = load.Bytes, spaceFor(a.Host, load)
			}

			return nil
		})
	}

	if err := calls.Wait(); err != nil {
		return w, err
	}

	if asked == 0 && len(failed) > 0 {
		return w, errors.Join(failed...) // The VM's own host may have failed.
	}

	return w, nil
}

// readRoom reads how much room is left in the directories to which disks would be copied, and of what hosts divide
// among their VMs, on all hosts at the same time: every step of a drain asks again before it begins, and one slow host
// delays only itself. If it can't be read, it stays unknown, and the move itself fails if there is too little.
func (dr *Drainer) readRoom(ctx context.Context, in evacuation.Input, others []inventory.Reply) {
	needs := needsOf(in.VMs)

	var reading sync.WaitGroup

	for i := range in.Hosts {
		h := &in.Hosts[i]
		at := slices.IndexFunc(others, func(a inventory.Reply) bool { return a.Host.Name == h.Name })

		reading.Go(func() {
			h.FreeSpace = dr.freeSpaceOf(ctx, h.Name, in.VMs)
			h.Shares = dr.placement.SharesLeft(ctx, others[at], needs)
		})
	}

	reading.Wait()
}

// needsOf returns what the VMs may request of their targets: as they are and, if they may be turned off to be moved, by
// their definitions.
func needsOf(vms []evacuation.VM) []domain.HostUse {
	var needs []domain.HostUse

	for _, m := range vms {
		needs = append(needs, m.Use)

		if m.ColdBlockers != nil {
			needs = append(needs, m.StartedUse)
		}
	}

	return needs
}

// freeSpaceOf returns how much room a host has left in the directories to which the disks of these VMs would be copied.
func (dr *Drainer) freeSpaceOf(ctx context.Context, host string, vms []evacuation.VM) evacuation.Space {
	free, asked := evacuation.Space{}, map[string]bool{}

	for _, m := range vms {
		for _, rooms := range []evacuation.Space{m.LiveSpace[host], m.ColdSpace[host]} {
			for dir := range rooms {
				if asked[dir] {
					continue
				}

				asked[dir] = true

				if left, known, err := dr.spaceLeft(ctx, dr.hosts.Host(host), dir); err == nil && known {
					free[dir] = left
				}
			}
		}
	}

	return free
}

// spaceFor returns the room that a move requires on a host, by directory.
func spaceFor(to *inventory.Host, load migration.TransferSize) evacuation.Space {
	space := evacuation.Space(placement.ByDirectory(load.Files))

	if to.Config.StorageOverprovisioningFactor > 0 {
		for dir, bytes := range placement.ByDirectory(load.Growth) {
			space[dir+evacuation.GrowthIn] = bytes
		}
	}

	return space
}

// spaceLeft returns how much room a host has left in what spaceFor names.
func (dr *Drainer) spaceLeft(
	ctx context.Context, h *inventory.Host, at string,
) (left uint64, known bool, err error) {
	if dir, growth := strings.CutSuffix(at, evacuation.GrowthIn); growth {
		return dr.placement.GrowthLeftIn(ctx, h, dir, "")
	}

	return dr.placement.FreeSpaceIn(ctx, h, at, "")
}

// knownBlockers returns blockers of a move to a host that are known without asking that host. by is the turn of the
// drain that moves the VM.
func (dr *Drainer) knownBlockers(vm *inventory.VM, a inventory.Reply, by *turn) []migration.Blocker {
	if a.Err != nil {
		return []migration.Blocker{migration.UnansweredBlocker(a.Host.Name, inventory.WithoutHost(a.Err))}
	}

	if b := dr.underWay.blocker(a.Host.Name, by); b != nil {
		return []migration.Blocker{*b}
	}

	return placement.SchedulingBlockers(vm, a.Host)
}

// routeTo returns what blocks a move of the VM to one host, and how much is copied.
func (dr *Drainer) routeTo(
	ctx context.Context, inspected migration.VM, vm *inventory.VM, to *inventory.Host, o migration.Options,
) (blockers []migration.Blocker, load migration.TransferSize, err error) {
	if blockers, err = dr.mover.CheckTarget(ctx, vm, inspected, to, o); err != nil {
		return nil, load, err
	}

	blockers = slices.DeleteFunc(blockers, migration.IsOfNeighbours)
	if len(migration.Blocking(blockers)) == 0 {
		load = migration.EstimateTransfer(ctx, dr.mover.WithTarget(ctx, vm, inspected, to), vm.On.Conn, to.Conn, o)
	}

	return blockers, load, nil
}
