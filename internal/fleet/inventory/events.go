package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Event is something that happened on a host, with the time of this computer's clock.
type Event struct {
	At   time.Time
	Host string
	libvirt.Event
}

const (
	followFirst = 500 * time.Millisecond
	followMost  = 10 * time.Second
)

// Follow passes the events of a host's VMs to deliver, in order, until ctx ends or the fleet is closed; then it returns
// nil. deliver must not block. If the host doesn't answer or the connection is lost, Follow retries at least every 10
// seconds. Events of the kind libvirt.EventLost report that the host doesn't answer (with the reason), that events
// arrive (again), and that events were missed because deliver took too long.
func (inv *Inventory) Follow(ctx context.Context, name string, deliver func(Event)) error {
	h, err := inv.AskedHost(name)
	if err != nil {
		return err
	}

	tell := func(e libvirt.Event) { deliver(Event{At: time.Now(), Host: name, Event: e}) }

	events, err := h.subscribe(ctx, func(err error) {
		tell(libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostConnection, Reason: err.Error()})
	})
	if ctx.Err() != nil || errors.Is(err, libvirt.ErrClosed) {
		return nil //nolint:nilerr // It was asked to end.
	}

	if err != nil {
		return err
	}

	tell(libvirt.Event{Kind: libvirt.EventLost, Detail: libvirt.LostUntilNow})

	for e := range events {
		tell(e)
	}

	return nil
}

// subscribe retries until the host sends events. It calls failed with the first error.
func (h *Host) subscribe(ctx context.Context, failed func(error)) (<-chan libvirt.Event, error) {
	delay := backoff.NewExponentialBackOff()
	delay.InitialInterval, delay.MaxInterval = followFirst, followMost
	told := false

	return backoff.Retry(ctx, func() (<-chan libvirt.Event, error) {
		events, err := h.Conn.Subscribe(ctx, "")
		if errors.Is(err, libvirt.ErrUnsupported) || errors.Is(err, libvirt.ErrClosed) {
			return nil, backoff.Permanent(err)
		}

		if err != nil && !told && ctx.Err() == nil {
			told = true

			failed(err)
		}

		return events, err
	}, backoff.WithBackOff(delay), backoff.WithMaxElapsedTime(0))
}
