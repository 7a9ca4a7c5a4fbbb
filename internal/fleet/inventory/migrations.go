package inventory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// LastRecord returns the record of the migration that was begun last, nil if none is recorded.
func (vm *VM) LastRecord() *domain.Migration {
	if n := len(vm.Metadata.Migrations); n > 0 {
		return &vm.Metadata.Migrations[n-1]
	}

	return nil
}

// OpenMigration returns the record of a migration whose end is not recorded: whoever ran it was killed, or is at it
// still.
func (vm *VM) OpenMigration() *domain.Migration {
	if last := vm.LastRecord(); last != nil && !last.Completed() {
		return last
	}

	return nil
}

// BrokeInPostCopy says that the VM's migration broke in post-copy: what there is of its memory is in two parts, or one
// of them is gone.
func (vm *VM) BrokeInPostCopy() bool { return vm.Active && vm.Reason == status.ReasonPostcopyFailed }

// postCopyPeer is the host of the other part of the VM's memory, as the record of its open migration says; "" when
// there is none.
func (vm *VM) postCopyPeer() string {
	record := vm.OpenMigration()

	switch {
	case record == nil:
		return ""
	case record.TargetHost == vm.Host:
		return record.SourceHost
	default:
		return record.TargetHost
	}
}

// LastMigration is how the VM's last migration went, nil if none is known. Of one whose end could not be written down,
// because a part of the guest's memory is gone while libvirt takes the migration to go on, it says that it failed.
func (vm *VM) LastMigration() *domain.Migration {
	last := vm.LastRecord()
	f := vm.StateFacts()

	if f.PostCopy() != status.PostCopyLost {
		return last
	}

	lost := domain.Migration{SourceHost: vm.Host}
	if vm.State == libvirt.Running {
		lost = domain.Migration{TargetHost: vm.Host}
	}

	if last != nil && !last.Completed() {
		lost = *last
	}

	lost.Phase, lost.Mode, lost.Failed = migration.PhaseFailed, string(migration.PostCopy), true
	lost.FailurePlane, lost.FailureReason = migration.PlaneData, f.PostCopyReport()

	return &lost
}

// Migrations are the records of the VM's migrations, oldest first, the last one as LastMigration tells it.
func (vm *VM) Migrations() []domain.Migration {
	all := vm.Metadata.Migrations
	last := vm.LastMigration()

	if last == nil || last == vm.LastRecord() {
		return all
	}

	if vm.OpenMigration() != nil {
		all = all[:len(all)-1]
	}

	return append(slices.Clone(all), *last)
}

// PostCopyRemedy says what is to be done about a VM whose migration failed in post-copy.
func (vm *VM) PostCopyRemedy() string {
	switch f := vm.StateFacts(); f.PostCopy() {
	case status.PostCopyLost:
		return fmt.Sprintf("What is left on host %q can't go on. Set on_irrecoverable = \"destroy\" in migration_options "+
			"and apply: it is ended, and the VM is started again from its disks as its run_strategy says. By hand: virsh "+
			"destroy on host %[1]q.", vm.Host)
	case status.PostCopyUndecided:
		return fmt.Sprintf("Bring these hosts back, then apply: %s. As long as they don't answer, don't destroy what is on "+
			"host %q.", strings.Join(f.SilentHosts, ", "), vm.Host)
	default:
		return "Apply its resource, or that of the migration: it is resumed, or ended if it can't be and " +
			"on_irrecoverable in migration_options says so. What another tool began has to be resumed there " +
			"(virsh migrate --postcopy-resume). Destroy neither part until then."
	}
}

// StartsWithHost says whether its host starts the VM when it boots. The run of a migration takes that from the source
// and gives it to the target: as long as the migration isn't over, what was before still holds.
func (vm *VM) StartsWithHost() bool {
	if vm.Autostart {
		return true
	}

	record := vm.OpenMigration()

	return record != nil && record.Autostart && (vm.Migrating || vm.BrokeInPostCopy())
}

// LostAutostart says that a migration ended without its run, which would have told the VM's host to start it when it
// boots.
func (vm *VM) LostAutostart() bool {
	record := vm.OpenMigration()

	return record != nil && record.Autostart && !vm.Autostart && vm.Persistent && vm.Running() && !vm.Migrating
}

// strandedAmong says that the guest stands still at the source of a migration that is not completed, and that its
// target, which answered, has nothing of it.
func (vm *VM) strandedAmong(answers []Reply) bool {
	record := vm.OpenMigration()
	if record == nil || record.SourceHost != vm.Host || !vm.Persistent ||
		vm.State != libvirt.Paused || vm.Reason != libvirt.ReasonMigration {
		return false
	}

	return slices.ContainsFunc(answers, func(a Reply) bool {
		return a.Host.Name == record.TargetHost && !a.Fenced() && a.Err == nil && a.Domain == nil
	})
}

// RequireIdle refuses a VM that is on its way: it is unknown which of its two copies will be the VM. So it does one
// that is in two parts.
func (vm *VM) RequireIdle() error {
	switch {
	case vm.BrokeInPostCopy():
		return &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: vm.StateFacts().PostCopyReport(), Remedy: vm.PostCopyRemedy(),
		}
	case !vm.Migrating:
		return nil
	}

	return &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: "it is being migrated",
		Remedy: "Wait for the migration to end, or abort it with virsh domjobabort, and apply again.",
	}
}

// LeftMoving says that the VM is on its way, or broke on it, by a migration of ours whose end is not recorded.
func (vm *VM) LeftMoving() bool {
	return vm.OpenMigration() != nil && (vm.Migrating || vm.BrokeInPostCopy())
}

// NotDefined says that a VM has no definition where it runs.
func (vm *VM) NotDefined() error {
	return &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
		Detail: fmt.Sprintf("it runs on host %q without a persistent definition, so none of its definitions elsewhere is "+
			"removed", vm.Host),
		Remedy: vm.DefineRemedy(),
	}
}

// DefineRemedy says how a user defines a VM that runs without a definition.
func (vm *VM) DefineRemedy() string {
	return fmt.Sprintf("Define it on host %q (\"virsh dumpxml --inactive --migratable %s\", then \"virsh define\"), and "+
		"apply again.", vm.Host, vm.UUID)
}

// Underway describes the migration that a VM is in, nil for none, from where it was seen and its running job, and says
// what each host is to it.
func Underway(vm *VM, job *libvirt.Job) (*migration.State, map[string]status.Role) {
	leaving := job != nil && job.Type.Active() && job.Operation == libvirt.OperationMigrationOut
	if !leaving && !vm.Migrating {
		return nil, vm.ActiveHosts
	}

	hosts := vm.ActiveHosts
	if leaving && hosts[vm.Host] == status.RoleActive {
		// Its target is not a host of this fleet.
		hosts = map[string]status.Role{vm.Host: status.RoleSource}
	}

	s := &migration.State{Phase: migration.PhaseRunning, Method: migration.MethodLive, Mode: migration.PreCopy}

	for name, role := range hosts {
		switch role {
		case status.RoleSource:
			s.SourceHost = name
		case status.RoleTarget:
			s.TargetHost = name
		case status.RoleActive:
		}
	}

	switch {
	case vm.Reason == libvirt.ReasonPostcopy || vm.Reason == libvirt.ReasonPostcopyFailed:
		s.Mode = migration.PostCopy
	case vm.State == libvirt.Paused && vm.Reason == libvirt.ReasonMigration:
		s.Mode = migration.Paused
	}

	if leaving {
		s.Start, s.Statistics = Since(job), *job
		if job.Disk.Total > 0 {
			s.Method = migration.MethodBlock
		}
	}

	return s, hosts
}

// Since is when a job began.
func Since(job *libvirt.Job) time.Time { return time.Now().Add(-job.Elapsed).Truncate(time.Second) }
