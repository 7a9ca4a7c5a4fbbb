package lifecycle

import (
	"log/slog"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config is the configuration of a Manager.
type Config struct {
	// Owner is shown to users as the one who creates a VM.
	Owner string
	// DefaultType is the domain type of VMs that declare none, see inventory.Reply.TypeFor.
	DefaultType string
	Log         *slog.Logger
}

// Manager creates, changes, starts, stops and deletes VMs. All methods may be called from several goroutines.
type Manager struct {
	hosts       *inventory.Inventory
	records     *records.Store
	placement   *placement.Scheduler
	mover       *move.Mover
	observer    *observe.Observer
	owner       string
	defaultType string
	log         *slog.Logger
	// mutexes are held, by name, while a VM is created.
	mutexes        admission.Mutexes
	pendingCreates pendingCreates
	background     sync.WaitGroup
}

// NewManager prepares the manager of the VMs on these hosts. It does no I/O.
func NewManager(
	hosts *inventory.Inventory, store *records.Store, scheduler *placement.Scheduler, mover *move.Mover,
	observer *observe.Observer, cfg Config,
) *Manager {
	return &Manager{
		hosts: hosts, records: store, placement: scheduler, mover: mover, observer: observer,
		owner: cfg.Owner, defaultType: cfg.DefaultType, log: cfg.Log,
	}
}

// ReleasePendingCreates releases the locks of VMs whose creation is not finished.
func (m *Manager) ReleasePendingCreates() { m.pendingCreates.releaseAll() }

// AwaitShutdowns waits for the guest agents that were asked to shut a guest down and have not answered yet.
func (m *Manager) AwaitShutdowns() { m.background.Wait() }
