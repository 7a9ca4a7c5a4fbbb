package hostset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// askTimeout bounds a question of Ask to one host, connecting included, if the caller's context has no deadline.
const askTimeout = 30 * time.Second

// cleanUpTimeout bounds the removal of what a failed or cancelled operation has created.
const cleanUpTimeout = 30 * time.Second

// CleanupContext returns a context for removing what a failed or cancelled operation has created. It stays valid when
// ctx is cancelled, for 30 seconds at most.
func CleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
}

// CleanupOn is CleanupContext for what is on one host. If ctx was cancelled and the host doesn't answer within some
// seconds, the context has ended: a user who interrupts an operation doesn't wait for a host that hangs, once for each
// thing to remove.
func CleanupOn(ctx context.Context, h *libvirt.Host) (context.Context, context.CancelFunc) {
	cleaning, cancel := CleanupContext(ctx)
	if ctx.Err() != nil && !h.Answers(cleaning) {
		cancel()
	}
	return cleaning, cancel
}

// Host is a configured host.
type Host struct {
	// Name is the host's name in the configuration.
	Name string
	// Conn is the host's libvirt.
	Conn *libvirt.Host
	// Fenced says that the host was given up: it is never asked, and its objects count as gone.
	Fenced bool
	// OverprovisioningFactor limits what the volumes of a storage pool may grow to, to this many times the pool's
	// capacity. 0 is no limit.
	OverprovisioningFactor float64
	// SameFile returns those of the absolute paths that lead to the file of path on the host, for example through a
	// symbolic link. It is nil, or its error is libvirt.ErrUnsupported, if not all of the host's files can be compared:
	// the result then has those that are known to lead there.
	SameFile func(ctx context.Context, path string, paths ...string) ([]string, error)
	// ReadEnd returns the last n bytes of a file on the host. It is nil if files can't be read. Its error is
	// libvirt.ErrUnsupported if the host runs no programs, or if the file isn't there or not for the user who logs in.
	ReadEnd func(ctx context.Context, path string, n int) ([]byte, error)
	// MountTables returns the host's /etc/fstab and its table of mounts, as they were a second ago at most; "" for one
	// that the host never shows. It is nil if files can't be read.
	MountTables func(ctx context.Context) (planned, mounted string, err error)
	// SHA256 returns the SHA-256 of a file on the host, in hexadecimal. It is nil if the host can't compute it.
	SHA256 func(ctx context.Context, path string) (string, error)
	// FileID returns what identifies a file or a directory on the host, as long as its filesystem is mounted. It follows
	// symbolic links. It is nil if the host's files can't be identified.
	FileID func(ctx context.Context, path string) (string, error)
	// SeenVolumes returns the volumes of a pool as of the last reading of the host, which is enough for a plan. If it is
	// nil, they are read when they are needed. The result must not be changed.
	SeenVolumes func(ctx context.Context, pool string) ([]libvirt.Volume, error)
	// SeenUsing returns the names, by UUID, of the VMs that had the file or device at the path as a disk, or in a
	// backing chain, at the last reading of the host. If it is nil, they are unknown.
	SeenUsing func(ctx context.Context, path string) (map[string]string, error)
}

// Set is a number of hosts, in the order of their names.
type Set []Host

// NewSet sorts hosts by their names.
func NewSet(hosts ...Host) Set {
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return hosts
}

// Present returns the hosts that aren't fenced.
func (s Set) Present() Set { return s.filtered(func(h Host) bool { return !h.Fenced }) }

// Named returns the hosts with these names. Names that the set doesn't have are ignored.
func (s Set) Named(names ...string) Set {
	return s.filtered(func(h Host) bool { return slices.Contains(names, h.Name) })
}

// Without returns the hosts without those of these names.
func (s Set) Without(names ...string) Set {
	return s.filtered(func(h Host) bool { return !slices.Contains(names, h.Name) })
}

func (s Set) filtered(keep func(Host) bool) Set {
	return slices.DeleteFunc(slices.Clone(s), func(h Host) bool { return !keep(h) })
}

// Host returns the host of that name, and reports whether the set has it.
func (s Set) Host(name string) (Host, bool) {
	for _, h := range s {
		if h.Name == name {
			return h, true
		}
	}
	return Host{}, false
}

// Names returns the names of the hosts, sorted.
func (s Set) Names() []string {
	names := make([]string, len(s))
	for i, h := range s {
		names[i] = h.Name
	}
	return names
}

// Answer is the answer of one host.
type Answer[T any] struct {
	Host string
	// Value is nil if the host has no such object, and if Err isn't nil.
	Value *T
	// Err says why the answer is unknown. It is never libvirt.ErrNotFound.
	Err error
}

// Ask asks every host of the set that isn't fenced, all at the same time. The answers are in the order of the hosts'
// names. If ask returns libvirt.ErrNotFound, the answer is that the host has no such object.
func Ask[T any](ctx context.Context, s Set, ask func(context.Context, *libvirt.Host) (*T, error)) []Answer[T] {
	hosts := s.Present()
	answers := make([]Answer[T], len(hosts))
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
		defer cancel()
	}
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			value, err := ask(ctx, h.Conn)
			if errors.Is(err, libvirt.ErrNotFound) {
				value, err = nil, nil
			}
			if err != nil {
				value = nil
			}
			answers[i] = Answer[T]{Host: h.Name, Value: value, Err: err}
		})
	}
	wg.Wait()
	return answers
}

// Found returns the answers of the hosts that have the object.
func Found[T any](answers []Answer[T]) []Answer[T] {
	return slices.DeleteFunc(slices.Clone(answers), func(a Answer[T]) bool { return a.Value == nil })
}

// Silent returns why hosts can't answer, by their names.
func Silent[T any](answers []Answer[T]) map[string]error {
	silent := map[string]error{}
	for _, a := range answers {
		if a.Err != nil {
			silent[a.Host] = a.Err
		}
	}
	return silent
}

// Each calls do for every host of the set that isn't fenced, all at the same time, and returns the errors by the names
// of the hosts. It sets no deadline.
func Each(ctx context.Context, s Set, do func(context.Context, Host) error) map[string]error {
	hosts := s.Present()
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { errs[i] = do(ctx, h) })
	}
	wg.Wait()
	failed := map[string]error{}
	for i, err := range errs {
		if err != nil {
			failed[hosts[i].Name] = err
		}
	}
	return failed
}
