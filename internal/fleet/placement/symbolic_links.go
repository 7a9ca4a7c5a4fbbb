package placement

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Two paths may lead to one file, for example through a symbolic link. Definitions don't show that: only the host
// knows. Each question to a host is a round trip, and a plan reads every VM, so questions are asked where they can
// prevent harm:
//
//   - Before a VM starts, and before a running VM moves: about all paths of other VMs on that host, in one question for
//     each of its disks. This is the check that counts. If the run is starting other VMs there, they are asked about
//     first, in one more question.
//   - In a plan, and before a disk is plugged into a running VM: only about disks that are added to a VM, and only if
//     another path has the same base name, as it has through a link to a directory. It finds the usual mistake early.
//
// A plan that adds no disk asks nothing.

// withLinks returns the claim with the paths by which disks of other VMs lead to its disks on its host. only limits the
// question to disks and paths for which it returns true; nil means all. If the host can't compare files, or doesn't in
// time because a file system hangs, only equal paths are one file: a mount that is dead must not stop the VMs that
// don't use it.
func (cs *Claims) withLinks(
	ctx context.Context, answers []inventory.Reply, c claim, only func(own, other string) bool,
) claim {
	h := cs.hosts.Host(c.host)
	if h == nil || h.Config.SameFile == nil {
		return c
	}

	ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout)
	defer cancel()

	c.links = map[string]string{}

	for _, disk := range c.disks {
		own := pathOf(disk.Source)

		others := slices.DeleteFunc(claimedPaths(answers, c, disk), func(other string) bool {
			return only != nil && !only(own, other)
		})

		same, known := cs.linkedPaths(ctx, h, c, own, others)
		if !known {
			return c
		}

		for _, other := range same {
			disk.Source = domain.DiskSource{File: other}
			c.links[other] = own
			c.disks = append(slices.Clip(c.disks), disk)
		}
	}

	return c
}

// linkedPaths returns those of the paths that lead to the same file of the host as the claim's path own. known is false
// if the host can't say.
func (cs *Claims) linkedPaths(
	ctx context.Context, h *inventory.Host, c claim, own string, others []string,
) (same []string, known bool) {
	others = slices.DeleteFunc(others, func(other string) bool { return !isAskable(other) || other == path.Clean(own) })
	if !isAskable(own) || len(others) == 0 {
		return nil, true
	}

	same, err := h.Config.SameFile(ctx, own, others...)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, inventory.ErrComparesNone) {
			level = slog.LevelDebug // That is how the host is set up.
		}

		cs.log.Log(ctx, level, "whether disks are one file is unknown", "name", c.name, "path", own, "error", err)
	}

	// If the host can't compare all of them, the result has those that it can.
	return same, err == nil || errors.Is(err, inventory.ErrUnsupported)
}

// pendingStart is a VM that this run is about to start, until ended is closed.
type pendingStart struct {
	claim
	ended chan struct{}
}

// awaitLinked waits for each VM that this run began to start before and that has a disk of this VM under another path:
// no snapshot shows its claim before it runs. The caller calls ended when the start of this VM is over.
func (cs *Claims) awaitLinked(ctx context.Context, c claim) (ended func(), err error) {
	mine := &pendingStart{c, make(chan struct{})}

	cs.startingMu.Lock()
	before := slices.Clone(cs.starting)
	cs.starting = append(cs.starting, mine)
	cs.startingMu.Unlock()

	ended = func() {
		cs.startingMu.Lock()
		cs.starting = slices.DeleteFunc(cs.starting, func(s *pendingStart) bool { return s == mine })
		cs.startingMu.Unlock()
		close(mine.ended)
	}

	for _, other := range cs.linkedStarts(ctx, c, before) {
		select {
		case <-other.ended:
		case <-ctx.Done():
			ended()

			return nil, context.Cause(ctx)
		}
	}

	return ended, nil
}

// linkedStarts returns those of the VMs that have a disk of the claim under another path.
func (cs *Claims) linkedStarts(ctx context.Context, c claim, starts []*pendingStart) (linked []*pendingStart) {
	h := cs.hosts.Host(c.host)
	if h == nil || h.Config.SameFile == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, inventory.AskTimeout)
	defer cancel()

	for _, disk := range c.disks {
		by := map[string][]*pendingStart{}

		for _, s := range starts {
			for _, other := range s.disks {
				if s.host == c.host || disk.Shared {
					at := path.Clean(pathOf(other.Source))
					by[at] = append(by[at], s)
				}
			}
		}

		own, only := pathOf(disk.Source), c.askable()
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(by)), func(other string) bool {
			return only != nil && !only(own, other)
		})

		same, known := cs.linkedPaths(ctx, h, c, own, others)
		if !known {
			return linked
		}

		for _, at := range same {
			linked = append(linked, by[at]...)
		}
	}

	return linked
}

// claimedPaths returns the paths that may be the disk on the claim's host, and which VMs with a claim write to.
func claimedPaths(answers []inventory.Reply, c claim, disk domain.DiskUse) []string {
	var paths []string

	for _, a := range answers {
		if a.View == nil || a.Err != nil || a.Host.Name != c.host && !disk.Shared {
			continue
		}

		paths = append(paths, a.View.Paths(func(e *inventory.Entry) bool { return e.UUID != c.uuid && claims(e) })...)
	}

	slices.Sort(paths)

	return slices.Compact(paths)
}

// pathOf returns the path of a file or block device as it is declared, "" for any other disk.
func pathOf(s domain.DiskSource) string {
	if s.File != "" {
		return s.File
	}

	return s.Block
}

// isAskable reports whether a host can be asked about the file at the path.
func isAskable(p string) bool {
	return path.IsAbs(p) && !strings.ContainsAny(p, "\r\n\x00")
}

// addedAlike limits a question about links to what a plan adds: added are the keys of disks that the plan adds.
func addedAlike(added []domain.DiskUse) func(own, other string) bool {
	return func(own, other string) bool {
		return path.Base(own) == path.Base(other) && slices.ContainsFunc(added, func(d domain.DiskUse) bool {
			return pathOf(d.Source) == own
		})
	}
}

// LinkBlockers returns a blocker for each VM whose disk is the same file on the target as one of the VM's, through
// another path. It asks the target, so it is for a running VM that is about to move. starts is as for ReserveArrival.
func (cs *Claims) LinkBlockers(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, starts bool,
) ([]migration.Blocker, error) {
	if !vm.Active {
		return nil, nil // It is looked for before the VM is started.
	}

	answers, err := cs.hosts.Snapshot(ctx)
	if err != nil {
		return nil, err
	}

	c := cs.withLinks(ctx, answers, claimOf(vm, to.Name, starts), nil)
	if len(c.links) == 0 {
		return nil, nil
	}

	return rivalBlockers(answers, c), nil
}
