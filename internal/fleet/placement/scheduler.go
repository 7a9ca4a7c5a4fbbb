package placement

import (
	"log/slog"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config is the configuration of a Scheduler.
type Config struct {
	// Owner is shown to users as the one who cordoned a host.
	Owner string
	// DefaultType is the domain type of VMs that declare none, see inventory.Reply.TypeFor.
	DefaultType string
	Log         *slog.Logger
}

// Scheduler decides where VMs fit, and reserves capacity for those that are on their way. All methods may be called
// from several goroutines.
type Scheduler struct {
	*Capacity
	*Cordons
	*Claims

	hosts       *inventory.Inventory
	records     *records.Store
	defaultType string
	// whole are the images' copies that were found to be whole.
	whole wholeCopies
}

// Capacity is what the hosts have left for VMs, minus what is reserved for those that are on their way: memory, disk
// space and devices. It also knows which VMs exclude each other.
type Capacity struct {
	hosts        *inventory.Inventory
	records      *records.Store
	reservations reservations
}

// Cordons prevent VMs from being placed on, started on or moved to a host that is being drained.
type Cordons struct {
	hosts    *inventory.Inventory
	records  *records.Store
	capacity *Capacity
	owner    string
	arrivals map[*inventory.Host]*semaphore.Weighted // see beginArrival
}

// Claims are the names and disks that only one running VM may have.
type Claims struct {
	hosts   *inventory.Inventory
	records *records.Store
	log     *slog.Logger
	// mutexes are held, by name and by disk, while a VM starts.
	mutexes admission.Mutexes
	// starting are the VMs that this run is about to start, in the order in which it began, see awaitLinked.
	startingMu sync.Mutex
	starting   []*pendingStart
}

// NewScheduler prepares the scheduler of these hosts. It does no I/O.
func NewScheduler(hosts *inventory.Inventory, store *records.Store, cfg Config) *Scheduler {
	capacity := &Capacity{hosts: hosts, records: store}

	return &Scheduler{
		Capacity: capacity,
		Cordons: &Cordons{
			hosts: hosts, records: store, capacity: capacity, owner: cfg.Owner, arrivals: newArrivals(hosts.Configured),
		},
		Claims: &Claims{hosts: hosts, records: store, log: cfg.Log},
		hosts:  hosts, records: store, defaultType: cfg.DefaultType,
	}
}
