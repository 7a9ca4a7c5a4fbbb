package observe

import (
	"log/slog"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// observer observes these hosts until the test is over.
func observer(t *testing.T, hosts map[string]inventory.HostConfig) *Observer {
	t.Helper()

	log := slog.New(slog.DiscardHandler)

	inv, err := inventory.New(hosts, log)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := inv.Close(); err != nil {
			t.Error(err)
		}
	})

	store := records.NewStore(inv, records.Config{Log: log})
	scheduler := placement.NewScheduler(inv, store, placement.Config{Log: slog.New(slog.DiscardHandler)})

	return NewObserver(inv, store, move.NewMover(inv, store, scheduler, move.Config{Log: log}).Checks, Config{Log: log})
}
