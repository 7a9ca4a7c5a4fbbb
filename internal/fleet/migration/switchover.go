package migration

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// FinishSwitchover ends what a migration that is over left half done, and says whether there was anything. libvirt
// stops a guest at the source when all of its memory is copied; if whoever runs the migration is lost in that moment,
// the source is never told how it ended, and keeps the guest standing still for ever. Either the target dropped what it
// got, or still waits for the word to start it, and the guest goes on at the source; or it runs on the target, and what
// the source keeps is a process without a guest, which is ended as libvirt would have done: its definition stays, as a
// leftover.
//
// So is the source's process where libvirt takes post-copy for failed although the guest has all of its memory: its
// client was lost while QEMU completed the migration.
//
// It does nothing while the source has a job, unless the target answers, and for a copy there of which it isn't certain
// that this guest came with its memory: a copy that ever ran there has left its definition, unless it is transient.
// No other run may work on the migration: what waits on the target is ended before the guest goes on at the source.
func FinishSwitchover(ctx context.Context, source, target *libvirt.Host, uuid string) (bool, error) {
	here := readDomain(ctx, source, uuid)
	if !here.stoppedForHandover() && !here.failedPostCopy() || !here.domain.Persistent {
		return false, here.err
	}
	there := readDomain(ctx, target, uuid)
	if here.failedPostCopy() {
		if !there.hasAllMemory() {
			return false, there.err
		}
		return true, source.DestroyDomain(ctx, uuid, true)
	}
	if there.err != nil || there.domain != nil && !there.hasAllMemory() && !there.neverRan() {
		return false, there.err
	}
	if job, err := source.Job(ctx, uuid); err != nil || job != nil && job.Type.Active() {
		return false, err
	}
	switch {
	case there.domain == nil:
	case there.hasAllMemory():
		return true, source.DestroyDomain(ctx, uuid, true)
	default:
		if err := target.DestroyDomain(ctx, uuid, true); err != nil && !errors.Is(err, libvirt.ErrNotFound) {
			return true, err
		}
	}
	return true, source.ResumeDomain(ctx, uuid)
}

// neverRan says that what is here never ran: it has got memory, or waits for some, and no definition yet.
func (s hostView) neverRan() bool {
	return s.domain.State == libvirt.Paused && !s.domain.Persistent &&
		(s.domain.Reason == libvirt.ReasonMigration || s.domain.Reason == libvirt.ReasonStartingUp)
}

// hasAllMemory says that the guest runs here since all of its memory came.
func (s hostView) hasAllMemory() bool {
	return s.active() && s.domain.State == libvirt.Running && s.domain.Reason == libvirt.ReasonMigrated
}
