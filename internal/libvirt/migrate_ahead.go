package libvirt

import (
	"context"
	"sync"
)

// MigrationAhead has the connections of one migration, which are opened while it is still found out whether the domain
// can be migrated: Migrate doesn't use those of other calls, and opening one takes several round trips.
type MigrationAhead struct {
	mu    sync.Mutex
	conns map[*Host]*aheadConn
}

// aheadConn is a connection that is open or being opened. opened is closed when conn is set, or nil because it failed.
type aheadConn struct {
	host   *Host
	opened chan struct{}
	conn   *conn
	cancel context.CancelFunc
}

// ConnectAhead begins to open the connections that Migrate needs, and doesn't wait. ctx bounds the opening. The caller
// gives the connections to Migrate, and closes them afterwards.
func ConnectAhead(ctx context.Context, source, target *Host) *MigrationAhead {
	a := &MigrationAhead{conns: map[*Host]*aheadConn{}}
	for _, h := range []*Host{source, target} {
		if !h.target.inProcess { // Nothing is migrated there.
			a.conns[h] = h.connectAhead(ctx)
		}
	}
	return a
}

func (h *Host) connectAhead(ctx context.Context) *aheadConn {
	ctx, cancel := context.WithCancel(ctx)
	o := &aheadConn{host: h, opened: make(chan struct{}), cancel: cancel}
	h.background.Go(func() {
		defer close(o.opened)
		defer h.onClose(cancel)()
		if c, err := h.connectBridged(ctx); err == nil { // Otherwise Migrate tries again, and reports why it fails.
			o.conn = c
		}
	})
	return o
}

// Close closes the connections that no migration has taken.
func (a *MigrationAhead) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.conns {
		o.discard()
	}
	a.conns = nil
}

// reserve returns a connection on which beginCall has succeeded: the one that was opened ahead, if it still works, or a
// new one. The caller retires it.
func (a *MigrationAhead) reserve(ctx context.Context, h *Host) (*conn, error) {
	if o := a.take(h); o != nil {
		select {
		case <-o.opened:
		case <-ctx.Done():
			o.discard()
			return nil, contextCause(ctx)
		}
		if o.conn != nil && o.conn.beginCall() {
			o.cancel()
			return o.conn, nil
		}
		o.discard()
	}
	return h.reserveBridged(ctx)
}

// take returns a host's connection once, nil if there is none.
func (a *MigrationAhead) take(h *Host) *aheadConn {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.conns[h]
	delete(a.conns, h)
	return o
}

// discard closes the connection, as soon as it is open.
func (o *aheadConn) discard() {
	o.cancel()
	o.host.background.Go(func() {
		<-o.opened
		if o.conn != nil {
			o.conn.retire()
		}
	})
}
