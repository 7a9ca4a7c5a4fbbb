package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// failure returns the error of a migration that did not move the VM.
func (m *move) failure(ctx context.Context, err error) error {
	return notMoved(ctx, m.vm, m.from, m.to, err)
}

// notMoved returns the error of a migration between two hosts that did not move the VM.
func notMoved(ctx context.Context, vm *inventory.VM, from, to *inventory.Host, err error) error {
	e := &inventory.Error{VM: vm.Name, Host: from.Name, Kind: ErrNotMoved, Err: err, Detail: "it was not moved"}

	switch {
	case errors.Is(err, lease.ErrLost), errors.Is(err, lease.ErrUnconfirmed):
		e.Detail = "this run has stopped moving it" // The other run reports what happened to the VM, and what to do.
	case errors.Is(err, migration.ErrLate) && firstPass(err) != "":
		e.Remedy = firstPass(err)
	case errors.Is(err, migration.ErrStuck), errors.Is(err, migration.ErrLate):
		e.Remedy = "Its guest writes to its memory faster than that can be copied. Set allow_auto_converge or " +
			"allow_post_copy in migration_options, give it more bandwidth, or raise the timeouts there."
	case errors.Is(err, migration.ErrStalled):
		e.Remedy = "Its guest writes to its memory faster than that can be copied. Set allow_auto_converge or " +
			"allow_post_copy in migration_options, give it more bandwidth, or raise max_downtime there."
	case errors.Is(err, ErrDestroyed):
		e.Detail = fmt.Sprintf("it was lost, and is off on host %q until it is started as its run_strategy says", to.Name)
		e.Next = inventory.Retry
		inventory.AttachQEMULog(ctx, e, vm.Name, from, to)
	case errors.Is(err, migration.ErrAllSent):
		e.Detail = fmt.Sprintf("its guest was handed over to host %q as a whole, and libvirt there hasn't noticed. The next "+
			"run waits for that", to.Name)
		e.Remedy = "Destroy nothing."
		e.Next = inventory.Continue
	case errors.Is(err, migration.ErrMemoryLost):
		e.Detail = "its guest was handed over in part, and can't continue: a part of its memory is lost"
		e.Remedy = fmt.Sprintf("Its disks are as after a power failure. Set on_irrecoverable = \"destroy\" in "+
			"migration_options: then what is left on host %q or %q is ended, and the VM is started from its disks as its "+
			"run_strategy says.", from.Name, to.Name)
		e.Next = inventory.Retry
		inventory.AttachQEMULog(ctx, e, vm.Name, from, to)
	case errors.Is(err, migration.ErrIrrecoverable):
		e.Detail = "its guest was handed over in part: each host has a part of its memory"
		e.Remedy = fmt.Sprintf("Destroy neither copy as long as both are there: together they are the VM. "+
			"Without the part on host %q or that on host %q it is lost: on_irrecoverable = \"destroy\" in migration_options "+
			"ends what is left, so that it can be started again. To resume it, find out what broke the connection.",
			from.Name, to.Name)
		e.Next = inventory.Continue
		inventory.AttachQEMULog(ctx, e, vm.Name, from, to)
	case errors.Is(err, migration.ErrPostCopyBroken), errors.Is(err, migration.ErrPostCopyOpen):
		e.Detail = "its guest was handed over in part: each host has a part of its memory. The next run waits for the rest " +
			"of the memory as long as it comes, or resumes the migration"
		e.Remedy = "Destroy neither copy. recovery_timeout in migration_options says for how long resuming is tried."
		e.Next = inventory.Continue
	case errors.Is(err, migration.ErrPeerToPeerFailed):
		e.Remedy = fmt.Sprintf("See whether libvirt on host %q gets to that on host %q: \"virsh -c <hosts.%[2]s.peer_uri> "+
			"list\" there, as root, tries it. peer_to_peer = false in migration_options needs no such way. If it does, see the "+
			"logs of libvirt and QEMU on both hosts (%[3]s).", from.Name, to.Name, inventory.QEMULogPath(vm.Name))
	case errors.Is(err, migration.ErrNoTLS):
		e.Remedy = fmt.Sprintf("Both hosts need the CA's certificate (ca-cert.pem) and their own certificates and keys "+
			"(server-cert.pem, server-key.pem, client-cert.pem, client-key.pem), readable for QEMU's user. They belong in the "+
			"directory that migrate_tls_x509_cert_dir or default_tls_x509_cert_dir in /etc/libvirt/qemu.conf names (default: "+
			"/etc/pki/qemu). The certificate of host %q must be valid for the name or address at which the other host "+
			"reaches it. Or choose transport ssh_relay, which needs no certificates.", to.Name)
	case errors.Is(err, migration.ErrBlocked): // The blockers say what to do.
	case errors.Is(err, libvirt.ErrUnsafe):
		e.Remedy = migration.UnsafeRemedy + "."
	case errors.Is(err, context.DeadlineExceeded):
		e.Remedy, e.Next = "If it needs longer, raise timeouts.", inventory.Continue
	case errors.Is(err, context.Canceled):
		e.Next = inventory.Continue
	case inventory.LimitRemedy(err) != "":
		e.Remedy = inventory.LimitRemedy(err)
	default:
		e.Remedy = fmt.Sprintf("See the logs of libvirt and QEMU on hosts %q and %q (%s).", from.Name, to.Name,
			inventory.QEMULogPath(vm.Name))

		if vm.Active {
			inventory.AttachQEMULog(ctx, e, vm.Name, from, to)
		}
	}

	return e
}

// firstPass returns what to do about a migration that took too long before all of the memory was copied once, "" for
// any other: how fast the guest writes doesn't matter then.
func firstPass(err error) string {
	failed, ok := errors.AsType[*migration.FailedError](err)
	if !ok {
		return ""
	}

	job := failed.State.Statistics
	if job.Iteration != 1 || job.Memory.Remaining == 0 || job.MemoryRate == 0 {
		return ""
	}

	return fmt.Sprintf("Its memory was not even copied once: after %v, %s of %s remained, at %s/s. The timeout is too "+
		"short for this rate, however little the guest writes. Raise bandwidth or completion_timeout_per_gib in "+
		"migration_options, or set allow_post_copy there.", job.Elapsed.Round(time.Second),
		domain.FormatProgress(job.Memory.Remaining), domain.FormatProgress(job.Memory.Total),
		domain.FormatProgress(job.MemoryRate))
}
