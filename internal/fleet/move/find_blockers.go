package move

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// findBlockersUnderLock finds everything that blocks the move, right before the move. It asks the target again if the
// target seems to be full: a VM may have left since it was read.
func (m *move) findBlockersUnderLock(ctx context.Context) (migration.VM, []migration.Blocker, error) {
	inspected, err := m.inspect(ctx)
	if err != nil {
		return inspected, nil, err
	}

	blockers, err := m.mover.CheckTarget(ctx, m.vm, inspected, m.to, m.effective.Options)

	if err == nil && slices.ContainsFunc(blockers, migration.IsOfNeighbours) {
		m.to.Forget()
		blockers, err = m.mover.CheckTarget(ctx, m.vm, inspected, m.to, m.effective.Options)
	}

	if err != nil || len(migration.Blocking(blockers)) > 0 {
		return inspected, blockers, err
	}

	linked, err := m.mover.placement.LinkBlockers(ctx, m.vm, m.to, turnedOff(m.vm, inspected))

	return inspected, append(blockers, linked...), err
}

// inspect returns the VM as it is to move: a running VM that is turned off first, as it will be when it is off.
func (m *move) inspect(ctx context.Context) (migration.VM, error) {
	inspected, err := Inspect(ctx, m.vm)

	switch {
	case err != nil || !inspected.Live():
		return inspected, err
	case m.turnOff == nil:
		return inspected.AskQEMU(ctx, m.from.Conn), nil
	}

	off := TurnedOff(ctx, m.vm, inspected)
	if off == nil {
		return inspected, fmt.Errorf("%w: it is transient, and would be gone once it is off", ErrStays)
	}

	return *off, nil
}

// verifyUnblocked returns the inspected VM, and an error with everything that blocks the move.
func (m *move) verifyUnblocked(ctx context.Context) (migration.VM, error) {
	inspected, blockers, err := m.findBlockersUnderLock(ctx)
	if err != nil {
		return inspected, err
	}

	if m.unlessPinnedElsewhere {
		blockers = append(blockers, pinBlocker(m.vm, m.to, status.False)...)
	}

	if blocking := migration.Blocking(blockers); len(blocking) > 0 {
		return inspected, &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Err: &migration.BlockedError{Blockers: blocking},
		}
	}

	return inspected, nil
}

// FindBlockers finds everything that blocks the move, including missing room on the target. It doesn't ask QEMU itself,
// which would taint the VM.
func (ck *Checks) FindBlockers(
	ctx context.Context, vm *inventory.VM, to *inventory.Host, o migration.Options,
) (migration.VM, []migration.Blocker, error) {
	inspected, err := Inspect(ctx, vm)
	if err != nil {
		return inspected, nil, err
	}

	blockers, err := ck.CheckTarget(ctx, vm, withRecentNetworks(inspected, vm.On, to), to, o)

	return inspected, blockers, err
}

// withRecentNetworks has checks of many VMs list the networks of their hosts once. Right before a move they are listed
// again.
func withRecentNetworks(inspected migration.VM, from, to *inventory.Host) migration.VM {
	inspected.Networks = func(ctx context.Context, onTarget, now bool) ([]libvirt.Network, error) {
		h := from
		if onTarget {
			h = to
		}

		return h.Networks(ctx, func([]libvirt.Network) bool { return !now })
	}

	return inspected
}

// CheckTarget finds everything that blocks the move of a VM that was already inspected, in the order of the reasons.
func (ck *Checks) CheckTarget(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host, o migration.Options,
) ([]migration.Blocker, error) {
	a, err := ck.hosts.ReplyOf(ctx, to)
	starts := turnedOff(vm, inspected) // A VM that stays off needs its room only when it is started.

	inspected = ck.WithTarget(ctx, vm, inspected, to)
	inspected.TargetBridges = to.BridgeExists

	if err == nil {
		files := inspected.OpenedFiles()
		inspected.TargetFiles = sync.OnceValue(func() map[string]bool { return ck.targetFiles(ctx, vm, files, to) })
		inspected.PoolAt = ck.poolAt(vm.On, to)
		inspected.SourceFiles = func(ctx context.Context, files []string) map[string]bool {
			return ck.hosts.FilesOn(ctx, vm.On, files)
		}
	}

	blockers, checkErr := checkTwoHosts(ctx, vm, inspected, to, o)
	if checkErr != nil {
		return nil, checkErr
	}

	if errors.Is(err, inventory.ErrUnreachable) {
		migration.SortBlockers(blockers)

		return blockers, nil // CheckHosts has reported it.
	}

	if err != nil {
		return nil, err
	}

	mark, err := placement.CordonBlocker(ctx, a)
	if err != nil {
		return nil, err
	}

	if mark != nil {
		blockers = append(blockers, *mark)
	}

	blockers = append(blockers, ck.ownDiskBlockers(ctx, vm, to)...)
	blockers = append(blockers, mountBlockers(ctx, vm, inspected.Mobility.Disks, to)...)

	alone, err := ck.placement.ClaimBlockers(ctx, vm, to, starts)
	if err != nil {
		return nil, err
	}

	blockers = append(blockers, alone...)
	blockers = append(blockers, ck.placement.LimitBlockers(ctx, a, vm, inspected.Mobility.Values)...)

	if inspected.Live() {
		blockers = append(blockers, placement.FailoverBlockers(ctx, to, vm.LiveSpec)...)
	} else {
		blockers = append(blockers, ck.placement.DeviceBlockers(ctx, a, vm, starts)...)
	}

	crowdable := to.Config.StorageOverprovisioningFactor > 0 || ck.placement.ExpectsFiles(to, vm.Name)
	if crowdable && len(migration.Blocking(blockers)) == 0 {
		load := migration.EstimateTransfer(ctx, inspected, vm.On.Conn, to.Conn, o)

		crowded, err := ck.placement.FileBlockers(ctx, to, vm.Name, load)
		if err != nil {
			return nil, err
		}

		blockers = append(blockers, crowded...)
	}

	blockers = append(blockers, ck.placement.CapacityBlockers(ctx, a, vm, starts)...)
	migration.SortBlockers(blockers)

	return blockers, nil
}

// turnedOff says whether a VM that runs was inspected as it will be when it is off. It is started on the target.
func turnedOff(vm *inventory.VM, inspected migration.VM) bool { return vm.Active && !inspected.Live() }

// targetFiles returns which of the files that the VM opens the target has. It leaves out those that the source seems to
// lack too: its libvirt sees other directories than its SSH server, so the answers say nothing.
func (ck *Checks) targetFiles(
	ctx context.Context, vm *inventory.VM, files []string, to *inventory.Host,
) map[string]bool {
	var here, there map[string]bool

	var both sync.WaitGroup

	both.Go(func() { here = ck.hosts.FilesOn(ctx, vm.On, files) })
	both.Go(func() { there = ck.hosts.FilesOn(ctx, to, files) })
	both.Wait()

	maps.DeleteFunc(there, func(file string, has bool) bool {
		sourceHas, known := here[file]

		return !has && !sourceHas && (known || len(here) == 0)
	})

	return there
}

// poolAt returns the function that a check asks for the storage pools of directories.
func (ck *Checks) poolAt(from, to *inventory.Host) func(ctx context.Context, onTarget bool, dir string) string {
	return func(ctx context.Context, onTarget bool, dir string) string {
		h := from
		if onTarget {
			h = to
		}

		a, err := ck.hosts.ReplyOf(ctx, h)
		if err != nil {
			return ""
		}

		return a.View.PoolAt(ctx, h, dir)
	}
}

// checkTwoHosts returns what the two hosts by themselves say about the move.
func checkTwoHosts(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host, o migration.Options,
) ([]migration.Blocker, error) {
	blockers, err := migration.CheckHosts(ctx, inspected, vm.On.Conn, to.Conn, o)
	if err != nil {
		return nil, err
	}

	if inspected.Live() {
		blockers = append(blockers, o.TransportBlockers(vm.On.Config.Tunnel != nil, to.Config.Tunnel != nil)...)
		blockers = append(blockers, o.PeerBlockers(to.Name, to.Config.PeerURI)...)
		blockers = append(blockers, postCopyBlocker(ctx, to, o)...)
	}

	return blockers, nil
}

// CheckCandidate checks a host that no order names. In addition to what CheckTarget checks, the host must accept a VM
// that doesn't name it.
func (ck *Checks) CheckCandidate(
	ctx context.Context, vm *inventory.VM, inspected migration.VM, to *inventory.Host, o migration.Options,
) ([]migration.Blocker, error) {
	blockers, err := ck.CheckTarget(ctx, vm, withRecentNetworks(inspected, vm.On, to), to, o)
	if err != nil {
		return nil, err
	}

	blockers = append(blockers, placement.SchedulingBlockers(vm, to)...)
	migration.SortBlockers(blockers)

	return blockers, nil
}

// postCopyBlocker returns a blocker if the options allow post-copy and the target's QEMU can't do it. QEMU then refuses
// the migration when it begins.
func postCopyBlocker(ctx context.Context, h *inventory.Host, o migration.Options) []migration.Blocker {
	if !*o.WithDefaults().AllowPostCopy || !h.RefusesPostCopy(ctx) {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.OptionsNotSupported, Status: status.False, Attribute: "migration_options.allow_post_copy",
		Message: fmt.Sprintf("QEMU on host %q doesn't run as root, and the host's kernel doesn't allow it "+
			"post-copy", h.Name),
		Remedy: "Set the sysctl vm.unprivileged_userfaultfd = 1 there, choose another host, or set allow_post_copy = false.",
	}}
}
