package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// begin writes the record of the move, and the files that are about to be made on the target. It is the last step
// before anything happens, because libvirt doesn't write to a definition during a migration.
func (m *move) begin(ctx context.Context, method string, making ...domain.Copy) error {
	admission.MarkStarted(ctx)

	target, err := m.to.Conn.Info(ctx)
	if err != nil {
		return err
	}

	// A running VM's checkpoints vanish from the source with the guest.
	if m.checkpoints, err = m.from.Conn.Checkpoints(ctx, m.vm.UUID); err != nil {
		return err
	}

	state := migration.State{
		SourceHost: m.from.Name, TargetHost: m.to.Name, Start: time.Now(), Method: method,
		Phase: migration.PhasePreparingTarget,
	}
	record := state.Record(m.id, m.mover.owner)
	record.SourceUUID, record.TargetUUID = m.vm.HostUUID, target.UUID
	record.Autostart, record.Policy, record.Options = m.vm.Autostart, m.effective.Policy, m.effective.Options.Text()

	if method != migration.MethodCold {
		record.Transport = m.effective.Options.Transport
	}

	m.mover.log.InfoContext(ctx, "migration options", "name", m.vm.Name, "policy", record.Policy,
		"options", record.Options)

	// An old record of the source doesn't count as what this move leaves there.
	m.vm.Metadata.LeftVolumes = m.vm.LeftElsewhere()

	if err := m.writeCreating(ctx, record, making); err != nil {
		return err
	}

	m.state = state

	return m.mover.records.NoteMove(ctx, m.vm, m.to)
}

// making records which files are about to be created on the target. If this run is killed, a later run finds by the
// record the files that this run created.
func (m *move) making(ctx context.Context, files []domain.Copy) error {
	return m.writeCreating(ctx, m.record, files)
}

// writeCreating writes the record of the move together with the files that it is about to make.
func (m *move) writeCreating(ctx context.Context, record domain.Migration, files []domain.Copy) error {
	metadata := m.vm.Metadata

	if len(files) > 0 {
		info, err := m.to.Conn.Info(ctx)
		if err != nil {
			return err
		}

		metadata.Copies = slices.Clone(metadata.Copies)

		for _, c := range files {
			c.Host, c.HostUUID, c.FromUUID = m.to.Name, info.UUID, m.vm.HostUUID
			metadata.Copies = append(metadata.Copies, c)
		}
	}

	if err := m.writeRecord(ctx, metadata, record); err != nil || len(files) == 0 {
		return err
	}

	return m.noteArriving(ctx)
}

// writeRecord writes the record of the move, with the rest of the metadata, into the VM at the source.
func (m *move) writeRecord(ctx context.Context, metadata domain.Metadata, record domain.Migration) error {
	if _, err := records.WriteMetadata(ctx, m.vm, metadata.WithMigration(record)); err != nil {
		return err
	}

	now, err := m.mover.hosts.Refresh(ctx, m.vm)
	if err != nil {
		return err
	}

	m.vm, m.record = now, record

	return nil
}

// made records which files were created on the target. If this run is killed, a later run removes them.
func (m *move) made(ctx context.Context, state migration.State, images []string) error {
	info, err := m.to.Conn.Info(ctx)
	if err != nil {
		return err
	}

	record, metadata := m.record, m.vm.Metadata
	record.Method = state.Method
	metadata.Copies = slices.DeleteFunc(slices.Clone(metadata.Copies), func(c domain.Copy) bool {
		return c.Creating && c.HostUUID == info.UUID && slices.Contains(images, c.Path)
	})

	for _, image := range images {
		metadata.Copies = append(metadata.Copies, domain.Copy{
			Host: m.to.Name, HostUUID: info.UUID, Path: image, FromUUID: m.vm.HostUUID,
		})
	}

	// Once the VM is on the target, a run that finds it there knows what is to be removed at the source.
	metadata.LeftVolumes = m.vm.Leaving(images, m.originals(images)...)

	return m.writeRecord(ctx, metadata, record)
}

// keepsOriginals says whether the source keeps the originals of copied disks that weren't made with the VM.
func (m *move) keepsOriginals() bool { return *m.effective.Options.WithDefaults().KeepSourceDisks }

// originals returns the disks among the files that are to be removed at the source once the VM is on the target: those
// that the guest writes to and that weren't made with the VM. If the source keeps them, only those of the request are.
func (m *move) originals(files []string) []string {
	if m.keepsOriginals() {
		return slices.DeleteFunc(m.vm.NotOwn(files), func(file string) bool {
			return !slices.Contains(m.removeOriginals, file)
		})
	}

	return slices.DeleteFunc(m.vm.NotOwn(files), func(file string) bool {
		return !slices.ContainsFunc(m.disks, func(d domain.MobileDisk) bool { return d.Path == file && !d.ReadOnly })
	})
}

// noteAbandoned records the progress of a migration that libvirt gave up, because readers no longer find a job that
// reports it.
func (m *move) noteAbandoned(ctx context.Context, state migration.State) {
	if err := m.writeRecord(ctx, m.vm.Metadata, m.recordOf(state)); err != nil {
		m.mover.log.WarnContext(ctx, "progress of the migration not recorded", "name", m.vm.Name, "host", m.from.Name,
			"error", err.Error())
	}
}

// recordOf returns the record of the move in that state.
func (m *move) recordOf(state migration.State) domain.Migration {
	record := state.Record(m.id, m.mover.owner).WithHosts(m.record)
	record.Start, record.Autostart = m.record.Start, m.record.Autostart
	record.Policy, record.Options = m.record.Policy, m.record.Options

	return record
}

// conclude writes the result into the record. If that fails, the move doesn't fail.
func (m *move) conclude(ctx context.Context, now *inventory.VM, err error) *inventory.VM {
	if m.record.Start.IsZero() {
		return now
	}

	if err != nil && !m.state.Failed {
		m.state.Failed, m.state.Phase = true, migration.PhaseFailed
		m.state.FailurePlane, m.state.FailureReason = migration.PlaneControl, err.Error()
	}

	if m.state.End.IsZero() {
		m.state.Completed, m.state.End = true, time.Now()
	}

	now.Metadata.Copies = m.unfinished(now, err)
	m.endArriving(ctx, now)
	now.SettleMoved()

	m.record = m.recordOf(m.state)

	if !now.Migrating && !now.BrokeInPostCopy() {
		m.mover.records.ForgetMove(ctx, now)
	}

	return m.mover.keepRecord(ctx, now, m.record)
}

// unfinished returns the files that unfinished moves left, as far as recorded. It leaves out the files of this move if
// the VM has arrived, or if the live migration removed them.
func (m *move) unfinished(now *inventory.VM, err error) []domain.Copy {
	failed, live := errors.AsType[*migration.FailedError](err)

	return slices.DeleteFunc(carriedTo(now, m.record), func(c domain.Copy) bool {
		removed := live && c.HostUUID == m.record.TargetUUID && !slices.Contains(failed.Left, c.Path)

		return c.FromUUID != now.HostUUID || removed
	})
}

// carriedTo returns the VM's record of copies. If the move has brought the VM to its target, what earlier moves left on
// third hosts counts as left by moves from there, too.
func carriedTo(now *inventory.VM, record domain.Migration) []domain.Copy {
	copies := slices.Clone(now.Metadata.Copies)
	if now.HostUUID == record.TargetUUID {
		copies = append(copies, inventory.CarriedCopies(copies, record.SourceUUID, record.TargetUUID)...)
	}

	return copies
}

// keepRecord writes the record of a finished migration, and returns the VM with it. A failure to write it is only
// logged.
func (rec *Recovery) keepRecord(ctx context.Context, vm *inventory.VM, record domain.Migration) *inventory.VM {
	if vm.Migrating || vm.BrokeInPostCopy() {
		return vm // libvirt would wait for the migration, and then refuse to write.
	}

	_, err := records.WriteMetadata(ctx, vm, vm.Metadata.WithMigration(record))
	if err == nil {
		var now *inventory.VM
		if now, err = rec.hosts.Refresh(ctx, vm); err == nil {
			return now
		}
	}

	rec.log.WarnContext(ctx, "result of the migration not recorded", "name", vm.Name, "host", vm.Host,
		"error", err.Error())
	rec.unwritten.Store(recordKey(vm, record), record)

	return vm
}

// recordKey identifies a record of a VM for this run.
func recordKey(vm *inventory.VM, record domain.Migration) string {
	return fmt.Sprintf("%s %s %d", vm.UUID, record.Owner, record.Start.UnixMilli())
}

// outcome finds out where the VM is now. If the VM certainly runs on the target, outcome removes the source's
// definition. If the source doesn't answer, the move isn't over: the record stays open, by which a later run ends what
// the source still has of the VM. If the lease that held carries is lost, outcome only reads.
func (m *move) outcome(ctx, held context.Context, err error) (*inventory.VM, error) {
	reading, read := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer read()

	after, cancel := lease.CleanupContext(held, inventory.FinishTimeout)
	defer cancel()

	m.from.Forget()
	m.to.Forget()

	last := inventory.LastKnown{Host: m.vm.Host, HostUUID: m.vm.HostUUID}
	if err == nil {
		last = inventory.LastKnown{Host: m.to.Name}
	}

	now, answers, readErr := m.mover.hosts.FindAmong(reading, m.vm.UUID, last)
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}

	if silent := m.silentSource(answers); err == nil && now.On == m.to && silent != nil {
		if !now.Migrating && !now.BrokeInPostCopy() {
			now.LostCheckpoints = m.bringCheckpoints(after, now) // No later run knows them.
		}

		return now, silent
	}

	if err != nil && !now.Migrating && !now.BrokeInPostCopy() {
		m.restoreAutostart(after, now.On)
	}

	now = m.conclude(after, now, err)

	arrived := now.On == m.to && !now.Migrating && !now.BrokeInPostCopy()

	var lost []string
	if arrived {
		lost = m.bringCheckpoints(after, now)
		now.LostCheckpoints = lost
	}

	leftBehind := slices.Contains(now.StaleHosts, m.from.Name)
	if err == nil && leftBehind && now.On == m.to && now.Active && !now.Migrating {
		if removeErr := m.mover.removeStaleOn(after, m.from.Name, now); removeErr != nil {
			return now, removeErr
		}
	}

	if err == nil && arrived {
		var leftErr error
		if now, leftErr = m.mover.RemoveLeftVolumes(after, now, m.from, true); leftErr != nil {
			// The files are noted. The next plan reports them, and the next update removes them.
			m.mover.log.WarnContext(after, "disks were left behind", "name", now.Name, "host", m.from.Name,
				"error", leftErr.Error())
		}
	}

	now.LostCheckpoints = lost

	return now, err
}

// silentSource returns the error of a VM that has arrived while its source doesn't answer; nil if the source answers.
func (m *move) silentSource(answers []inventory.Reply) error {
	i := slices.IndexFunc(answers, func(a inventory.Reply) bool { return a.Host == m.from && a.Err != nil })
	if i < 0 {
		return nil
	}

	return sourceSilent(m.vm.Name, m.to.Name, m.from.Name, answers[i].Err)
}

// notStarted returns the error of a move that was given up before its turn came.
func (m *move) notStarted(err error) error {
	return &inventory.Error{
		VM: m.vm.Name, Host: m.from.Name, Kind: ErrNotMoved, Err: err,
		Detail: fmt.Sprintf("it was not moved: as many VMs as may move at a time were on their way already (%s; %d of "+
			"them moved by others)", m.mover.Queue.Limits(), m.mover.Queue.Others()),
		Remedy: "If this happens often, set longer timeouts or higher migration_limits.", Next: inventory.Continue,
	}
}
