package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/turn"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Config is what a fleet is made of.
type Config struct {
	// Hosts by the name that people give them.
	Hosts map[string]HostConfig
	// DefaultDomainType is the domain type of machines that declare none:
	// "kvm", "qemu", or empty for kvm where a host offers it, else qemu.
	DefaultDomainType string
	// DefaultEvictionStrategy is for machines that nobody chose a strategy for.
	// Empty: live migration if possible, and never without.
	DefaultEvictionStrategy string
	// Migration are the options of migrations for which nothing else is said.
	Migration migration.Options
	// Owner says who makes marks and locks, for others to read:
	// "alice@workstation (pid 4711)".
	Owner string
	// MigrationLimits says how many machines may move at a time.
	MigrationLimits turn.Limits
	// Logger receives progress. Nil discards it.
	Logger *slog.Logger
}

// HostConfig is one host.
type HostConfig struct {
	// URI is libvirt's connection URI.
	URI string
	// Dial opens streams to unix sockets on the host, for URIs over SSH.
	Dial libvirt.DialFunc
	// ConnectTimeout bounds the opening of one connection. 0 is libvirt.DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// Tunnel prepares a connection that one migration has for itself, for URIs
	// over SSH. Nil rules out the transport that needs it.
	Tunnel func() (migration.Tunnel, error)
	// ReadEnd returns the last n bytes of a file on the host. Nil where files
	// can't be read.
	ReadEnd func(ctx context.Context, path string, n int) ([]byte, error)
	// Absent returns which of the paths lead to nothing on the host; what can't be
	// told is not among them. Nil where files can't be looked for.
	Absent func(ctx context.Context, paths ...string) ([]string, error)
	// Close ends what Dial stands on. It may be nil.
	Close func() error
	// Labels are matched by placement.
	Labels map[string]string
	// MemoryLimit is how many bytes of memory may be committed to machines.
	// 0 is the host's own memory.
	MemoryLimit uint64
	// MigrationAddress is where the host's QEMU takes migrations from the other
	// hosts: a name or an IP. Empty leaves it to the host's libvirt.
	MigrationAddress string
	// PeerURI is where the other hosts' libvirt reaches the host's. Empty rules
	// out migrations that they manage among themselves.
	PeerURI string
	// Unschedulable keeps placement from choosing the host.
	Unschedulable bool
	// Fenced gives the host up: it is never asked, and its machines are taken
	// to be gone. Whoever sets it vouches that the host is really off.
	Fenced bool
}

// Fleet is a set of hosts. It connects to each when it is first needed. All
// methods may be called from several goroutines.
type Fleet struct {
	hosts       []*host // sorted by name
	defaultType string
	// defaultEviction is for machines without a strategy, migration for what no migration and no policy says.
	defaultEviction string
	migration       migration.Options
	owner           string
	log             *slog.Logger
	mutexes         turn.Mutexes
	reservations    reservations
	unfinished      unfinished
	queue           *turn.Queue
	closeOnce       sync.Once
	background      sync.WaitGroup
	stopBackground  context.CancelFunc
	lifetime        context.Context //nolint:containedctx // bounds the background goroutines, not a call
}

// New prepares a fleet. It checks the URIs and does no I/O.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{
		defaultType: cfg.DefaultDomainType, owner: cfg.Owner, log: cfg.Logger,
		defaultEviction: cfg.DefaultEvictionStrategy, migration: cfg.Migration,
	}
	f.queue = turn.NewQueue(cfg.MigrationLimits, f.trafficNow)

	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}

	f.lifetime, f.stopBackground = context.WithCancel(context.Background())

	var errs []error

	for name, hc := range cfg.Hosts {
		conn, err := libvirt.Open(libvirt.Config{
			Name: name, URI: hc.URI, Dial: hc.Dial, ConnectTimeout: hc.ConnectTimeout, Logger: f.log,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("host %q: %w", name, err))

			continue
		}

		f.hosts = append(f.hosts, &host{name: name, cfg: hc, conn: conn})
	}

	slices.SortFunc(f.hosts, byHostName)

	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// Close ends every connection, those to all hosts at the same time: each says
// goodbye and waits for the answer. Calls in flight return an error.
func (f *Fleet) Close() error {
	errs := make([]error, len(f.hosts))

	f.closeOnce.Do(func() {
		f.unfinished.releaseAll()
		f.stopBackground()
		f.background.Wait()

		var wg sync.WaitGroup
		for i, h := range f.hosts {
			wg.Go(func() { errs[i] = h.close() })
		}

		wg.Wait()
	})

	return errors.Join(errs...)
}

func (h *host) close() error {
	err := h.conn.Close()
	if h.cfg.Close != nil {
		err = errors.Join(err, h.cfg.Close())
	}

	return err
}

// HostNames returns the configured names, sorted.
func (f *Fleet) HostNames() []string {
	names := make([]string, len(f.hosts))
	for i, h := range f.hosts {
		names[i] = h.name
	}

	return names
}

// AskedHosts returns the names of the hosts that are not fenced, sorted.
func (f *Fleet) AskedHosts() []string {
	var names []string

	for _, h := range f.present() {
		names = append(names, h.name)
	}

	return names
}

// fencedHosts returns the names of the hosts that were given up, sorted.
func (f *Fleet) fencedHosts() []string {
	return slices.DeleteFunc(f.HostNames(), func(name string) bool { return !f.host(name).cfg.Fenced })
}

// present are the hosts that are not fenced.
func (f *Fleet) present() []*host {
	return slices.DeleteFunc(slices.Clone(f.hosts), func(h *host) bool { return h.cfg.Fenced })
}

// Calls returns how often each libvirt procedure was called, by host. Tests and
// benchmarks assert round trips with it.
func (f *Fleet) Calls() map[string]map[string]int {
	calls := make(map[string]map[string]int, len(f.hosts))
	for _, h := range f.hosts {
		calls[h.name] = h.conn.Calls()
	}

	return calls
}

func (f *Fleet) host(name string) *host {
	for _, h := range f.hosts {
		if h.name == name {
			return h
		}
	}

	return nil
}
