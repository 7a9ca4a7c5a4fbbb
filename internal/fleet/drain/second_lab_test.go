package drain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// While one maintenance drains a host, or is about to, another one of that host is told soon who drains it: it could
// only wait for a drain that may take hours, and be refused then.
func TestLab_secondDrainIsRefusedSoon(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	host := l.StartHost(t)
	first, early, late := ownFleet(t, "alice", host), ownFleet(t, "bob", host), ownFleet(t, "carol", host)

	held, unlock, err := first.Lock(t.Context(), first.Host(host.Name), "maintenance", "draining")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	begun, over := make(chan struct{}), make(chan error, 1)
	listen(early, &onLog{Message: "waiting for another run's lease", Do: func() { close(begun) }})

	go func() {
		_, err := early.Drain(ctx, drain.Drain{Host: host.Name, ID: "of bob", Why: "more memory"})
		over <- err
	}()

	select {
	case <-begun:
	case err := <-over:
		t.Fatalf("it didn't wait: %v", err)
	case <-time.After(fleettest.Patience):
		fleettest.Hung(t, "the other run to wait")
	}

	if err := first.Cordon(held, host.Name, "of alice", "new disks"); err != nil {
		t.Fatal(err)
	}

	if err := first.ChangeRecord(held, first.Host(host.Name), func(r *hostrecord.Record) error {
		r.Evacuation = &hostrecord.Evacuation{Since: time.Now()}

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	// The cordon says whose the host is: nothing is waited for, but that the other run is seen to live.
	soon, tooLate := context.WithTimeout(ctx, lease.TakeoverTime)
	defer tooLate()

	_, err = late.Drain(soon, drain.Drain{Host: host.Name, ID: "of carol", Why: "a new kernel"})
	if soon.Err() != nil {
		t.Error("it has waited for the end of a drain that may take hours")
	}

	for _, err := range []error{fleettest.Await(t, over), err} {
		if !errors.Is(err, records.ErrLocked) || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want to be told soon that the host is locked", err)
		}

		for _, want := range []string{"alice is draining it", "of alice", "new disks"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q in it", err, want)
			}
		}
	}
}
