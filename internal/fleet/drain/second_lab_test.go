package drain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// While one maintenance drains a host, another one of that host is told soon who drains it: it could only wait for a
// drain that may take hours, and be refused then.
func TestLab_secondDrainIsRefusedSoon(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	host := l.StartHost(t)
	first, second := ownFleet(t, "alice", host), ownFleet(t, "bob", host)

	held, unlock, err := first.Lock(t.Context(), first.Host(host.Name), "maintenance", "draining")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	if err := first.Cordon(held, host.Name, "of alice", "new disks"); err != nil {
		t.Fatal(err)
	}

	if err := first.ChangeRecord(held, first.Host(host.Name), func(r *hostrecord.Record) error {
		r.Evacuation = &hostrecord.Evacuation{Since: time.Now()}

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	_, err = second.Drain(ctx, drain.Drain{Host: host.Name, ID: "of bob", Why: "more memory"})
	if !errors.Is(err, records.ErrLocked) || ctx.Err() != nil || !strings.Contains(err.Error(), "alice is draining it") {
		t.Errorf("%v; want to be told soon that alice drains it", err)
	}
}
