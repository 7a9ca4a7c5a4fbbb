package placement

import (
	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
)

// Config says who plans, and with what.
type Config struct {
	// Owner says who cordons a host, for others to read.
	Owner string
	// DefaultType is the domain type of VMs that declare none, see inventory.Reply.TypeFor.
	DefaultType string
}

// Planner knows where VMs fit, and keeps room for those that are on their way. All methods may be called from several
// goroutines.
type Planner struct {
	hosts        *inventory.Inventory
	records      *records.Store
	owner        string
	defaultType  string
	reservations reservations
	arrivals     map[*inventory.Host]*semaphore.Weighted // see beginArrival
	// mutexes are held, by name and by disk, while a VM is started.
	mutexes admission.Mutexes
}

// NewPlanner prepares the planner of these hosts. It does no I/O.
func NewPlanner(hosts *inventory.Inventory, store *records.Store, cfg Config) *Planner {
	return &Planner{
		hosts: hosts, records: store, owner: cfg.Owner, defaultType: cfg.DefaultType,
		arrivals: newArrivals(hosts.Configured),
	}
}
