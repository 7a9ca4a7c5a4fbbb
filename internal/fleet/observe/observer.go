package observe

import (
	"log/slog"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config is what holds for VMs that say nothing else.
type Config struct {
	// DefaultType is the domain type of VMs that declare none, see inventory.Reply.TypeFor.
	DefaultType string
	// Migration are the options of migrations for which nothing else is said.
	Migration migration.Options
	Log       *slog.Logger
}

// Observer says how VMs and hosts are. All methods may be called from several goroutines.
type Observer struct {
	hosts       *inventory.Inventory
	records     *records.Store
	mover       *move.Mover
	defaultType string
	migration   migration.Options
	log         *slog.Logger
}

// NewObserver prepares the observer of these hosts. It does no I/O.
func NewObserver(hosts *inventory.Inventory, store *records.Store, mover *move.Mover, cfg Config) *Observer {
	return &Observer{
		hosts: hosts, records: store, mover: mover, defaultType: cfg.DefaultType, migration: cfg.Migration, log: cfg.Log,
	}
}
