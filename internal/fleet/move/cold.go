package move

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// moveCold moves a stopped VM: it copies the VM's files, defines the VM on the target, and last removes the source's
// definition. Until then the source's definition is the valid one, and everything on the target is unfinished.
func (m *move) moveCold(ctx context.Context, inspected migration.VM) error {
	offlineCopy, err := m.planCopy(ctx, inspected)
	if err != nil {
		return err
	}

	if err := m.begin(ctx, migration.MethodCold, offlineCopy.IntendedCopies()...); err != nil {
		return err
	}

	m.mover.log.InfoContext(ctx, "moving definition", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name,
		"files", offlineCopy.Paths())

	m.stays = offlineCopy.Kept()
	err = m.copyAndHandOver(ctx, offlineCopy)

	m.state.End, m.state.Completed, m.state.Phase = time.Now(), true, migration.PhaseSucceeded
	if err != nil {
		m.state.Failed, m.state.Phase, m.state.FailureReason = true, migration.PhaseFailed, err.Error()

		return m.failure(ctx, err)
	}

	return nil
}

// planCopy plans what moveCold copies. It returns an error if something blocks the copy, or if the target has no room
// for the VM: that is reported before anything is done, rather than at the reservation for the handover.
func (m *move) planCopy(ctx context.Context, inspected migration.VM) (*migration.OfflineCopy, error) {
	offlineCopy, blockers, err := migration.PlanOfflineCopy(ctx, inspected, m.from.Conn, m.to.Conn, m.effective.Options,
		m.mover.log)
	if err != nil {
		return nil, err
	}

	if blocking := migration.Blocking(blockers); len(blocking) > 0 {
		return nil, &inventory.Error{VM: m.vm.Name, Host: m.from.Name, Err: &migration.BlockedError{Blockers: blocking}}
	}

	arrival, err := m.reserveForCold(ctx)
	if err != nil {
		return nil, err
	}

	arrival.Release()

	return offlineCopy, nil
}

// turnOffUnblocked turns the running VM off if nothing blocks its move, as far as that can be known while it runs. off
// is the VM as it will be then. It returns the VM as it is afterwards.
func (m *move) turnOffUnblocked(ctx context.Context, off migration.VM) (migration.VM, error) {
	starts := m.starts
	m.starts = true

	if _, err := m.planCopy(ctx, off); err != nil {
		return off, err
	}

	// What came before may have taken minutes.
	if err := m.readAgain(ctx); err != nil {
		return off, err
	}

	if !m.vm.Active { // Its user turned it off: it stays off.
		m.starts = starts

		return m.verifyUnblocked(ctx)
	}

	m.mover.log.InfoContext(ctx, "turning off VM", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name)

	if err := m.turnOff(ctx, m.vm); err != nil {
		return off, err
	}

	if err := m.readAgain(ctx); err != nil {
		return off, err
	}

	return m.verifyUnblocked(ctx)
}

// readAgain reads the VM that is moved as it is now.
func (m *move) readAgain(ctx context.Context) error {
	now, err := m.mover.findIdle(ctx, m.vm.UUID, inventory.LastKnown{Host: m.from.Name, HostUUID: m.vm.HostUUID})
	if err == nil {
		m.vm = now
	}

	return err
}

// copyAndHandOver copies the VM's files and then moves its definition. If either fails, it removes from the target what
// the move created there.
func (m *move) copyAndHandOver(ctx context.Context, offlineCopy *migration.OfflineCopy) error {
	if err := m.clearAutostart(ctx); err != nil {
		m.state.FailurePlane = migration.PlaneControl

		return err
	}

	m.state.FailurePlane = migration.PlaneData
	err := offlineCopy.Copy(ctx, &m.state.Statistics, func(path string) error {
		return m.made(ctx, m.state, []string{path})
	})

	if err == nil {
		err = offlineCopy.VerifyUnchanged(ctx)
	}

	if err == nil {
		err = m.mover.placement.VerifyGrowth(ctx, m.vm, m.to, offlineCopy.Created())
	}

	if err == nil {
		err = m.stillOurs(ctx)
	}

	there := notThere

	if err == nil {
		m.state.FailurePlane = migration.PlaneControl
		there, err = m.handOverReserved(ctx, offlineCopy)
	}

	after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	if err != nil {
		return errors.Join(err, m.undoCold(after, offlineCopy, there))
	}

	m.state.FailurePlane = ""
	m.restoreAutostart(after, m.to)

	m.copied, m.kept = offlineCopy.Disks(), m.keepsOriginals()

	return nil
}

// stillOurs checks that no other run took over the VM's lock while this run was suspended. Such a run would have
// completed this run's record first.
func (m *move) stillOurs(ctx context.Context) error {
	d, err := m.from.Conn.Domain(ctx, m.vm.UUID)
	if err != nil {
		return err
	}

	if p := inventory.NewEntry(*d).Parse(); p.Persistent != nil {
		record := p.Persistent.Metadata().Migration(m.record.ID)
		if record != nil && !record.Completed() && record.Start.Equal(m.record.Start) {
			return nil
		}
	}

	return &inventory.Error{
		VM: m.vm.Name, Host: m.from.Name, Kind: records.ErrLocked,
		Detail: "another run has taken the VM over",
	}
}

// presence says what is known about a definition on the target.
type presence int

const (
	notThere     presence = iota
	madeThere             // this run made it, and the source still has its own
	unclearThere          // it is unknown which definition is valid: the source may lose its own at any moment
)

// handOverReserved hands the VM over if the target still has room for it, in addition to all VMs that came while files
// were copied.
func (m *move) handOverReserved(ctx context.Context, copied *migration.OfflineCopy) (presence, error) {
	arrival, err := m.reserveForCold(ctx)
	if err != nil {
		return notThere, err
	}
	defer arrival.Release()

	m.mover.log.InfoContext(ctx, "handing over definition", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name)

	return m.handOver(ctx, arrival, copied)
}

// handOver defines the VM on the target and removes the source's definition, together with the firmware's variables and
// the TPM's state there, unless they are the same files on the target. The VM gets its room and its host devices there
// from arrival; no devices means the same ones. The end of ctx doesn't abort handOver. Otherwise a host could carry out
// an abandoned call later, and thereby change which host has the VM. While this run waited for its turn to place the
// VM, a user may have started and stopped it, so handOver checks that its files are still those that were copied.
func (m *move) handOver(
	ctx context.Context, arrival *placement.Arrival, copied *migration.OfflineCopy,
) (presence, error) {
	ctx, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	before, there, err := m.defineOnTarget(ctx, arrival)
	if err != nil {
		return there, err
	}

	if err := copied.VerifyUnchanged(ctx); err != nil {
		return madeThere, err
	}

	// Slow storage pools may have used up the time.
	ctx, cancel = lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	return m.removeFromSource(ctx, before)
}

// defineOnTarget defines the VM on the target. It returns the source's definition.
func (m *move) defineOnTarget(
	ctx context.Context, arrival *placement.Arrival,
) (before string, there presence, err error) {
	if before, err = m.from.Conn.CompleteXML(ctx, m.vm.UUID); err != nil {
		return "", notThere, err
	}

	xml, err := m.arrivingXML(before, arrival.Devices)
	if err != nil {
		return "", notThere, err
	}

	if err := arrival.Verify(); err != nil {
		return "", notThere, err
	}

	_, err = m.to.Conn.RedefineDomain(ctx, xml, xml)
	if err != nil && inventory.Refused(err) {
		return "", notThere, err
	}

	return before, madeThere, err
}

// removeFromSource removes the source's definition, unless a user has started the VM. before is that definition.
func (m *move) removeFromSource(ctx context.Context, before string) (presence, error) {
	started := &inventory.Error{
		VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy, Detail: "it was started while it was moved",
	}

	d, err := m.from.Conn.Domain(ctx, m.vm.UUID)
	if err != nil {
		return madeThere, err
	}

	if d.Active() {
		return madeThere, started
	}

	err = Undefine(ctx, m.from, m.vm.UUID, m.stays...)
	if err != nil && inventory.Refused(err) {
		return madeThere, err
	}

	// The answer may be lost. What counts is whether the definition was removed.
	d, readErr := m.from.Conn.Domain(ctx, m.vm.UUID)

	switch {
	case inventory.IsNotFound(readErr):
		return madeThere, nil
	case readErr != nil:
		return unclearThere, errors.Join(err, readErr)
	case err == nil && d.Active():
		// If a user started the VM meanwhile, it now runs at the source without its definition.
		_, err := m.from.Conn.RedefineDomain(ctx, before, before)

		return unclearThere, errors.Join(started, err)
	default:
		return unclearThere, errors.Join(err, &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy, Detail: "its definition there was not removed",
		})
	}
}

// arrivingXML returns the definition that the target gets. before is the source's.
func (m *move) arrivingXML(before string, devices map[string]domain.Row) (string, error) {
	definition, err := domain.Parse(before)
	if err != nil {
		return "", err
	}

	if !reflect.DeepEqual(definition.DiskUses(), m.vm.Entry.Parse().Persistent.DiskUses()) {
		return "", &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy,
			Detail: "its disks were changed while it was moved", Next: inventory.Replan,
		}
	}

	arrived := m.vm.Metadata
	// On the target the VM consists of the files of this move.
	arrived.Copies = inventory.CarriedCopies(arrived.Copies, m.record.SourceUUID, m.record.TargetUUID)
	arrived.Restarting = m.vm.CarriedRestart()

	if err := definition.SetMetadata(arrived); err != nil {
		return "", err
	}

	if err := definition.Apply(domain.Spec{HostDevices: devices}); err != nil {
		return "", err
	}

	return definition.XML()
}

// undoCold removes what a failed move made on the target, if it is certain that this run made it and that the source's
// definition is the valid one. Files that can't be removed now stay noted, and are removed before the next attempt.
func (m *move) undoCold(ctx context.Context, offlineCopy *migration.OfflineCopy, there presence) error {
	if there == unclearThere {
		return nil
	}

	if err := m.stillOurs(ctx); err != nil {
		return nil //nolint:nilerr // Another run has the VM now, and cleans up. The move's own error says what happened.
	}

	d, err := m.from.Conn.Domain(ctx, m.vm.UUID)
	if err != nil {
		return nil //nolint:nilerr // The source may still have the VM, so nothing on the target may be removed.
	}

	if !d.Active() {
		m.restoreAutostart(ctx, m.from)
	}

	if there == madeThere {
		if err := m.undefineUnstarted(ctx); err != nil {
			return err
		}
	}

	if err := migration.DiscardCopies(ctx, m.to.Conn, offlineCopy.Created()); err != nil {
		return err
	}

	_, err = m.mover.DiscardCopies(ctx, m.vm, m.to)

	return err
}

// undefineUnstarted removes the definition that this run has just made on the target.
func (m *move) undefineUnstarted(ctx context.Context) error {
	d, err := m.to.Conn.Domain(ctx, m.vm.UUID)

	switch {
	case inventory.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.State != libvirt.Shutoff || d.Reason != "Unknown":
		return m.vm.CopiedTwice(m.to.Name)
	default:
		return Undefine(ctx, m.to, m.vm.UUID, m.stays...)
	}
}
