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

// Planner knows where VMs fit, and keeps capacity for those that are on their way. All methods may be called from
// several goroutines.
type Planner struct {
	*Capacity
	*Cordons
	*Claims

	hosts       *inventory.Inventory
	records     *records.Store
	defaultType string
}

// Capacity is what the hosts have left for VMs, less what is reserved for those that are on their way: memory, disk
// space, devices, and whom they may share a host with.
type Capacity struct {
	hosts        *inventory.Inventory
	records      *records.Store
	reservations reservations
}

// Cordons keep VMs from coming to a host that is drained.
type Cordons struct {
	hosts    *inventory.Inventory
	records  *records.Store
	capacity *Capacity
	owner    string
	arrivals map[*inventory.Host]*semaphore.Weighted // see beginArrival
}

// Claims are names and disks that only one running VM may have.
type Claims struct {
	hosts *inventory.Inventory
	// mutexes are held, by name and by disk, while a VM is started.
	mutexes admission.Mutexes
}

// NewPlanner prepares the planner of these hosts. It does no I/O.
func NewPlanner(hosts *inventory.Inventory, store *records.Store, cfg Config) *Planner {
	capacity := &Capacity{hosts: hosts, records: store}

	return &Planner{
		Capacity: capacity,
		Cordons: &Cordons{
			hosts: hosts, records: store, capacity: capacity, owner: cfg.Owner, arrivals: newArrivals(hosts.Configured),
		},
		Claims: &Claims{hosts: hosts},
		hosts:  hosts, records: store, defaultType: cfg.DefaultType,
	}
}
