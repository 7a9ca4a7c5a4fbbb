package move

import (
	"context"
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// finishStart resumes a VM that another run started from saved memory, and left paused because it was interrupted. It
// returns the VM as it is then.
func (mv *Mover) finishStart(ctx context.Context, vm *inventory.VM) (*inventory.VM, error) {
	mv.log.InfoContext(ctx, "resuming VM whose start was interrupted", "name", vm.Name, "host", vm.Host,
		"owner", vm.Metadata.Starting.Owner)

	last := inventory.LastKnown{Host: vm.Host, HostUUID: vm.HostUUID}
	refused := vm.On.Conn.ResumeDomain(ctx, vm.UUID)

	now, err := mv.hosts.FindNow(ctx, vm.UUID, last)
	if err != nil {
		return nil, errors.Join(refused, err)
	}

	// One that is still paused isn't StartInterrupted if its job can't be read, or if a host has fallen silent since: the
	// mark stays, so that a later run resumes it.
	if now.StartInterrupted || refused != nil && now.State == libvirt.Paused {
		return now, refused
	}

	metadata := now.Metadata
	metadata.Starting = nil

	if _, err := records.WriteMetadata(ctx, now, metadata); err != nil {
		mv.log.WarnContext(ctx, "the mark of a start that is complete was not removed", "name", now.Name, "host", now.Host,
			"error", err.Error())
	}

	mv.SetClockOfSaved(ctx, now)

	return mv.hosts.FindNow(ctx, now.UUID, last)
}
