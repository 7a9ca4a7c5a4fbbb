package drain

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
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

// underWay are the hosts that this process drains, by name. A host is among them before it is cordoned: of several
// drains that begin together, none then chooses another one's host as a target.
type underWay struct {
	mu    sync.Mutex
	hosts map[string]int
}

// add adds a host until end is called.
func (u *underWay) add(host string) (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.hosts == nil {
		u.hosts = map[string]int{}
	}

	u.hosts[host]++

	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()

		u.hosts[host]--
	}
}

// blocker returns what blocks moves to a host that is drained; nil if it isn't.
func (u *underWay) blocker(host string) *migration.Blocker {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.hosts[host] == 0 {
		return nil
	}

	return &migration.Blocker{
		Reason: migration.HostCordoned, Status: status.False, Attribute: "host",
		Message: fmt.Sprintf("host %q is drained at the same time", host),
		Remedy:  fmt.Sprintf("Drain host %q when this drain has ended.", host),
	}
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
