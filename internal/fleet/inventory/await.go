package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// waitPoll is how often a VM that is waited for is looked at when no event says to. Leases and addresses raise none,
// and not every host sends events.
const waitPoll = time.Second

// Await reads the domain whenever something happens to it, and now and then, until reached says yes. A domain that is
// gone is nil.
func Await(ctx context.Context, vm *VM, reached func(*libvirt.Domain) bool) (bool, error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()

	events, err := vm.On.Conn.Subscribe(watching, vm.UUID)
	if err != nil {
		events = nil // then polling has to do
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

// NextLook waits until something happens to a VM, for waitPoll at most. It returns the events that are still to come:
// nil is none.
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
