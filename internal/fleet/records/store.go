package records

import (
	"context"
	"log/slog"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Config says who writes, and what holds for VMs for which no policy says anything.
type Config struct {
	// Owner says who makes locks, for others to read.
	Owner string
	Log   *slog.Logger
	// DefaultEvictionStrategy is for VMs that have no strategy and no policy.
	DefaultEvictionStrategy string
	// Migration is for what neither a migration nor a policy says.
	Migration migration.Options
}

// Store is what is kept on a set of hosts. All methods may be called from several goroutines.
type Store struct {
	hosts           *inventory.Inventory
	log             *slog.Logger
	leases          *lease.Keeper
	endRenewals     context.CancelFunc
	defaultEviction string
	migration       migration.Options
}

// NewStore prepares the store of these hosts. It does no I/O. Leases are renewed until EndRenewals, whatever becomes
// of the operation that took them.
func NewStore(hosts *inventory.Inventory, cfg Config) *Store {
	renewals, end := context.WithCancel(context.Background())

	return &Store{
		hosts: hosts, log: cfg.Log, leases: lease.NewKeeper(renewals, cfg.Owner, cfg.Log), endRenewals: end,
		defaultEviction: cfg.DefaultEvictionStrategy, migration: cfg.Migration,
	}
}

// EndRenewals ends the renewal of leases that were not given back.
func (s *Store) EndRenewals() { s.endRenewals() }

// AwaitRenewals waits until none is renewed.
func (s *Store) AwaitRenewals() { s.leases.Wait() }
