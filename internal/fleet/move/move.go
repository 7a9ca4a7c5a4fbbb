package move

import (
	"context"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Move moves the VM to the target host, live if it runs. It returns the result, and the VM as it is afterwards, on
// whichever host. The VM is nil if that is unknown. If the VM is on the target already, Move does nothing, and the
// state is the zero value.
//
// The result is also kept in the VM's metadata. o are the options of this move. Options that o doesn't set come from
// the policy that applies to the VM, then from the fleet.
//
// If the target is cordoned, Move waits for a short time, because Terraform may end the maintenance in the same apply.
// If the target stays cordoned, the VM stays, and the error is migration.ErrBlocked.
//
// When ctx ends, Move aborts the migration, unless the guest is on the target already. An abort takes seconds. If
// another run is moving the VM to a different host, Move leaves the VM to that run, and the error is ErrBusy.
func (mv *Mover) Move(
	ctx context.Context, uuid string, last inventory.LastKnown, target string, o migration.Options,
) (*inventory.VM, migration.State, error) {
	request := Request{Target: target, Options: o, Priority: admission.PriorityUser}

	vm, how, err := mv.concludeAndMove(ctx, uuid, last, request,
		func(ctx context.Context, vm *inventory.VM, last inventory.LastKnown) (*inventory.VM, error) {
			vm, err := mv.concludeFor(ctx, vm, last, Order{Target: target, Options: o})
			if err == nil && vm.Host != target {
				mv.placement.AwaitUncordoned(ctx, target)
			}

			return vm, err
		})

	return vm, how.state, err
}

// Request says where and how to move a VM.
type Request struct {
	Target   string
	Options  migration.Options
	Priority int
	// Starts says whether a stopped VM is started as soon as it has moved.
	Starts bool
	// TurnOff turns off a running VM that is to move while it is off. It is called when it is the VM's turn, and nothing
	// blocks the move. The caller starts the VM afterwards. Nil: a running VM moves live.
	TurnOff func(context.Context, *inventory.VM) error
	// From is the host that the VM is to leave, if TurnOff is set. A VM on another host stays there.
	From *inventory.Host
	// RemoveOriginals are files of disks that the source doesn't keep if they are copied, although it keeps others: an
	// earlier move made them there.
	RemoveOriginals []string
	// unlessPinnedHere says whether the VM stays if its configuration pins it to its host.
	unlessPinnedHere bool
}

// MoveForDrain moves the VM for a drain. If another run is moving the VM, MoveForDrain waits, and then moves it on. If
// the configuration pins the VM to the host that it is on by then, the VM stays.
func (mv *Mover) MoveForDrain(
	ctx context.Context, uuid string, last inventory.LastKnown, w Request,
) (*inventory.VM, SourceFiles, error) {
	w.unlessPinnedHere = true

	now, m, err := mv.concludeAndMove(ctx, uuid, last, w, func(ctx context.Context, vm *inventory.VM,
		last inventory.LastKnown,
	) (*inventory.VM, error) {
		return mv.ConcludeInterrupted(ctx, vm, last, w.Options)
	})

	files := SourceFiles{From: m.from, Copied: m.copied, Kept: m.kept}
	if now != nil {
		files.Stay, files.LostCheckpoints = now.KeptDisks, now.LostCheckpoints
	}

	return now, files, err
}

// SourceFiles are the files that a move left on the host that the VM came from.
type SourceFiles struct {
	From *inventory.Host
	// Copied are the files of the disks that were copied, Kept says whether the source keeps its own files.
	Copied []string
	Kept   bool
	// Stay says which files stay although the source doesn't keep its own, and why.
	Stay []string
	// LostCheckpoints are checkpoints that the move couldn't bring along, and why.
	LostCheckpoints []string
}

// concludeAndMove first calls conclude, which ends an earlier move of the VM. Then it moves the VM.
func (mv *Mover) concludeAndMove(
	ctx context.Context, uuid string, last inventory.LastKnown, w Request,
	conclude func(context.Context, *inventory.VM, inventory.LastKnown) (*inventory.VM, error),
) (*inventory.VM, *move, error) {
	ctx = inventory.AsOneOperation(ctx)

	to, err := mv.hosts.UsableHost(w.Target)
	if err != nil {
		return nil, &move{}, err
	}

	to.Conn.ExpectSlowCalls(1) // The queue asks it which VMs move.

	vm, err := mv.hosts.FindNow(ctx, uuid, last)
	if err == nil {
		vm, err = conclude(ctx, vm, last)
	}

	if err != nil || vm.On == to || w.TurnOff != nil && vm.On != w.From {
		return vm, &move{}, err
	}

	m := &move{
		mover: mv, vm: vm, from: vm.On, to: to, options: w.Options, priority: w.Priority, starts: w.Starts,
		turnOff: w.TurnOff, removeOriginals: w.RemoveOriginals, unlessPinnedHere: w.unlessPinnedHere,
	}
	now, err := m.moveInTurn(ctx, last)

	return now, m, err
}

// move is one move of a VM in progress.
type move struct {
	mover    *Mover
	vm       *inventory.VM // as it was at the source
	from, to *inventory.Host
	// options are the options of this move. effective are the options in force, which are known once the move begins.
	options   migration.Options
	effective migration.EffectiveOptions
	priority  int
	// starts says whether the stopped VM is started once it has moved.
	starts bool
	// turnOff turns the running VM off before it moves. Nil: it moves live.
	turnOff func(context.Context, *inventory.VM) error
	// unlessPinnedHere says whether the VM stays if its configuration pins it to the source.
	unlessPinnedHere bool
	// removeOriginals are the files of copied disks that the source doesn't keep in any case.
	removeOriginals []string
	// id is the id by which the record of an ordered move is recognized, "" without an order.
	id string
	// unlessPinnedElsewhere says whether the VM stays if its configuration pins it to a host other than the target.
	unlessPinnedElsewhere bool
	state                 migration.State
	// disks are the VM's disks.
	disks []domain.MobileDisk
	// copied are the files of the disks that were copied, kept says whether the source keeps its own files.
	copied []string
	kept   bool
	// arriving says whether the target has the record of files that the move makes there.
	arriving bool
	// stays lists the state of firmware and TPM that neither host may remove when the stopped VM's definition is removed
	// there.
	stays []libvirt.Kept
	// clock is what sets the guest's clock after a live move, while the rest of the move is completed.
	clock sync.WaitGroup
	// checkpoints are those that the VM has at the source.
	checkpoints []libvirt.Checkpoint
	// record is the record of the move. Its start is zero until something is done.
	record domain.Migration
}

// moveInTurn waits until it is the VM's turn, locks the VM on both hosts, and moves it. It returns what Move returns.
func (m *move) moveInTurn(ctx context.Context, last inventory.LastKnown) (*inventory.VM, error) {
	mv, uuid := m.mover, m.vm.UUID

	mv.log.InfoContext(ctx, "migration", "phase", migration.PhasePending, "name", m.vm.Name, "source", m.from.Name,
		"target", m.to.Name)

	leave, err := mv.Queue.Enter(ctx, uuid, m.from.Name, m.to.Name, m.priority)
	if err != nil {
		return m.vm, m.notStarted(err)
	}
	defer leave()

	// Both locks are needed: as soon as the VM is on the target, another run may lock it there. All runs take the locks in
	// the same order, because another run may be about to move the VM back.
	first, second := m.lockOrder(ctx)

	held, unlockFirst, err := mv.records.Lock(ctx, first, uuid, "moving")
	if err != nil {
		return m.vm, err
	}

	held, unlockSecond, err := mv.records.Lock(held, second, uuid, "moving")
	if err != nil {
		unlockFirst()

		return m.vm, err
	}
	defer unlockBoth(unlockFirst, unlockSecond)

	now, err := mv.findIdle(held, uuid, last)
	if err != nil || now.On != m.from {
		m.from.Forget()
		m.to.Forget()
	}

	if err != nil || now.On == m.to || m.turnOff != nil && now.On != m.from {
		return now, err
	}

	m.vm = now

	if err := now.RequireOneCopy(); err != nil {
		return now, err
	}

	if now.On != m.from {
		return now, &inventory.Error{
			VM: now.Name, Host: now.Host, Kind: inventory.ErrBusy, Detail: "another run or a user has moved it meanwhile",
			Next: inventory.Replan,
		}
	}

	defer m.clock.Wait()

	err = m.moveUnderLock(held)

	return m.outcome(ctx, held, err)
}

// moveUnderLock moves the VM, whose locks are held. It removes from the target what an earlier attempt left, checks
// again what blocks the move, and reserves space. Then it moves the running VM, or turns it off and copies its files.
func (m *move) moveUnderLock(ctx context.Context) error {
	if m.unlessPinnedHere && m.vm.Metadata.Host == m.from.Name {
		return ErrPinned
	}

	var ahead *libvirt.MigrationAhead

	if m.vm.Active && m.turnOff == nil {
		ahead = libvirt.ConnectAhead(ctx, m.from.Conn, m.to.Conn)
		defer ahead.Close()
	}

	m.to.ForgetRecord()   // It may be cordoned now.
	m.from.ForgetRecord() // Its policies may have changed.

	err := m.clearTarget(ctx)
	if err != nil {
		return err
	}

	if m.effective, err = m.mover.records.MigrationOptionsOf(ctx, m.vm, m.options); err != nil {
		return err
	}

	inspected, err := m.verifyUnblocked(ctx)
	if err != nil {
		return err
	}

	m.disks = inspected.Mobility.Disks
	m.clearOthers(ctx)

	// The reservation lasts until all is copied: then the target's storage pools report the room that the files use.
	release, err := m.reserveFiles(ctx, inspected)
	if err != nil {
		return err
	}
	defer release()

	if err := m.copyBaseImages(ctx, inspected); err != nil {
		return err
	}

	if err := m.bringSecrets(ctx, inspected); err != nil {
		return err
	}

	if inspected.Live() {
		return m.moveLive(ctx, inspected, ahead)
	}

	if m.turnOff != nil && m.vm.Active {
		if inspected, err = m.turnOffUnblocked(ctx, inspected); err != nil {
			return err
		}
	}

	return m.moveCold(ctx, inspected)
}

// clearTarget removes from the target what earlier moves of the VM left there. A stale definition goes first: it blocks
// the new one, uses the files, and what its firmware and its TPM keep is at the paths of what is copied.
func (m *move) clearTarget(ctx context.Context) (err error) {
	if slices.Contains(m.vm.StaleHosts, m.to.Name) {
		if m.vm, err = m.mover.EnsureDefined(ctx, m.vm); err != nil {
			return err
		}

		if err := m.mover.removeStaleOn(ctx, m.to.Name, m.vm); err != nil {
			return err
		}
	}

	if len(m.vm.Metadata.Copies) > 0 {
		if m.vm, err = m.mover.DiscardCopies(ctx, m.vm, m.to); err != nil {
			return err
		}
	}

	m.vm, err = m.mover.RemoveLeftVolumes(ctx, m.vm, m.to, false)

	return err
}

// clearOthers removes from other hosts what earlier moves of the VM left there. What can't be removed stays recorded.
func (m *move) clearOthers(ctx context.Context) {
	if len(m.vm.Metadata.Copies) == 0 {
		return
	}

	now, err := m.mover.DiscardCopies(ctx, m.vm, nil)
	if err != nil {
		m.mover.log.WarnContext(ctx, "an unfinished copy was not removed", "name", m.vm.Name, "error", err.Error())
	}

	m.vm = now
}
