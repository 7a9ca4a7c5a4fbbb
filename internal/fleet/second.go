package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// concludeFor is concludeInterrupted for an order to move the machine. What was
// planned for a machine is not done to one that another run, which is alive,
// moves elsewhere: the order is refused. One that is for the same host, or is
// the same order, waits.
func (f *Fleet) concludeFor(ctx context.Context, vm *VM, last LastKnown, order MoveOrder) (*VM, error) {
	record := vm.interrupted()
	if record == nil || record.TargetHost == order.Target || order.ID != "" && record.ID == order.ID {
		return f.concludeInterrupted(ctx, vm, last, order.Options)
	}

	who, err := f.liveHolder(ctx, vm.host, vm.UUID)
	if err != nil {
		return vm, err
	}

	if who != "" {
		return vm, &Error{
			VM: vm.Name, Host: vm.Host, Kind: ErrBusy,
			Detail: fmt.Sprintf("it is on its way from host %q to host %q: %s", record.SourceHost, record.TargetHost, who),
			Remedy: "Wait for that migration to end, then plan and apply again.",
		}
	}

	now, err := f.findNow(ctx, vm.UUID, last)
	if err != nil {
		return vm, err
	}

	if now.interrupted() == nil && now.host != vm.host {
		return now, &Error{
			VM: now.Name, Host: now.Host, Kind: ErrBusy,
			Detail: fmt.Sprintf("%s has moved it from host %q meanwhile", record.Owner, vm.Host),
			Remedy: "Plan and apply again.",
		}
	}

	return f.concludeInterrupted(ctx, now, last, order.Options)
}

// liveHolder says who holds the lock called name on the host and is alive: it
// is renewed. "" is nobody.
func (f *Fleet) liveHolder(ctx context.Context, h *host, name string) (string, error) {
	var seen *libvirt.Secret

	for began := time.Now(); seen == nil || time.Since(began) <= lockStale; {
		now, err := h.conn.Secret(ctx, lockPrefix+name)

		switch {
		case isNotFound(err), errors.Is(err, ErrUnsupported):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("reading who holds the lock: %w", err)
		case seen == nil:
			seen = now
		case now.UUID != seen.UUID || !bytes.Equal(now.Value, seen.Value):
			return holder(*now), nil
		}

		if err := pause(ctx, lockPoll); err != nil {
			return "", err
		}
	}

	return "", nil
}
