package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

const (
	// abandonedPoll is how often a migration that nobody watches is looked at.
	abandonedPoll = time.Second
	// abandonedSettle is how long hosts may take to tidy up behind one.
	abandonedSettle = 15 * time.Second
)

// lastMigration returns the record of the migration that was begun last, nil if
// none is recorded.
func (vm *VM) lastMigration() *domain.Migration {
	if n := len(vm.Metadata.Migrations); n > 0 {
		return &vm.Metadata.Migrations[n-1]
	}

	return nil
}

// interrupted returns the record of a migration whose end nobody wrote down:
// whoever ran it was killed, or is at it still.
func (vm *VM) interrupted() *domain.Migration {
	if last := vm.lastMigration(); last != nil && !last.Completed() {
		return last
	}

	return nil
}

// LostAutostart says that a migration ended without its run, which would have
// told the machine's host to start it when it boots.
func (vm *VM) LostAutostart() bool {
	record := vm.interrupted()

	return record != nil && record.Autostart && !vm.Autostart && vm.Persistent && vm.Running() && !vm.Migrating
}

// concludeInterrupted finds out how a migration ended whose run was killed, and
// completes its record, so that nothing is done twice. Who is at it still is
// waited for. A migration that goes on without its run is watched to its end,
// and aborted when ctx ends; one that broke in post-copy is resumed, with what
// was said for this machine, if anything was.
func (f *Fleet) concludeInterrupted(
	ctx context.Context, vm *VM, last LastKnown, own migration.Options,
) (*VM, error) {
	// The machine may change hosts while its lock is waited for.
	for range len(f.hosts) + 1 {
		if vm.interrupted() == nil {
			return vm, nil
		}

		now, done, err := f.concludeOn(ctx, vm.host, vm.UUID, last, own)
		if err != nil || done {
			return now, err
		}

		vm = now
	}

	return vm, &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: "it changes hosts all the time",
		Remedy: "Find out who moves it, and apply again.",
	}
}

// concludeFor is concludeInterrupted for an order to move the machine. What was
// planned for a machine is not done to one that another run, which is alive,
// moves elsewhere: the order is refused. One that is for the same host, or is
// the same order, waits.
func (f *Fleet) concludeFor(ctx context.Context, vm *VM, last LastKnown, order MoveOrder) (*VM, error) {
	record := vm.interrupted()
	if record == nil || record.TargetHost == order.Target || order.ID != "" && record.ID == order.ID {
		return f.concludeInterrupted(ctx, vm, last, order.Options)
	}

	who, err := f.liveHolder(ctx, vm.host, vm.UUID)
	if err != nil {
		return vm, err
	}

	if who != "" {
		return vm, &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
			Detail: fmt.Sprintf("it is on its way from host %q to host %q: %s", record.SourceHost, record.TargetHost, who),
			Remedy: "Wait for that migration to end, then plan and apply again.",
		}
	}

	now, err := f.findNow(ctx, vm.UUID, last)
	if err != nil {
		return vm, err
	}

	if now.interrupted() == nil && now.host != vm.host {
		return now, &Error{
			VM: now.Name, Host: now.Host, Kind: ErrBusy,
			Detail: fmt.Sprintf("%s has moved it from host %q meanwhile", record.Owner, vm.Host),
			Remedy: "Plan and apply again.",
		}
	}

	return f.concludeInterrupted(ctx, now, last, order.Options)
}

// concludeOn does it for a machine on that host. It isn't done when the machine
// is on another one by now.
func (f *Fleet) concludeOn(
	ctx context.Context, on *host, uuid string, last LastKnown, own migration.Options,
) (*VM, bool, error) {
	held, unlock, err := f.lockOn(ctx, on, uuid, "concluding a migration of")
	if err != nil {
		return nil, false, err
	}
	defer unlock()

	vm, err := f.findNow(held, uuid, last)
	if err != nil {
		return nil, false, err
	}

	record := vm.interrupted()
	if record == nil {
		return vm, true, nil
	}

	f.log.InfoContext(ctx, "a migration was interrupted", "name", vm.Name, "id", record.ID, "owner", record.Owner,
		"source", record.SourceHost, "target", record.TargetHost)

	aborted := f.awaitAbandoned(held, uuid, *record)

	// What they said before is not true any more.
	for _, h := range f.hosts {
		if h.name == record.SourceHost || h.name == record.TargetHost {
			h.forget()
		}
	}

	after, cancel := context.WithTimeout(context.WithoutCancel(held), finishTimeout)
	defer cancel()

	if err := f.revive(after, vm, *record); err != nil && !isNotFound(err) {
		f.log.WarnContext(ctx, "whether the guest stands still for a migration that is over was not found out",
			"uuid", uuid, "id", record.ID, "error", err.Error())
	}

	vm, err = f.findNow(after, uuid, last)
	if err != nil || vm.host != on {
		return vm, false, errors.Join(aborted, err)
	}

	if record = vm.interrupted(); record != nil && vm.broken() {
		vm, err = f.resumeBroken(held, vm, *record, last, own)

		return vm, true, errors.Join(aborted, err)
	}

	if err := vm.settled(); err != nil {
		return vm, false, errors.Join(aborted, err)
	}

	if record == nil {
		return vm, true, aborted
	}

	vm, err = f.closeRecord(after, vm, *record, aborted)

	return vm, true, errors.Join(aborted, err)
}

// awaitAbandoned waits until a migration that nobody runs any more is over.
// When ctx ends it is aborted, and why is returned once that is through. One
// that broke in post-copy isn't waited for: it does not mend itself.
func (f *Fleet) awaitAbandoned(ctx context.Context, uuid string, record domain.Migration) (aborted error) {
	var quiet time.Time // since when no job is seen while the hosts still wait for each other

	for {
		running, waiting, broken := f.abandoned(context.WithoutCancel(ctx), uuid, record)

		switch {
		case broken:
			return aborted
		case running:
			quiet = time.Time{}
		case !waiting:
			return aborted
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > abandonedSettle:
			return aborted
		}

		if err := pause(ctx, abandonedPoll); err == nil {
			continue
		}

		if aborted != nil {
			return aborted // It could not be aborted.
		}

		aborted = context.Cause(ctx)
		if running || waiting { // Where the job could not be asked for, it may run.
			f.abortJob(context.WithoutCancel(ctx), uuid, record)
		}

		var cancel context.CancelFunc

		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), abandonedSettle)
		defer cancel()
	}
}

// abandoned tells whether a migration out of the source runs, whether one of the
// hosts waits for the other, and whether it broke in post-copy: at the source
// that is said as well while QEMU goes on without its client, so that the target
// has to say it too, or to be gone.
func (f *Fleet) abandoned(
	ctx context.Context, uuid string, record domain.Migration,
) (running, waiting, broken bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	for _, name := range []string{record.SourceHost, record.TargetHost} {
		h := f.host(name)
		if h == nil || h.cfg.Fenced {
			continue
		}

		d, err := h.conn.Domain(ctx, uuid)
		fails := err == nil && d.Active() && d.Reason == status.ReasonPostcopyFailed

		if name == record.TargetHost {
			gone := isNotFound(err) || err == nil && !d.Active()
			broken = fails || broken && gone
		} else {
			broken = fails
		}

		if err != nil || !d.Active() {
			continue // Whether it matters is found out when the machine is looked for.
		}

		waiting = waiting || d.InMigration()
		job, err := h.conn.Job(ctx, uuid)
		running = running || err == nil && job != nil && job.Type.Active() &&
			job.Operation == libvirt.OperationMigrationOut
	}

	return running, waiting, broken
}

// strandedAmong says that the guest stands still at the source of a migration
// that nobody completed, and that its target, which answered, has nothing of it.
func (vm *VM) strandedAmong(answers []answer) bool {
	record := vm.interrupted()
	if record == nil || record.SourceHost != vm.Host || !vm.Persistent ||
		vm.State != libvirt.Paused || vm.Reason != libvirt.ReasonMigration {
		return false
	}

	return slices.ContainsFunc(answers, func(a answer) bool {
		return a.host.name == record.TargetHost && !a.fenced() && a.err == nil && a.vm == nil
	})
}

// inspect finds out about the machine what counts for moving it. One that is
// stranded is let go on before anything else is done to it.
func (vm *VM) inspect(ctx context.Context) (migration.Machine, error) {
	m, err := migration.Inspect(ctx, vm.host.conn, vm.UUID)
	if vm.Stranded {
		m.State, m.Reason = libvirt.Running, ""
	}

	return m, err
}

// revive ends what a migration that is over left half done at its source, if
// nobody else did.
func (f *Fleet) revive(ctx context.Context, vm *VM, record domain.Migration) error {
	from, to := f.host(record.SourceHost), f.host(record.TargetHost)
	if from == nil || to == nil || from.cfg.Fenced || to.cfg.Fenced {
		return nil // What they have can't be known.
	}

	revived, err := migration.Revive(ctx, from.conn, to.conn, vm.UUID)
	if revived && err == nil {
		f.log.WarnContext(ctx, "the source still waited for the end of a migration that is over", "uuid", vm.UUID,
			"id", record.ID, "host", from.name)
		f.setClock(ctx, from, vm) // If the guest is on the target, there is nobody here to set it.
	}

	return err
}

// abortJob aborts the migration out of the record's source, if it can be.
func (f *Fleet) abortJob(ctx context.Context, uuid string, record domain.Migration) {
	h := f.host(record.SourceHost)
	if h == nil || h.cfg.Fenced {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()

	f.log.WarnContext(ctx, "aborting migration", "uuid", uuid, "id", record.ID, "host", h.name)

	if err := h.conn.AbortJob(ctx, uuid); err != nil && !errors.Is(err, libvirt.ErrOperationInvalid) {
		f.log.WarnContext(ctx, "migration not aborted", "uuid", uuid, "host", h.name, "error", err.Error())
	}
}
