package fleet

import (
	"log/slog"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config configures a fleet.
type Config struct {
	// Hosts are the hosts by the name that users give them.
	Hosts map[string]inventory.HostConfig
	// DefaultDomainType is the domain type of VMs that declare none: "kvm", "qemu", or "" for kvm where a host supports
	// it, otherwise qemu.
	DefaultDomainType string
	// DefaultEvictionStrategy applies to VMs that have no strategy and no policy. "" means that they are moved live if
	// possible, and otherwise stay.
	DefaultEvictionStrategy string
	// Migration are the options of migrations that apply where nothing else sets them.
	Migration migration.Options
	// Owner says who writes marks and locks, for others to read: "alice@workstation (pid 4711)".
	Owner string
	// MigrationLimits says how many VMs may move at a time.
	MigrationLimits admission.Limits
	// Logger receives progress. Nil discards it.
	Logger *slog.Logger
}

// Fleet is a set of hosts with all operations on their VMs. All methods may be called from several goroutines.
type Fleet struct {
	*inventory.Inventory
	*records.Store
	*placement.Scheduler
	*move.Mover
	*observe.Observer
	*lifecycle.Manager
	*drain.Drainer

	log       *slog.Logger
	closeOnce sync.Once
}

// New prepares a fleet. It checks the URIs and does no I/O.
func New(cfg Config) (*Fleet, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}

	inv, err := inventory.New(cfg.Hosts, log)
	if err != nil {
		return nil, err
	}

	store := records.NewStore(inv, records.Config{
		Owner: cfg.Owner, Log: log, DefaultEvictionStrategy: cfg.DefaultEvictionStrategy, Migration: cfg.Migration,
	})
	scheduler := placement.NewScheduler(inv, store, placement.Config{
		Owner: cfg.Owner, DefaultType: cfg.DefaultDomainType, Log: log,
	})
	mover := move.NewMover(inv, store, scheduler, move.Config{
		Owner: cfg.Owner, Limits: cfg.MigrationLimits, Log: log,
	})

	observer := observe.NewObserver(inv, store, mover.Checks, observe.Config{
		DefaultType: cfg.DefaultDomainType, Migration: cfg.Migration, Log: log,
	})
	manager := lifecycle.NewManager(inv, store, scheduler, mover, observer, lifecycle.Config{
		Owner: cfg.Owner, DefaultType: cfg.DefaultDomainType, Log: log,
	})
	drainer := drain.NewDrainer(inv, store, scheduler, mover, manager, drain.Config{
		Owner: cfg.Owner, DefaultEvictionStrategy: cfg.DefaultEvictionStrategy, Migration: cfg.Migration, Log: log,
	})

	return &Fleet{
		Inventory: inv, Store: store, Scheduler: scheduler, Mover: mover, Observer: observer, Manager: manager,
		Drainer: drainer, log: log,
	}, nil
}

// Close releases locks and reservations, and closes every connection.
func (f *Fleet) Close() error {
	var err error

	f.closeOnce.Do(func() {
		f.ReleasePendingCreates()
		f.EndRenewals()
		f.AwaitShutdowns()
		f.AwaitReleases()
		f.AwaitRenewals()

		err = f.Inventory.Close()
	})

	return err
}

// Logger returns the fleet's logger.
func (f *Fleet) Logger() *slog.Logger { return f.log }
