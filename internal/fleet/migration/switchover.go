package migration

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// FinishSwitchover completes what a finished migration left undone, and says whether there was anything. libvirt pauses
// a guest at the source when all of its memory is copied. If the client that manages the migration is lost in that
// moment, libvirt never tells the source the result, and the guest stays paused there. Either the target dropped what
// it received, or still waits for the order to start the guest: then the guest continues at the source. Or the guest
// runs on the target: then the source has a process without a guest, which FinishSwitchover ends as libvirt would have
// done. Its definition stays, as a stale definition.
//
// FinishSwitchover also ends the source's process where libvirt takes post-copy as failed although the guest has all of
// its memory: the client was lost while QEMU completed the migration.
//
// FinishSwitchover does nothing if the source's domain is transient, if the target doesn't answer, or if it isn't
// certain that a copy on the target is this guest with its memory. For a paused guest it also does nothing while the
// source has a job. A copy that ever ran on the target has left its definition there, unless it is transient. No other
// run may work on the migration: a domain that waits on the target is ended before the guest continues at the source.
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

// neverRan says whether this domain never ran: it has received memory, or waits for some, and has no definition yet.
func (s hostView) neverRan() bool {
	return s.domain.State == libvirt.Paused && !s.domain.Persistent &&
		(s.domain.Reason == libvirt.ReasonMigration || s.domain.Reason == libvirt.ReasonStartingUp)
}

// hasAllMemory says whether the guest runs here because all of its memory arrived.
func (s hostView) hasAllMemory() bool {
	return s.active() && s.domain.State == libvirt.Running && s.domain.Reason == libvirt.ReasonMigrated
}
