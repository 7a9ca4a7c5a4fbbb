package move

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// cold moves a stopped VM: it copies the VM's files, defines the VM on the target, and last removes the source's
// definition. Until then the source's definition is the valid one, and everything on the target is unfinished.
func (m *move) cold(ctx context.Context, inspected migration.VM) error {
	offlineCopy, blockers, err := migration.PlanOfflineCopy(ctx, inspected, m.from.Conn, m.to.Conn, m.effective.Options,
		m.mover.log)
	if err != nil {
		return err
	}

	if blocking := migration.Blocking(blockers); len(blocking) > 0 {
		return &inventory.Error{VM: m.vm.Name, Host: m.from.Name, Err: &migration.BlockedError{Blockers: blocking}}
	}

	// Report a lack of room before anything is copied, rather than at the reservation for the handover.
	_, release, err := m.reserveForCold(ctx, inspected)
	if err != nil {
		return err
	}

	release()

	if err := m.begin(ctx, migration.MethodCold, offlineCopy.IntendedCopies()...); err != nil {
		return err
	}

	m.mover.log.InfoContext(ctx, "moving definition", "name", m.vm.Name, "source", m.from.Name, "target", m.to.Name,
		"files", offlineCopy.Paths())

	m.stays = offlineCopy.Kept()
	err = m.coldSteps(ctx, inspected, offlineCopy)

	m.state.End, m.state.Completed, m.state.Phase = time.Now(), true, migration.PhaseSucceeded
	if err != nil {
		m.state.Failed, m.state.Phase, m.state.FailureReason = true, migration.PhaseFailed, err.Error()

		return m.failure(ctx, err)
	}

	return nil
}

func (m *move) coldSteps(ctx context.Context, inspected migration.VM, offlineCopy *migration.OfflineCopy) error {
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
		err = m.mover.placement.VerifyGrowth(ctx, m.vm, m.to, offlineCopy.Made())
	}

	if err == nil {
		err = m.stillOurs(ctx)
	}

	there := notThere

	if err == nil {
		m.state.FailurePlane = migration.PlaneControl
		there, err = m.handOverReserved(ctx, inspected, offlineCopy)
	}

	after, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	if err != nil {
		return errors.Join(err, m.undoCold(after, offlineCopy, there))
	}

	m.state.FailurePlane = ""
	m.restoreAutostart(after, m.to)

	m.copied, m.kept = offlineCopy.Disks(), *m.effective.Options.WithDefaults().KeepSourceDisks
	if !m.kept {
		migration.RemoveUnused(after, m.from.Conn, m.copied, m.mover.log.With("name", m.vm.Name))
	}

	return nil
}

// stillOurs checks that no other run took over the VM's lock while this run was asleep. A run that takes it over first
// completes this run's record.
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
	madeThere             // by this run, and the source still has its own
	unclearThere          // whether it is valid, as the source may lose its own at any moment
)

// handOverReserved hands the VM over if the target still has room for it, in addition to all VMs that came while files
// were copied.
func (m *move) handOverReserved(
	ctx context.Context, inspected migration.VM, copied *migration.OfflineCopy,
) (presence, error) {
	devices, release, err := m.reserveForCold(ctx, inspected)
	if err != nil {
		return notThere, err
	}
	defer release()

	return m.handOver(ctx, devices, copied)
}

// handOver defines the VM on the target and removes the source's definition, together with the firmware's variables and
// the TPM's state there, unless they are the same files on the target. devices are the host devices that the VM has
// there; nil means the same devices. The end of ctx doesn't abort handOver: a call that a host still carries out later
// would decide where the VM is. While this run waited for its turn to place the VM, a user may have started and stopped
// it, so handOver checks that its files are still those that were copied.
func (m *move) handOver(
	ctx context.Context, devices map[string]domain.Row, copied *migration.OfflineCopy,
) (presence, error) {
	ctx, cancel := lease.CleanupContext(ctx, inventory.FinishTimeout)
	defer cancel()

	before, err := m.from.Conn.CompleteXML(ctx, m.vm.UUID)
	if err != nil {
		return notThere, err
	}

	definition, err := domain.Parse(before)
	if err != nil {
		return notThere, err
	}

	if !reflect.DeepEqual(definition.DiskUses(), m.vm.Entry.Parse().Persistent.DiskUses()) {
		return notThere, &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy,
			Detail: "its disks were changed while it was moved", Remedy: "Plan and apply again.",
		}
	}

	arrived := m.vm.Metadata
	arrived.Copies = nil // On the target the VM consists of these files.

	if err := definition.SetMetadata(arrived); err != nil {
		return notThere, err
	}

	if err := definition.Apply(domain.Spec{HostDevices: devices}); err != nil {
		return notThere, err
	}

	xml, err := definition.XML()
	if err != nil {
		return notThere, err
	}

	if _, err := m.to.Conn.RedefineDomain(ctx, xml, xml); err != nil {
		if Refused(err) {
			return notThere, err
		}

		return madeThere, err
	}

	if err := copied.VerifyUnchanged(ctx); err != nil {
		return madeThere, err
	}

	d, err := m.from.Conn.Domain(ctx, m.vm.UUID)
	if err != nil {
		return madeThere, err
	}

	if d.Active() {
		return madeThere, &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy,
			Detail: "it was started while it was moved",
		}
	}

	err = Undefine(ctx, m.from, m.vm.UUID, m.stays...)
	if err != nil && Refused(err) {
		return madeThere, err
	}

	// Whether the definition was removed decides, not whether the answer arrived.
	d, readErr := m.from.Conn.Domain(ctx, m.vm.UUID)

	switch {
	case inventory.IsNotFound(readErr):
		return madeThere, nil
	case readErr != nil:
		return unclearThere, errors.Join(err, readErr)
	case err == nil && d.Active():
		// If the VM was started in the last moment, it continues to run without its definition.
		_, err := m.from.Conn.RedefineDomain(ctx, before, before)

		return unclearThere, errors.Join(&inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy, Detail: "it was started while it was moved",
		}, err)
	default:
		return unclearThere, errors.Join(err, &inventory.Error{
			VM: m.vm.Name, Host: m.from.Name, Kind: inventory.ErrBusy, Detail: "its definition there was not removed",
		})
	}
}

// Refused says whether libvirt has answered with an error, and won't carry out the call later.
func Refused(err error) bool {
	return !errors.Is(err, inventory.ErrUnreachable) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded)
}

// undoCold removes what a failed move made on the target, if it is certain that this run made it and that the source's
// definition is the valid one. Files that can't be removed now stay noted, and are removed before the next attempt.
func (m *move) undoCold(ctx context.Context, offlineCopy *migration.OfflineCopy, there presence) error {
	if there == unclearThere {
		return nil
	}

	if err := m.stillOurs(ctx); err != nil {
		return nil //nolint:nilerr // The run that has the VM now decides. The move's own error says what happened.
	}

	d, err := m.from.Conn.Domain(ctx, m.vm.UUID)
	if err != nil {
		return nil //nolint:nilerr // While the source may have the VM, it is there and nowhere else.
	}

	if !d.Active() {
		m.restoreAutostart(ctx, m.from)
	}

	if there == madeThere {
		if err := m.undefineUnstarted(ctx); err != nil {
			return err
		}
	}

	if err := migration.DiscardCopies(ctx, m.to.Conn, offlineCopy.Made()); err != nil {
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
		return m.mover.copiedTwice(m.vm, m.to)
	default:
		return Undefine(ctx, m.to, m.vm.UUID, m.stays...)
	}
}

// DiscardCopies removes what unfinished moves left on other hosts: files, and the definition that was made with them.
// If only is not nil, it considers only that host. It removes the files from the VM's metadata, and returns the VM as
// it is then. What is on hosts that are not configured stays, and stays noted.
func (cl *Cleanup) DiscardCopies(ctx context.Context, vm *inventory.VM, only *inventory.Host) (*inventory.VM, error) {
	var failures []error

	gone := map[string]bool{vm.HostUUID: true} // On this host the VM consists of them.
	stale := slices.Clone(vm.StaleHosts)

	for _, h := range cl.hosts.Configured {
		if h.Config.Fenced || only != nil && h != only || len(vm.Metadata.Copies) == 0 {
			continue
		}

		info, err := h.Conn.Info(ctx)
		if err == nil {
			copies := vm.CopiesOn(info.UUID)
			if len(copies) == 0 {
				continue
			}

			err = cl.discardOn(ctx, vm, h, copies)
		}

		if err != nil {
			failures = append(failures, err)

			continue
		}

		gone[info.UUID] = true
		stale = slices.DeleteFunc(stale, func(name string) bool { return name == h.Name })
	}

	m := vm.Metadata
	m.Copies = slices.DeleteFunc(slices.Clone(m.Copies), func(c domain.Copy) bool { return gone[c.HostUUID] })

	changed, err := records.WriteMetadata(ctx, vm, m)
	if err == nil && changed {
		var now *inventory.VM
		if now, err = cl.hosts.Refresh(ctx, vm); err == nil {
			now.StaleHosts, vm = stale, now
		}
	}

	return vm, errors.Join(append(failures, err)...)
}

// discardOn removes what is on one host. If the host has a definition in addition to the files, all had been copied,
// and whether the VM was started since is unknown: libvirt forgets that when its daemon is restarted.
func (cl *Cleanup) discardOn(ctx context.Context, vm *inventory.VM, h *inventory.Host, copies []domain.Copy) error {
	var (
		making []domain.Copy
		paths  []string
	)

	for _, c := range copies {
		if c.Making {
			making = append(making, c)
		} else {
			paths = append(paths, c.Path)
		}
	}

	// Remove them before their directories.
	if err := migration.DiscardUnfinishedCopies(ctx, h.Conn, vm.On.Conn, making); err != nil || len(paths) == 0 {
		return err
	}

	if _, err := h.Conn.Domain(ctx, vm.UUID); err == nil {
		return cl.copiedTwice(vm, h)
	} else if !inventory.IsNotFound(err) {
		return err
	}

	cl.log.InfoContext(ctx, "removing an unfinished copy", "name", vm.Name, "host", h.Name, "files", paths)

	return migration.DiscardLeftCopies(ctx, h.Conn, vm.On.Conn, paths)
}

// copiedTwice returns an error that says that only a user can tell which of two VMs is the valid one.
func (cl *Cleanup) copiedTwice(vm *inventory.VM, h *inventory.Host) error {
	return &inventory.Error{
		VM: vm.Name, Host: h.Name, Kind: inventory.ErrAmbiguous,
		Detail: fmt.Sprintf("a move was interrupted when all was copied: host %q has its definition and its files as well, "+
			"and may have started it since", h.Name),
		Remedy: fmt.Sprintf("Find out which of the two has what you want. Usually that is the one on host %q: then undefine "+
			"the other with \"virsh undefine --nvram\" on host %q (--keep-nvram if the hosts share that file), and apply again.",
			vm.Host, h.Name),
	}
}
