package observe

import (
	"log/slog"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config has what applies to VMs that set nothing else.
type Config struct {
	// DefaultType is the domain type of VMs that declare none, see inventory.Reply.TypeFor.
	DefaultType string
	// Migration are the options of migrations that apply where nothing else sets them.
	Migration migration.Options
	Log       *slog.Logger
}

// Observer reports the state of VMs and hosts. All methods may be called from several goroutines.
type Observer struct {
	hosts       *inventory.Inventory
	records     *records.Store
	moveChecks  *move.Checks
	defaultType string
	migration   migration.Options
	log         *slog.Logger
}

// NewObserver prepares the observer of these hosts. It does no I/O.
func NewObserver(hosts *inventory.Inventory, store *records.Store, checks *move.Checks, cfg Config) *Observer {
	return &Observer{
		hosts: hosts, records: store, moveChecks: checks, defaultType: cfg.DefaultType, migration: cfg.Migration,
		log: cfg.Log,
	}
}
