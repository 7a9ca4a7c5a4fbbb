package libvirt

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// Keepalive finds a dead peer after keepaliveInterval * (keepaliveCount + 1): 30 seconds, as libvirt's own default.
const (
	keepaliveInterval = 5
	keepaliveCount    = 5
	// keepaliveNever leaves it to the bridge to end a connection whose daemon has been silent. libvirt's client asks for
	// signs of life all the same. When it ends a connection by itself while several calls wait on it, it may crash: before
	// 10.1, a thread that was woken up leaves a source in the connection's event loop which points into its stack.
	keepaliveNever = 1 << 20
)

// conn is one libvirt connection and the domain handles that belong to it.
//
// A handle and the connection itself may only be freed when no call uses them, also none that its caller has given up.
// So every call is bracketed by begin and end, and what is retired is freed by the last end.
type conn struct {
	host   *Host
	c      *golibvirt.Connect
	bridge *socketBridge // nil unless the stream is ours
	lost   atomic.Bool
	gone   chan struct{} // closed when the stream is seen to end
	leave  sync.Once
	// abandoned is closed when no caller waits for the calls under way any more.
	abandoned chan struct{}

	mu      sync.Mutex
	running int  // calls within libvirt
	awaited int  // those of them that a caller waits for
	retired bool // takes no new calls
	freed   bool
	tokens  int                          // that its pipelined calls hold
	dropped bool                         // its tokens, as it is abandoned
	handles map[string]*golibvirt.Domain // by UUID
	stale   []*golibvirt.Domain          // replaced, but perhaps still in use
	// callbacks are the event callbacks; each holds a reference that keeps the connection from being closed.
	callbacks []int
}

// beginCall reserves the connection for a call. It fails when the connection takes none any more.
func (c *conn) beginCall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired || c.isLost() {
		return false
	}
	c.running++
	c.awaited++
	return true
}

// endCall ends a call that beginCall started. awaited says that its caller was still there.
func (c *conn) endCall(awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if awaited {
		c.awaited--
	}
	c.closeWhenUnused()
}

// giveUp is called instead of waiting for a call any longer.
func (c *conn) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited--
	if !c.host.target.inProcess {
		c.retired = true
		c.host.log.Debug("gave up a libvirt connection", "host", c.host.cfg.Name)
	}
	c.closeWhenUnused()
}

// retire makes the connection take no new calls, and closes it when those under way have ended.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.closeWhenUnused()
}

// closeWhenUnused cuts the stream of a retired connection that no caller waits for, which makes libvirt return from its
// calls, and frees it when there are none left. The caller holds the lock.
func (c *conn) closeWhenUnused() {
	if !c.retired || c.freed {
		return
	}
	if c.awaited == 0 && c.running > 0 {
		c.abandonTokens()
		if c.bridge != nil {
			c.bridge.stop()
		}
	}
	if c.running == 0 {
		c.freed = true
		c.host.background.Go(c.closeNow)
	}
}

// closeNow closes the connection. Nothing else uses it any more.
func (c *conn) closeNow() {
	for _, d := range c.handles {
		_ = d.Free()
	}
	for _, d := range c.stale {
		_ = d.Free()
	}
	// Closing says goodbye to the daemon and waits for its answer, which a stalled host never gives.
	var cutter *time.Timer
	if c.bridge != nil {
		cutter = time.AfterFunc(closeTimeout, func() { c.bridge.stop() })
	}
	for _, id := range c.callbacks {
		_ = c.c.DomainEventDeregister(id)
	}
	_ = c.c.UnregisterCloseCallback()
	_, _ = c.c.Close()
	if c.bridge != nil {
		cutter.Stop()
		c.bridge.stop()
		c.bridge.wait()
	}
}

// isLost asks libvirt's client, without a round trip, whether the connection is broken.
func (c *conn) isLost() bool {
	if c.lost.Load() {
		return true
	}
	// A driver that can't tell has no wire that could break.
	if alive, err := c.c.IsAlive(); alive || codeOf(err) == golibvirt.ERR_NO_SUPPORT {
		return false
	}
	c.lost.Store(true)
	return true
}

// busyness is the number of calls under way, and whether the connection takes more.
func (c *conn) busyness() (calls int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, !c.retired && !c.isLost()
}

// domainHandle gives the handle of a domain, and looks it up the first time. It is valid until the current call ends.
func (c *conn) domainHandle(uuid string) (*golibvirt.Domain, error) {
	c.mu.Lock()
	d := c.handles[uuid]
	c.mu.Unlock()
	if d != nil {
		return d, nil
	}
	c.countCall("virDomainLookupByUUIDString")
	d, err := c.c.LookupDomainByUUIDString(uuid)
	if err != nil {
		return nil, err
	}
	return c.keepHandle(uuid, d), nil
}

// keepHandle makes a handle the connection's own, and gives the one to use. A handle is no more than a name and a UUID,
// so when there is one already the new one is freed, unless the domain was renamed.
func (c *conn) keepHandle(uuid string, d *golibvirt.Domain) *golibvirt.Domain {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.handles[uuid]; known != nil {
		// Neither call is a round trip.
		before, errBefore := known.GetName()
		if now, err := d.GetName(); err == nil && errBefore == nil && now == before {
			_ = d.Free()
			return known
		}
		c.stale = append(c.stale, known)
	}
	c.handles[uuid] = d
	return d
}

// forgetHandle drops a handle that carries an outdated name.
func (c *conn) forgetHandle(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.handles[uuid]; d != nil {
		c.stale = append(c.stale, d)
		delete(c.handles, uuid)
	}
}

// countCall notes one call of a libvirt procedure, which is one round trip.
func (c *conn) countCall(procedure string) { c.host.counter.add(procedure) }

// connect opens a connection. It returns when ctx ends; what libvirt still delivers then is closed.
func (h *Host) connect(ctx context.Context) (*conn, error) {
	if err := startEventLoop(); err != nil {
		return nil, err
	}
	if !h.target.bridged {
		return h.openWithin(ctx, h.target.uri, nil)
	}
	var c *conn
	var failure error
	err := h.atSocket(ctx, func(path string) error {
		remote, err := h.cfg.Dial(ctx, path)
		if err != nil {
			return err
		}
		var unheard error
		c, unheard, failure = h.openOver(ctx, remote)
		return unheard
	})
	if err != nil {
		return nil, err
	}
	return c, failure
}

// openOver opens a connection over a stream. If it fails, unheard is why the stream ended before the host had said a
// word: a program on a busy host may be slow to find that it can't connect, and libvirt only sees that the stream ends.
func (h *Host) openOver(ctx context.Context, remote net.Conn) (c *conn, unheard, err error) {
	bridge, err := newSocketBridge(remote)
	if err != nil {
		return nil, nil, err
	}
	if c, err = h.openWithin(ctx, h.target.withSocket(bridge.path()), bridge); err != nil {
		return nil, bridge.endedUnheard(), err
	}
	return c, nil, nil
}

// openWithin opens a connection, over a bridge unless that is nil, within the time to connect.
func (h *Host) openWithin(ctx context.Context, uri string, r *socketBridge) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ConnectTimeout)
	defer cancel()
	type opened struct {
		c   *conn
		err error
	}
	result := make(chan opened)
	h.background.Go(func() {
		c, err := h.openLibvirt(uri, r)
		select {
		case result <- opened{c, err}:
		case <-ctx.Done():
			if c != nil {
				c.retire()
			}
		}
	})
	select {
	case o := <-result:
		return o.c, o.err
	case <-ctx.Done():
		if r != nil {
			r.stop()
		}
		return nil, fmt.Errorf("no connection within %v: %w", h.cfg.ConnectTimeout, ctx.Err())
	}
}

// reserveConnection opens a connection for one caller, on which beginCall has succeeded. Whoever asked for it retires
// it.
func (h *Host) reserveConnection(ctx context.Context) (*conn, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return nil, err
	}
	if !c.beginCall() {
		c.retire()
		return nil, ErrUnreachable
	}
	return c, nil
}

// openLibvirt calls into libvirt and can't be cancelled but by cutting the relay.
func (h *Host) openLibvirt(uri string, r *socketBridge) (*conn, error) {
	h.counter.add("virConnectOpen")
	// Without an authentication callback libvirt never asks on the terminal.
	lv, err := golibvirt.NewConnect(uri)
	if r != nil {
		r.connected()
	}
	if err != nil {
		if r != nil {
			r.stop()
			r.wait()
		}
		return nil, err
	}
	c := &conn{
		host: h, c: lv, bridge: r, gone: make(chan struct{}), abandoned: make(chan struct{}),
		handles: map[string]*golibvirt.Domain{},
	}
	switch {
	case r != nil:
		r.onEnd(c.markLost)
	case !h.target.inProcess:
		// This costs a round trip, which a stream of our own saves.
		_ = lv.RegisterCloseCallback(func(*golibvirt.Connect, golibvirt.ConnectCloseReason) { c.markLost() })
	}
	// Keepalive is refused by drivers without a wire, which need it as little.
	switch {
	case h.target.inProcess:
	case r == nil:
		_ = lv.SetKeepAlive(keepaliveInterval, keepaliveCount)
	case lv.SetKeepAlive(keepaliveInterval, keepaliveNever) == nil:
		r.endWhenSilent()
	}
	h.connected.Store(true)
	h.log.Debug("connected to libvirt", "host", h.cfg.Name)
	return c, nil
}

// markLost is called by whoever sees the stream end.
func (c *conn) markLost() {
	c.lost.Store(true)
	c.leave.Do(func() { close(c.gone) })
	c.host.events.connectionLost(c)
}
