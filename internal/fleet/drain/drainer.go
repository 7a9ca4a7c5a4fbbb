package drain

import (
	"log/slog"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config says who drains hosts, and sets what applies to VMs without a policy.
type Config struct {
	// Owner says who drains a host, for others to read.
	Owner string
	// DefaultEvictionStrategy applies to VMs that have no strategy and no policy.
	DefaultEvictionStrategy string
	// Migration has the options that apply where neither a migration nor a policy sets them.
	Migration migration.Options
	Log       *slog.Logger
}

// Drainer drains hosts, and restores what a drain did. All methods may be called from several goroutines.
type Drainer struct {
	hosts           *inventory.Inventory
	records         *records.Store
	placement       *placement.Scheduler
	mover           *move.Mover
	lifecycle       *lifecycle.Manager
	owner           string
	defaultEviction string
	migration       migration.Options
	log             *slog.Logger
	underWay        underWay
}

// NewDrainer prepares the drainer of these hosts. It does no I/O.
func NewDrainer(
	hosts *inventory.Inventory, store *records.Store, scheduler *placement.Scheduler, mover *move.Mover,
	manager *lifecycle.Manager, cfg Config,
) *Drainer {
	return &Drainer{
		hosts: hosts, records: store, placement: scheduler, mover: mover, lifecycle: manager,
		owner: cfg.Owner, defaultEviction: cfg.DefaultEvictionStrategy, migration: cfg.Migration, log: cfg.Log,
	}
}
