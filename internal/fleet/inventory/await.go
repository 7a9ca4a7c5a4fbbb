package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// waitPoll is how often Await reads a VM when no event arrives. Leases and addresses cause no events, and some hosts
// don't send any.
const waitPoll = time.Second

// Await reads the domain after each event and at least every waitPoll, until reached returns true. reached gets nil if
// the domain is gone.
func Await(ctx context.Context, vm *VM, reached func(*libvirt.Domain) bool) (bool, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()

	events, err := vm.On.Conn.Subscribe(watching, vm.UUID)
	if err != nil {
		events = nil // then only polling is left
	}

	for {
		d, err := vm.On.Conn.Domain(ctx, vm.UUID)
		if IsNotFound(err) {
			d, err = nil, nil
		}

		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}

		if err == nil && reached(d) {
			return true, nil
		}

		if err != nil && !errors.Is(err, ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
			return false, err
		}

		events = NextLook(ctx, events)
	}
}

// NextLook waits for an event of a VM, for at most waitPoll. It returns the channel of later events, or nil if there
// are no more.
func NextLook(ctx context.Context, events <-chan libvirt.Event) <-chan libvirt.Event {
	timer := time.NewTimer(waitPoll)
	defer timer.Stop()

	select {
	case _, open := <-events:
		if !open {
			return nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}

	return events
}
