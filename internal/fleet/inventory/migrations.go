package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// lastRecord returns the record of the migration that began last, nil if none is recorded.
func (vm *VM) lastRecord() *domain.Migration {
	if n := len(vm.Metadata.Migrations); n > 0 {
		return &vm.Metadata.Migrations[n-1]
	}

	return nil
}

// OpenMigration returns the record of a migration whose end is not recorded: the run that started it was killed, or is
// still working on it.
func (vm *VM) OpenMigration() *domain.Migration {
	if last := vm.lastRecord(); last != nil && !last.Completed() {
		return last
	}

	return nil
}

// HasMoved reports whether a migration of the VM is recorded.
func (vm *VM) HasMoved() bool { return vm.lastRecord() != nil }

// BrokeInPostCopy reports whether the VM's migration failed in post-copy: the guest's memory is split between two
// hosts, or one of the two parts is lost.
func (vm *VM) BrokeInPostCopy() bool { return vm.Active && vm.Reason == status.ReasonPostcopyFailed }

// postCopyPeer returns the host of the other part of the VM's memory, from the record of its open migration; "" if
// that is unknown. It also says whether that host is the source. A host may have another name in the configuration than
// in the record: as long as a host doesn't answer, or one has sent the guest away and the record has no UUID, it may be
// the one.
func (vm *VM) postCopyPeer() (name string, source bool) {
	record := vm.OpenMigration()
	if record == nil {
		return "", false
	}

	peer, uuid, isSource := record.TargetHost, record.TargetUUID, false
	if peer == vm.Host {
		peer, uuid, isSource = record.SourceHost, record.SourceUUID, true
	}

	// Hosts that answer, and whose UUIDs are recorded, have the names of this configuration.
	maybe := len(vm.SilentHosts) > 0 || uuid == "" && len(vm.sent) > 0
	if maybe && vm.asked != nil && !slices.Contains(vm.asked, peer) {
		return "", false
	}

	return peer, isSource
}

// noteDefined notes what is left of the VM on other hosts, on which it is off.
func (vm *VM) noteDefined(elsewhere []Reply) {
	for _, a := range elsewhere {
		// A domain without a definition disappears when its process ends.
		if a.Domain.Persistent {
			vm.StaleHosts = append(vm.StaleHosts, a.Host.Name)
		}

		switch {
		case a.Domain.SentAllMemory():
			vm.sent = append(vm.sent, a.Host.Name)
		case a.Domain.ForgotWhyOff():
			vm.forgot = append(vm.forgot, a.Host.Name)
		}
	}
}

// LastMigration returns the result of the VM's last migration, nil if none is known. If a part of the guest's memory is
// lost, libvirt considers the migration to be running, so that its end can't be recorded: LastMigration then returns it
// as failed.
func (vm *VM) LastMigration() *domain.Migration {
	last := vm.lastRecord()
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

// Migrations returns the records of the VM's migrations, oldest first. The last one is LastMigration's.
func (vm *VM) Migrations() []domain.Migration {
	all := vm.Metadata.Migrations
	last := vm.LastMigration()

	if last == nil || last == vm.lastRecord() {
		return all
	}

	if vm.OpenMigration() != nil {
		all = all[:len(all)-1]
	}

	return append(slices.Clone(all), *last)
}

// PostCopyRemedy returns what the user can do about a VM whose migration failed in post-copy, and what after that.
func (vm *VM) PostCopyRemedy() (string, Next) {
	switch f := vm.StateFacts(); f.PostCopy() {
	case status.PostCopyLost:
		return vm.firstAskLog() + vm.lostRemedy(f), Retry
	case status.PostCopySent:
		if vm.State == libvirt.Paused { // as before libvirt 8.5, for good
			return fmt.Sprintf("Don't destroy it. If it is still paused in a few minutes, run \"virsh resume %s\" on host %q.",
				vm.UUID, vm.Host), Retry
		}

		return fmt.Sprintf("Wait until libvirt on host %q says that it is running (migrated). Don't destroy it.",
			vm.Host), Retry
	case status.PostCopyUndecided:
		if len(f.SilentHosts) == 0 {
			return fmt.Sprintf("Find out where the migration that brought it to host %[1]q came from. If it came from %[2]s, "+
				"nothing is lost: wait until libvirt on host %[1]q says that it is running (migrated). Until you know that, "+
				"don't destroy it.", vm.Host, QuoteList(f.PostCopySent)), Retry
		}

		return fmt.Sprintf("Bring these hosts back: %s. As long as they don't answer, don't destroy what is on host %q.",
			strings.Join(f.SilentHosts, ", "), vm.Host), Retry
	default:
		return "A change of the VM resumes the migration, and so does the migration itself if it is done again. If it " +
			"can't be resumed, it is ended if on_irrecoverable in migration_options says so. What another tool began has to " +
			"be resumed there (virsh migrate --postcopy-resume). Destroy neither part until then.", 0
	}
}

// lostRemedy returns what the user can do about a VM of which a part of the memory is lost.
func (vm *VM) lostRemedy(f status.Facts) string {
	switch {
	case f.PostCopyPeer == "":
		return vm.destroyRemedy("another tool began its migration", "")
	case !vm.hasPeer(f.PostCopyPeer):
		return vm.destroyRemedy(fmt.Sprintf("host %q is fenced or not in hosts", f.PostCopyPeer),
			fmt.Sprintf("Make sure that host %q is off. ", f.PostCopyPeer))
	}

	remedy := fmt.Sprintf("What is left on host %q can't continue. Set on_irrecoverable = \"destroy\" in "+
		"migration_options: then it is ended, and the VM is started again from its disks as its run_strategy says. ", vm.Host)
	if !vm.Persistent {
		return remedy + "It has no definition on disk: before you end it by hand, define it " + vm.defineHow() + "."
	}

	return remedy + fmt.Sprintf("Or end it by hand: run \"virsh destroy %s\" on host %q. Do that to delete the VM: a "+
		"deletion doesn't end it.", vm.UUID, vm.Host)
}

// hasPeer reports whether the host is in the configuration, and isn't fenced.
func (vm *VM) hasPeer(host string) bool {
	return vm.Peers == nil || slices.Contains(slices.Collect(maps.Values(vm.Peers)), host)
}

// firstAskLog returns what comes before the guest on the target is given up, if libvirt at the source doesn't know any
// more how its process ended: it may have sent all of the memory before. Of a transient VM, libvirt knows nothing once
// its process has ended.
func (vm *VM) firstAskLog() string {
	peer, isSource := vm.postCopyPeer()

	forgot, why := vm.forgot, "as libvirt there was restarted since"
	if peer != "" {
		forgot = slices.DeleteFunc(slices.Clone(forgot), func(host string) bool { return host != peer })
	}

	if peer != "" && !vm.Persistent && vm.hasPeer(peer) && !slices.Contains(vm.StaleHosts, peer) {
		forgot, why = []string{peer}, "as libvirt there knows nothing of a VM without a definition that has ended"
	}

	if len(forgot) == 0 || vm.State != libvirt.Running && !isSource {
		return ""
	}

	from := "First read"
	if peer == "" {
		from = fmt.Sprintf("If its migration came from %s, first read", QuoteList(forgot))
	}

	return from + fmt.Sprintf(" the end of %s on host %s, %s. If it says \"reason=migrated\", nothing is lost: destroy "+
		"nothing, and wait until libvirt on host %q says that it is running (migrated). Otherwise: ",
		QEMULogPath(vm.Name), QuoteList(forgot), why, vm.Host)
}

// destroyRemedy returns what the user can do about a VM whose memory is lost and that the provider doesn't end: it ends
// only what it began itself, and if both hosts answer. before is a sentence about what comes first.
func (vm *VM) destroyRemedy(why, before string) string {
	if !vm.Persistent {
		before += "The VM has no definition on disk, so first define it " + vm.defineHow() + ". "
	}

	return fmt.Sprintf("What is left on host %q can't continue, and %s, so virtfleet doesn't end it. %sRun "+
		"\"virsh destroy %s\" on host %[1]q.", vm.Host, why, before, vm.UUID)
}

// StartsWithHost reports whether the VM's host starts the VM when it boots. A migration removes this setting from the
// source and sets it on the target: until the migration is over, the setting from before it holds.
func (vm *VM) StartsWithHost() bool {
	if vm.Autostart {
		return true
	}

	record := vm.OpenMigration()

	return record != nil && record.Autostart && (vm.Migrating || vm.BrokeInPostCopy())
}

// LostAutostart reports whether a migration ended without the run that started it, which would have set autostart on
// the VM's host.
func (vm *VM) LostAutostart() bool {
	record := vm.OpenMigration()

	return record != nil && record.Autostart && !vm.Autostart && vm.Persistent && vm.Running() && !vm.Migrating
}

// strandedAmong reports whether the guest is paused at the source of a migration that is not completed, and the target,
// which answered, doesn't have the VM.
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

// RequireIdle returns an error if the VM is being migrated, because it is unknown which of the two copies will be the
// VM, or if its migration failed in post-copy.
func (vm *VM) RequireIdle() error {
	switch {
	case vm.BrokeInPostCopy():
		remedy, next := vm.PostCopyRemedy()

		return &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: vm.StateFacts().PostCopyReport(), Remedy: remedy, Next: next,
		}
	case vm.RestoredPaused:
		return &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
			Detail: "its guest is paused, and no job runs that would continue it: its memory was restored and left paused, or " +
				"a user's migration was lost at the handover",
			Remedy: fmt.Sprintf("If it was migrated, find out whether it runs on the target. If it doesn't, or wasn't "+
				"migrated, run \"virsh resume %s\" on host %q.", vm.UUID, vm.Host),
			Next: Retry,
		}
	case !vm.Migrating:
		return nil
	case vm.LeftSource != "" && vm.OpenMigration() == nil: // A run ends its own.
		return &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
			Detail: fmt.Sprintf("it runs on host %q with all of its memory, and the user or tool that migrated it in "+
				"post-copy hasn't ended the migration at its source, host %q", vm.Host, vm.LeftSource),
			Remedy: fmt.Sprintf("If that tool has ended, run \"virsh destroy %s\" on host %q, only there: the guest "+
				"needs nothing of that process.", vm.UUID, vm.LeftSource),
			Next: Retry,
		}
	}

	return &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy, Detail: "it is being migrated",
		Remedy: "Wait for the migration to end, or abort it with virsh domjobabort.", Next: Retry,
	}
}

// leftSource returns the host on which a post-copy migration has left the source's process, although the target has all
// of the memory; "" for none. libvirt reports the guest on the target as migrated only then.
func leftSource(active []Reply) string {
	if len(active) != 2 {
		return ""
	}

	for i, a := range active {
		source, target := a.Domain, active[1-i].Domain
		sent := source.Reason == libvirt.ReasonPostcopy || source.Reason == libvirt.ReasonPostcopyFailed

		if source.State == libvirt.Paused && sent && target.State == libvirt.Running &&
			target.Reason == libvirt.ReasonMigrated {
			return a.Host.Name
		}
	}

	return ""
}

// LeftMoving reports whether a migration by this provider, whose end is not recorded, is running or failed in
// post-copy.
func (vm *VM) LeftMoving() bool {
	return vm.OpenMigration() != nil && (vm.Migrating || vm.BrokeInPostCopy())
}

// NotDefined returns the error that a VM has no definition where it runs.
func (vm *VM) NotDefined() error {
	return &Error{
		VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
		Detail: fmt.Sprintf("it runs on host %q without a persistent definition, so none of its definitions elsewhere is "+
			"removed", vm.Host),
		Remedy: vm.DefineRemedy(), Next: Retry,
	}
}

// DefineRemedy returns how a user defines a VM that runs without a definition.
func (vm *VM) DefineRemedy() string {
	return "Define it " + vm.defineHow() + "."
}

// defineHow says where a user defines a VM that runs without a definition, and with which commands.
func (vm *VM) defineHow() string {
	return fmt.Sprintf("on host %q (\"virsh dumpxml --inactive --migratable %s >vm.xml\", then \"virsh define vm.xml\")",
		vm.Host, vm.UUID)
}

// Underway describes the VM's running migration, nil if there is none, from where the VM was seen and from its running
// job. It also returns the role of each host.
func Underway(vm *VM, job *libvirt.Job) (*migration.State, map[string]status.Role) {
	leaving := job != nil && job.Type.Active() && job.Operation == libvirt.OperationMigrationOut
	if !leaving && !vm.Migrating {
		return nil, vm.ActiveHosts
	}

	hosts := vm.ActiveHosts
	if leaving && hosts[vm.Host] == status.RoleActive {
		// The target is not a host of this fleet.
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

// Since returns when a job began.
func Since(job *libvirt.Job) time.Time { return time.Now().Add(-job.Elapsed).Truncate(time.Second) }
