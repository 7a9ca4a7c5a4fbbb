package move

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// CloseRecord completes the record of a finished migration, and does what its run would have done. While the source of
// a VM that has arrived doesn't answer, the record stays open, and CloseRecord returns an error: the source may still
// have a process of the VM, and a run ends that process only if the record is open.
func (rec *Recovery) CloseRecord(
	ctx context.Context, vm *inventory.VM, record domain.Migration, aborted error,
) (*inventory.VM, error) {
	if rec.isSourceSilent(vm, record) {
		rec.log.WarnContext(ctx, "the record of a migration stays open, because its source doesn't answer",
			"name", vm.Name, "host", vm.Host, "source", record.SourceHost)

		return vm, sourceSilent(vm.Name, vm.Host, record.SourceHost, nil)
	}

	record.End = time.Now().UTC().Truncate(time.Millisecond)

	if record.Transport == migration.TransportAuto {
		record.Transport = "" // Only the killed run knew which transport it used.
	}

	if aborted != nil {
		record.AbortRequested, record.AbortStatus = true, migration.AbortSucceeded
	}

	vm, variables := rec.closeByHost(ctx, vm, &record)

	// The VM uses the files that were copied to this host, or may use them.
	vm.Metadata.Copies = slices.DeleteFunc(carriedTo(vm, record), func(c domain.Copy) bool {
		return c.FromUUID != vm.HostUUID
	})
	vm.SettleMoved()

	if record.Autostart && !vm.Autostart && (vm.Host == record.SourceHost || vm.Host == record.TargetHost) {
		if err := vm.On.Conn.SetAutostart(ctx, vm.UUID, true); err != nil {
			return vm, err
		}
	}

	if vm.Active && vm.Host == record.TargetHost && slices.Contains(vm.StaleHosts, record.SourceHost) {
		if err := rec.removeStaleOn(ctx, record.SourceHost, vm); err != nil {
			return vm, err
		}
	}

	if from := rec.hosts.Host(record.SourceHost); from != nil && !from.Config.Fenced {
		migration.RemoveNVRAM(ctx, from.Conn, vm.On.Conn, variables, rec.log)
	}

	vm = rec.keepRecord(ctx, vm, record)

	if vm.Migrating || vm.BrokeInPostCopy() {
		return vm, nil
	}

	rec.records.ForgetMove(ctx, vm)

	now, err := rec.RemoveLeftVolumes(ctx, vm, nil, false)
	if err != nil { // It is noted, and the next plan reports it.
		rec.log.WarnContext(ctx, "disks were left behind", "name", vm.Name, "error", err.Error())
	}

	return now, nil
}

// isSourceSilent says whether the VM is on the record's target while the source doesn't answer. A fenced source is off,
// so that it has no process. The record names a source that answers as the configuration does.
func (rec *Recovery) isSourceSilent(vm *inventory.VM, record domain.Migration) bool {
	from := rec.hosts.Host(record.SourceHost)

	return vm.Host == record.TargetHost && from != nil && from != vm.On && !from.Config.Fenced &&
		slices.Contains(vm.SilentHosts, from.Name)
}

// sourceSilent returns the error of a VM that has arrived while its source doesn't answer. cause says why, if known.
func sourceSilent(name, to, from string, cause error) error {
	return &inventory.Error{
		VM: name, Host: to, Kind: inventory.ErrUnreachable, Err: cause,
		Detail: fmt.Sprintf("it has moved to host %q, and it isn't known what host %q, which doesn't answer, still has "+
			"of it", to, from),
		Remedy: fmt.Sprintf("Bring host %q back. Or make sure that it is off, then set hosts.%s.fenced = true.", from, from),
		Next:   inventory.Continue,
	}
}

// closeByHost writes into the record what follows from the host that has the VM now. If the VM stayed at its source,
// closeByHost discards unfinished copies. It returns the VM as it is then, and the files of firmware variables that the
// source no longer needs.
func (rec *Recovery) closeByHost(
	ctx context.Context, vm *inventory.VM, record *domain.Migration,
) (_ *inventory.VM, variables []string) {
	switch {
	case record.Failed: // The result is already known.
	case vm.Host == record.TargetHost:
		record.Phase = migration.PhaseSucceeded

		if record.AbortRequested {
			record.AbortStatus = migration.AbortFailed
		}

		if vm.Running() {
			rec.SetClock(ctx, vm.On, vm)
		}

		variables = rec.variablesLeft(ctx, vm)

		rec.EndArriving(ctx, vm.On, vm)
	case vm.Host == record.SourceHost:
		record.Phase, record.Failed, record.FailurePlane = migration.PhaseFailed, true, migration.PlaneControl
		record.FailureReason = fmt.Sprintf("the run that moved it (%s) ended without recording the result, and the VM "+
			"stayed on host %q", record.Owner, vm.Host)

		// This run may have moved it itself, and found the reason.
		if known, is := rec.unwritten.LoadAndDelete(recordKey(vm, *record)); is {
			found, _ := known.(domain.Migration)
			if found.Failed {
				record.FailurePlane, record.FailureReason = found.FailurePlane, found.FailureReason
			}
		}

		// Files that can't be removed now are removed before the next attempt.
		now, err := rec.DiscardCopies(ctx, vm, nil)
		if err != nil {
			rec.log.WarnContext(ctx, "an unfinished copy was not removed", "name", vm.Name, "error", err.Error())
		}

		vm = now
	default:
		record.Phase, record.Failed, record.FailurePlane = migration.PhaseFailed, true, migration.PlaneControl
		record.FailureReason = fmt.Sprintf("the run that moved it (%s) ended without recording the result, and another "+
			"moved it to host %q", record.Owner, vm.Host)
	}

	return vm, variables
}

// variablesLeft returns the files of firmware variables that the VM's host did not have before the move that brought
// the VM there. The host that the VM came from no longer needs its files.
func (rec *Recovery) variablesLeft(ctx context.Context, vm *inventory.VM) []string {
	if len(vm.Metadata.Copies) == 0 {
		return nil
	}

	inspected, err := Inspect(ctx, vm)
	if err != nil {
		rec.log.WarnContext(ctx, "firmware variables not determined", "name", vm.Name, "error", err.Error())

		return nil
	}

	return slices.DeleteFunc(inspected.NVRAMFiles(), func(file string) bool {
		return !slices.ContainsFunc(vm.Metadata.Copies, func(c domain.Copy) bool {
			return c.Path == file && c.HostUUID == vm.HostUUID && c.FromUUID != vm.HostUUID
		})
	})
}
