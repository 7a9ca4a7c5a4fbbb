package records

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Config is the configuration of a Store: its owner, and the defaults for VMs that no policy selects.
type Config struct {
	// Owner is shown to users as the holder of locks.
	Owner string
	Log   *slog.Logger
	// DefaultEvictionStrategy applies to VMs that have no strategy and no policy.
	DefaultEvictionStrategy string
	// Migration are the options that neither a migration nor a policy sets.
	Migration migration.Options
}

// Store keeps data on a set of hosts. All methods may be called from several goroutines.
type Store struct {
	hosts           *inventory.Inventory
	log             *slog.Logger
	leases          *lease.Keeper
	endRenewals     context.CancelFunc
	defaultEviction string
	migration       migration.Options
	// names has a channel for each name of a policy that was written. It is full while the policy is written.
	names     sync.Map
	fresh     storage.Fresh
	handovers storage.Handovers
}

// NewStore prepares the store of these hosts. It does no I/O. Leases are renewed until EndRenewals, even if the
// operation that took them is cancelled.
func NewStore(hosts *inventory.Inventory, cfg Config) *Store {
	renewals, end := context.WithCancel(context.Background())
	leases := lease.NewKeeper(renewals, cfg.Owner, cfg.Log, func() (all []lease.Store) {
		for _, h := range hosts.Present() {
			if h.Conn.HasAnswered() { // No user has to touch a key for another one.
				all = append(all, h.Conn)
			}
		}

		return all
	})

	return &Store{
		hosts: hosts, log: cfg.Log, leases: leases, endRenewals: end,
		defaultEviction: cfg.DefaultEvictionStrategy, migration: cfg.Migration,
	}
}

// EndRenewals ends the renewal of leases that were not released.
func (s *Store) EndRenewals() { s.endRenewals() }

// AwaitRenewals waits until no lease is being renewed.
func (s *Store) AwaitRenewals() { s.leases.Wait() }

// lockPolicy waits until no other operation, of this run or another, writes a policy of this kind and name, or until
// ctx ends. The records are read again then. The policy is written with the held context. The caller must call unlock.
//
// The lock is on one host: of those that answer and can keep it, the one with the first UUID. It can't exclude a run
// that doesn't reach that host. If no host can keep it, the policy is written without it, so that each host says for
// itself what it lacks. Operations of this run exclude each other in any case: they may find that different hosts can
// keep the lock, which is what lockName is for.
//
// held ends when another run has taken the lock, but not because the lock's host is down: the others are written then.
func (s *Store) lockPolicy(
	ctx context.Context, noun, name string,
) (held context.Context, unlock func(), err error) {
	unlockName, err := s.lockName(ctx, noun, name)
	if err != nil {
		return nil, nil, err
	}

	answers, err := s.hosts.Snapshot(ctx)
	if err != nil {
		unlockName()

		return nil, nil, err
	}

	answers = slices.DeleteFunc(slices.Clone(answers), func(a inventory.Reply) bool { return a.Info == nil })
	slices.SortFunc(answers, func(a, b inventory.Reply) int {
		return cmp.Or(cmp.Compare(a.Info.UUID, b.Info.UUID), inventory.ByHostName(a.Host, b.Host))
	})

	for _, a := range answers {
		_, l, err := s.Lease(ctx, a.Host, noun+":"+name, "writing a policy of that name on")

		switch {
		case err == nil:
			for _, a := range answers {
				a.Host.ForgetRecord()
			}

			held, end := l.UntilLost(ctx)

			return held, func() { l.Release(); end(); unlockName() }, nil
		case ctx.Err() != nil, errors.Is(err, ErrLocked), errors.Is(err, lease.ErrLost):
			unlockName()

			return nil, nil, err
		}

		s.log.WarnContext(ctx, "host keeps no lock of a policy", "host", a.Host.Name, "policy", name, "error", err.Error())
	}

	return ctx, unlockName, nil
}

// lockName waits until no other operation of this process writes a policy of this kind and name, or until ctx ends. The
// caller must call unlock.
func (s *Store) lockName(ctx context.Context, noun, name string) (unlock func(), err error) {
	found, _ := s.names.LoadOrStore([2]string{noun, name}, make(chan struct{}, 1))
	held, _ := found.(chan struct{})

	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
