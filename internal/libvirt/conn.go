package libvirt

import (
	"sync"
	"sync/atomic"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// The keepalive settings detect a dead peer after keepaliveInterval * (keepaliveCount + 1): 30 seconds, libvirt's own
// default.
const (
	keepaliveInterval = 5
	keepaliveCount    = 5
	// keepaliveNever leaves it to the bridge to end a connection whose daemon is silent. libvirt's client still sends
	// keepalive requests. If the client itself ended a connection that several calls wait on, it might crash: see
	// socketBridge.hangUp.
	keepaliveNever = 1 << 20
)

// conn is one libvirt connection and the domain handles that belong to it.
//
// A handle, or the connection itself, may only be freed when no call uses it, including calls that their callers have
// given up. So each call is enclosed by beginCall and endCall, and the last endCall frees what is retired.
type conn struct {
	host   *Host
	c      *golibvirt.Connect
	bridge *socketBridge // nil unless the stream is ours
	// unbridged is why the stream is not ours, although connectBridged tried; otherwise nil.
	unbridged error
	lost      atomic.Bool
	gone      chan struct{} // closed when the stream is seen to end
	leave     sync.Once
	// abandoned is closed when no caller waits for the running calls any more.
	abandoned chan struct{}

	mu      sync.Mutex
	running int  // calls within libvirt
	awaited int  // those that a caller waits for
	retired bool // accepts no new calls
	freed   bool
	tokens  int                          // tokens that its pipelined calls hold
	dropped bool                         // the tokens were returned, because the connection is abandoned
	handles map[string]*golibvirt.Domain // by UUID
	stale   []*golibvirt.Domain          // replaced, but possibly still in use
	secrets map[string]*golibvirt.Secret // handles of secrets, by UUID; each user has a reference of its own
	// callbacks are the event callbacks; each holds a reference that keeps the connection from being closed.
	callbacks []int
}

// beginCall reserves the connection for a call. It returns false if the connection accepts no more calls.
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

// endCall ends a call that beginCall started. awaited says that its caller still waited.
func (c *conn) endCall(awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if awaited {
		c.awaited--
	}
	c.closeWhenUnused()
}

// giveUp is called when a caller stops waiting for a call.
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

// retire makes the connection accept no new calls, and closes it when the running calls have ended.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
	c.closeWhenUnused()
}

// closeWhenUnused cuts the stream of a retired connection that no caller waits for, which makes libvirt return from its
// calls, and frees the connection when no calls are left. The caller holds the lock.
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

// closeNow closes the connection, which must not be in use.
func (c *conn) closeNow() {
	for _, d := range c.handles {
		_ = d.Free()
	}
	for _, d := range c.stale {
		_ = d.Free()
	}
	for _, secret := range c.secrets {
		_ = secret.Free()
	}
	// libvirt announces the close to the daemon, which a stalled host may never accept.
	var cutter *time.Timer
	if c.bridge != nil {
		cutter = time.AfterFunc(closeTimeout, func() { c.bridge.stop() })
	}
	for _, id := range c.callbacks {
		_ = c.c.DomainEventDeregister(id)
	}
	_ = c.c.UnregisterCloseCallback()
	if c.bridge != nil {
		c.bridge.leave()
	}
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
	// A driver that can't report this has no network connection that could break.
	if alive, err := c.c.IsAlive(); alive || codeOf(err) == golibvirt.ERR_NO_SUPPORT {
		return false
	}
	c.lost.Store(true)
	return true
}

// busyness returns the number of running calls, and whether the connection accepts more.
func (c *conn) busyness() (calls int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running, !c.retired && !c.isLost()
}

// domainHandle returns the handle of a domain, and looks it up the first time. The handle is valid until the current
// call ends.
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

// keepHandle stores a handle in the connection, and returns the handle to use. A handle is only a name and a UUID, so a
// new handle is freed if there already is one, unless the domain was renamed.
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

// forgetHandle drops a handle whose name is out of date.
func (c *conn) forgetHandle(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.handles[uuid]; d != nil {
		c.stale = append(c.stale, d)
		delete(c.handles, uuid)
	}
}

// countCall counts one call of a libvirt procedure, which is one round trip.
func (c *conn) countCall(procedure string) { c.host.counter.add(procedure) }

// markLost is called when the stream is seen to end.
func (c *conn) markLost() {
	c.lost.Store(true)
	c.leave.Do(func() { close(c.gone) })
	c.host.events.connectionLost(c)
}
