package migration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Tunnel reaches the unix sockets of one host over a connection of its own. The connection is made when it is first
// needed, and ends with Close.
type Tunnel interface {
	// ListenUnix makes the host listen on a socket, and accepts the connections that are made there. It first removes a
	// socket that was left there.
	ListenUnix(ctx context.Context, path string) (net.Listener, error)
	// DialUnix connects to a socket on the host.
	DialUnix(ctx context.Context, path string) (net.Conn, error)
	// RemoveUnix removes a socket from the host. A missing socket is no error.
	RemoveUnix(ctx context.Context, path string) error
	// Answers says whether a TCP port accepts or refuses connections from the host within patience, or leaves them
	// without an answer.
	Answers(ctx context.Context, host string, port int, patience time.Duration) (bool, error)
	Close() error
}

const (
	// socketDir belongs to QEMU's user on every host (libvirt makes it for D-Bus daemons, which serve guests in the
	// same way), is writable for its SELinux domain, and is empty after a reboot.
	socketDir = "/run/libvirt/qemu/dbus"
	// socketPrefix is the prefix, followed by the VM's name, of the sockets that a guest's AppArmor profile lets its
	// QEMU make anywhere below /run/libvirt.
	socketPrefix = "vf.tunnelmigrate.dest."
	// diskSocketPrefix is the prefix of the sockets for disks.
	diskSocketPrefix = "vfd.tunnelmigrate.dest."
	// maxSocketPath is the longest path that fits into a unix socket's address.
	maxSocketPath = 107
	// dialTimeout bounds connecting to the target's QEMU, which already listens when the source connects.
	dialTimeout = 15 * time.Second
	// clearTimeout bounds removing the sockets. It is long enough for an SSH server that was lost during the migration
	// to come back.
	clearTimeout = 20 * time.Second
)

// relay forwards a migration between two hosts. The hosts don't have to reach each other. The source's SSH server
// listens on a unix socket there. The relay joins every connection that QEMU or libvirt makes to that socket with a
// connection to the socket of the same path on the target, where QEMU listens. The traffic is encrypted by SSH, and
// passes through this process.
type relay struct {
	log            *slog.Logger
	source, target Tunnel
	path           string
	listener       net.Listener
	ctx            context.Context //nolint:containedctx // bounds the background goroutines, not a call
	cancel         context.CancelFunc
	running        sync.WaitGroup

	mu      sync.Mutex
	failure error // the first
}

// socketPath returns the path of the socket through which both QEMUs use the relay. It contains the VM's name, which is
// unique on a host.
func socketPath(prefix string, vm VM) string {
	p := path.Join(socketDir, prefix+vm.Name)
	if len(p) > maxSocketPath {
		return path.Join(socketDir, prefix+vm.UUID)
	}
	return p
}

// openRelay starts to relay the connections to a socket. It doesn't close the tunnels.
func openRelay(ctx context.Context, source, target Tunnel, socket string, log *slog.Logger) (*relay, error) {
	r := &relay{log: log, source: source, target: target, path: socket}
	var err error
	if r.listener, err = source.ListenUnix(ctx, r.path); err != nil {
		return nil, fmt.Errorf("the source's end of the relay: %w", err)
	}
	// The traffic may outlive the call that started the relay: close ends it.
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.running.Go(r.serve)
	return r, nil
}

// uri returns the URI that libvirt is told to migrate to.
func (r *relay) uri() string { return (&url.URL{Scheme: "unix", Path: r.path}).String() }

// close ends everything that passes through the relay, and removes its sockets from both hosts, even when ctx has
// ended.
func (r *relay) close(ctx context.Context) {
	err := r.listener.Close()
	r.cancel()
	r.running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	errs := []error{err, nil, nil}
	var both sync.WaitGroup
	both.Go(func() { errs[1] = r.removeSocket(ctx, r.source) })
	both.Go(func() { errs[2] = r.removeSocket(ctx, r.target) })
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		r.log.WarnContext(ctx, "the relay was not cleared away completely", "socket", r.path, "error", err.Error())
	}
}

// removeSocket removes the socket from a host, and retries until ctx ends.
func (r *relay) removeSocket(ctx context.Context, host Tunnel) (err error) {
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		err = host.RemoveUnix(ctx, r.path)
		return struct{}{}, err
	})
	return err
}

// err returns why the relay failed, nil if it did not.
func (r *relay) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *relay) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil && r.ctx.Err() == nil {
		r.failure = err
		r.log.WarnContext(r.ctx, "the relay failed", "error", err.Error())
	}
}

// serve accepts connections until the listener is closed. They reach the target in the order in which they were made:
// QEMU before 8.0 takes the first as the main connection.
func (r *relay) serve() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				r.fail(fmt.Errorf("the source's end of the relay: %w", err))
			}
			return
		}
		far, err := r.dialTarget()
		if err != nil {
			r.fail(fmt.Errorf("the target's end of the relay: %w", err))
			_ = near.Close()
			continue
		}
		r.running.Go(func() { r.splice(near, far) })
	}
}

func (r *relay) dialTarget() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(r.ctx, dialTimeout)
	defer cancel()
	return r.target.DialUnix(ctx, r.path)
}

// splice joins two connections.
func (r *relay) splice(near, far net.Conn) {
	defer func() { _, _ = near.Close(), far.Close() }()
	stop := context.AfterFunc(r.ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	var copies sync.WaitGroup
	copies.Go(func() { r.copyOneWay(far, near, "the target's") })
	copies.Go(func() { r.copyOneWay(near, far, "the source's") })
	copies.Wait()
}

// copyOneWay copies one direction. It passes on an orderly end, after which the other direction continues. Anything
// else ends both.
func (r *relay) copyOneWay(to, from net.Conn, end string) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		r.fail(fmt.Errorf("%s end of the relay: %w", end, err))
	}
	_, _ = to.Close(), from.Close()
}
