package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Order is an order to move a VM, recognized by its id: however often it is given, the VM is moved once.
type Order struct {
	UUID string
	Last inventory.LastKnown
	// ID is the id by which the order is recognized.
	ID string
	// Target is the host that the VM is to move to. "" means the best host.
	Target string
	// Options are those that are given for this move. The rest comes from the policy that applies to the VM, and from
	// the fleet's options.
	Options  migration.Options
	Priority int
}

// MoveOnce moves a VM, as Move does, and returns the VM and the record of the result. An order that was already carried
// out is not carried out again: MoveOnce returns its record. If the run of the order was killed, MoveOnce completes a
// migration that continues by itself or broke in post-copy, and carries the order out if the VM is still at its source.
// If another run is moving the VM to a different host, MoveOnce returns ErrBusy.
//
// If MoveOnce returns an error, the record is that of a failed migration. It is kept in the VM's metadata if anything
// was done.
func (mv *Mover) MoveOnce(ctx context.Context, order Order) (*inventory.VM, domain.Migration, error) {
	began := time.Now()

	vm, err := mv.hosts.FindNow(ctx, order.UUID, order.Last)
	if err == nil {
		vm, err = mv.concludeFor(ctx, vm, order.Last, order)
	}

	if err != nil {
		return vm, mv.failedOrder(order, vm, began, err), err
	}

	if done := vm.Metadata.Migration(order.ID); done != nil && !done.Failed {
		return vm, *done, nil
	}

	vm, record, err := mv.moveToTarget(ctx, order, vm)
	if err != nil && !record.Completed() {
		record = mv.failedOrder(order, vm, began, err)
	}

	return vm, record, err
}

// moveToTarget moves the VM to the order's target, or to the best host. If the VM doesn't fit there after all,
// moveToTarget tries the next best host.
func (mv *Mover) moveToTarget(
	ctx context.Context, order Order, vm *inventory.VM,
) (*inventory.VM, domain.Migration, error) {
	for tried := map[string]bool{}; ; {
		to, err := mv.targetOf(ctx, order, vm, tried)
		if err != nil {
			return vm, domain.Migration{}, err
		}

		if to == vm.On {
			return vm, mv.thereAlready(order, vm), nil
		}

		m := &move{
			mover: mv, vm: vm, from: vm.On, to: to, options: order.Options, priority: order.Priority, id: order.ID,
			unlessPinnedElsewhere: true,
		}
		now, err := m.moveInTurn(ctx, order.Last)

		switch {
		case err == nil && m.record.Start.IsZero():
			// Another run or a user moved the VM there while this run waited for its turn.
			return now, mv.thereAlready(order, now), nil
		case order.Target == "" && errors.Is(err, migration.ErrBlocked) && m.record.Start.IsZero():
			tried[to.Name] = true
		default:
			return now, m.record, err
		}
	}
}

// targetOf returns the host that the VM is to move to.
func (mv *Mover) targetOf(
	ctx context.Context, order Order, vm *inventory.VM, tried map[string]bool,
) (*inventory.Host, error) {
	if order.Target != "" {
		return mv.hosts.UsableHost(order.Target)
	}

	mv.log.InfoContext(ctx, "migration", "phase", migration.PhaseScheduling, "name", vm.Name, "source", vm.Host)

	effective, err := mv.records.MigrationOptionsOf(ctx, vm, order.Options)
	if err != nil {
		return nil, err
	}

	candidates, err := mv.moveCandidates(ctx, vm, effective.Options, true)
	if err != nil {
		return nil, err
	}

	for _, c := range candidates {
		if c.Fits() && !tried[c.Host] {
			mv.log.InfoContext(ctx, "migration", "phase", migration.PhaseScheduled, "name", vm.Name, "source", vm.Host,
				"target", c.Host)

			return mv.hosts.Host(c.Host), nil
		}
	}

	return nil, &inventory.Error{
		VM: vm.Name, Host: vm.Host, Kind: placement.ErrNoHost, Err: migration.ErrBlocked,
		Detail: "no other host can take the VM:\n" + candidateText(candidates),
	}
}

// thereAlready returns the record of an order for a VM that is already on its target.
func (mv *Mover) thereAlready(order Order, vm *inventory.VM) domain.Migration {
	now := time.Now()

	return migration.State{
		SourceHost: vm.Host, TargetHost: vm.Host, Start: now, End: now, Phase: migration.PhaseSucceeded,
	}.Record(order.ID, mv.owner)
}

// failedOrder returns the record of an order that failed before anything was done.
func (mv *Mover) failedOrder(order Order, vm *inventory.VM, began time.Time, err error) domain.Migration {
	state := migration.State{
		TargetHost: order.Target, Start: began, End: time.Now(), Phase: migration.PhaseFailed, Failed: true,
		FailurePlane: migration.PlaneControl, FailureReason: err.Error(),
	}
	if vm != nil {
		state.SourceHost = vm.Host
	}

	return state.Record(order.ID, mv.owner)
}

// MigrationRecord returns the record of the order with that id from the VM's metadata, as of the snapshot; nil if there
// is none. The record of a migration in progress has the phase Running.
func (mv *Mover) MigrationRecord(
	ctx context.Context, uuid string, last inventory.LastKnown, id string,
) (*inventory.VM, *domain.Migration, error) {
	vm, err := mv.hosts.Find(ctx, uuid, last)
	if err != nil {
		return nil, nil, err
	}

	record := vm.Metadata.Migration(id)
	if record == nil || record.Completed() {
		return vm, record, nil
	}

	switch {
	case vm.BrokeInPostCopy():
		record = vm.LastMigration() // The open record is the last.
	case vm.Migrating:
		record.Phase = migration.PhaseRunning
	}

	return vm, record, nil
}

// WithdrawMigration withdraws an order. If the order is in progress, it aborts the migration, which takes seconds, and
// waits for its end. If the order was carried out, it keeps the record but removes the id, so that the same order may
// be given again. It returns the record as it was, or nil if there was none.
func (mv *Mover) WithdrawMigration(
	ctx context.Context, uuid string, last inventory.LastKnown, id string,
) (*domain.Migration, error) {
	vm, err := mv.hosts.FindNow(ctx, uuid, last)
	if err != nil {
		return nil, err
	}

	record := vm.Metadata.Migration(id)
	if record == nil || record.Failed {
		return record, nil
	}

	if !record.Completed() {
		// The run of the migration records its result. A killed run can't. A migration that broke in post-copy is resumed
		// without the order's options, which may be out of date by now: the user may have removed a "destroy" from them.
		mv.abortJob(ctx, uuid, *record)

		if _, err = mv.ConcludeInterrupted(ctx, vm, last, migration.Options{}); err != nil {
			return record, err
		}
	}

	held, unlock, vm, err := mv.LockWhereItIs(ctx, uuid, last, "withdrawing a migration of", nil)
	if err != nil {
		return record, err
	}
	defer unlock()

	metadata := vm.Metadata
	metadata.Migrations = nil

	for _, m := range vm.Metadata.Migrations {
		if m.ID == id && !m.Failed {
			record, m.ID = &m, ""
		}

		metadata.Migrations = append(metadata.Migrations, m)
	}

	if _, err := records.WriteMetadata(held, vm, metadata); err != nil {
		return record, err
	}

	_, err = mv.hosts.ReadVM(held, vm.On, uuid)

	return record, err
}

// pinBlocker reports that the VM's configuration pins it to a host other than the target. In a plan this is not
// certain: the plan may be about to change the pin.
func pinBlocker(vm *inventory.VM, to *inventory.Host, certainty status.ConditionStatus) []migration.Blocker {
	pin := vm.Metadata.Host
	if pin == "" || pin == to.Name {
		return nil
	}

	return []migration.Blocker{{
		Reason: migration.HostPinned, Status: certainty, Attribute: "host",
		Message: fmt.Sprintf("its host attribute pins it to host %q, which would bring it back", pin),
		Remedy:  "Change or remove the VM's host attribute.",
	}}
}

// candidateText lists what keeps each host from accepting the VM.
func candidateText(candidates []Candidate) string {
	var lines []string

	for _, c := range candidates {
		for _, b := range c.Blockers {
			if b.Status == status.False {
				lines = append(lines, fmt.Sprintf("  - host %q: %s", c.Host, b))
			}
		}
	}

	return strings.Join(lines, "\n")
}
