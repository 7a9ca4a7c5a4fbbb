package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	golibvirt "libvirt.org/go/libvirt"
)

// connect opens a connection. It returns when ctx ends; a connection that libvirt opens later is closed.
func (h *Host) connect(ctx context.Context) (*conn, error) { return h.connectTo(ctx, h.target) }

var (
	errNoBridge = errors.New("only libvirt's client can connect to such a URI")
	errSASL     = errors.New("the host requires a login with SASL, which is libvirt's client's own")
)

// connectBridged opens a connection over a stream of our own, if there can be one: if only libvirt's client can make
// the stream or log in, the stream is the client's, and unbridged says why.
func (h *Host) connectBridged(ctx context.Context) (*conn, error) {
	if h.target.bridged {
		return h.connect(ctx)
	}
	why := errNoBridge
	if h.target.bridge != nil {
		c, err := h.connectTo(ctx, h.target.bridge)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		why = err
	}
	c, err := h.connect(ctx)
	if err == nil {
		c.unbridged = why
	}
	return c, err
}

func (h *Host) connectTo(ctx context.Context, t *target) (*conn, error) {
	if err := startEventLoop(); err != nil {
		return nil, err
	}
	if !t.bridged {
		return h.openWithin(ctx, t.uri, nil)
	}
	var c *conn
	var failure error
	err := h.atSocket(ctx, t.sockets, func(path string) error {
		for {
			remote, err := h.dial(ctx, t, path)
			if err != nil {
				return err
			}
			early := !h.contradicts.Load()
			var unheard error
			c, unheard, failure = h.openOver(ctx, t, remote, early)
			if failure == nil || !early || !h.contradicts.Load() {
				return unheard
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return c, failure
}

// dial opens a stream to one of a target's sockets.
func (h *Host) dial(ctx context.Context, t *target, socket string) (net.Conn, error) {
	if t.network == "" {
		return h.cfg.Dial(ctx, socket)
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.ConnectTimeout)
	defer cancel()
	if t.identity != nil {
		return t.identity.dial(ctx, socket)
	}
	return (&net.Dialer{}).DialContext(ctx, t.network, socket)
}

// openOver opens a connection over a stream, with early answers or without. If it fails, unheard is why the stream
// ended before data came from the host: on a busy host a program may take long to find that it can't connect, and
// libvirt only sees that the stream ends.
func (h *Host) openOver(ctx context.Context, t *target, remote net.Conn, early bool) (c *conn, unheard, err error) {
	bridge, err := newSocketBridge(remote)
	if err != nil {
		return nil, nil, err
	}
	if early {
		bridge.answerEarly(func() { h.contradicts.Store(true) })
	}
	if t.network == "tcp" {
		bridge.refuseLogin()
	}
	if c, err = h.openWithin(ctx, t.withSocket(bridge.path()), bridge); err != nil {
		if bridge.loginRefused() {
			err = errSASL
		}
		return nil, bridge.endedUnheard(), err
	}
	return c, nil, nil
}

// connectTicks is how many times a connect timeout is looked at.
const connectTicks = 15

// openWithin opens a connection within the connect timeout, over a bridge unless that is nil. The time during which our
// own process was suspended doesn't count: the answer may have come meanwhile.
func (h *Host) openWithin(ctx context.Context, uri string, r *socketBridge) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
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
	tick := time.NewTicker(max(1, h.cfg.ConnectTimeout/connectTicks))
	defer tick.Stop()
	failure := context.DeadlineExceeded
	for missed := 0; missed < connectTicks; {
		select {
		case o := <-result:
			return o.c, o.err
		case <-tick.C:
			missed++
		case <-ctx.Done():
			missed, failure = connectTicks, ctx.Err()
		}
	}
	began := ""
	if r != nil {
		began = r.began()
		r.stop()
	}
	return nil, fmt.Errorf("no connection within %v%s: %w", h.cfg.ConnectTimeout, began, failure)
}

// reserveConnection opens a connection for one caller, on which beginCall has succeeded. The caller retires it.
func (h *Host) reserveConnection(ctx context.Context) (*conn, error) { return reserve(h.connect(ctx)) }

// reserveBridged is reserveConnection with a stream of our own, see connectBridged.
func (h *Host) reserveBridged(ctx context.Context) (*conn, error) {
	return reserve(h.connectBridged(ctx))
}

func reserve(c *conn, err error) (*conn, error) {
	if err != nil {
		return nil, err
	}
	if !c.beginCall() {
		c.retire()
		return nil, ErrUnreachable
	}
	return c, nil
}

// openLibvirt calls libvirt to open a connection. Only cutting the bridge can cancel the call.
func (h *Host) openLibvirt(uri string, r *socketBridge) (*conn, error) {
	h.counter.add("virConnectOpen")
	// Without an authentication callback libvirt never prompts on the terminal.
	lv, err := golibvirt.NewConnect(uri)
	if r != nil {
		r.connected()
	}
	if err != nil {
		if r != nil {
			r.stop()
			r.wait()
		}
		var lv golibvirt.Error
		switch fromDaemon := errors.As(err, &lv) && !ofClient[lv.Domain]; {
		case fromDaemon:
			err = fmt.Errorf("%w: %w", ErrRefused, err)
		case r == nil && h.target.local:
			err = fmt.Errorf("%w: %w", ErrNoDaemon, err)
		}
		return nil, err
	}
	c := &conn{
		host: h, c: lv, bridge: r, gone: make(chan struct{}), abandoned: make(chan struct{}),
		handles: map[string]*golibvirt.Domain{}, secrets: map[string]*golibvirt.Secret{},
	}
	switch {
	case r != nil:
		r.onEnd(c.markLost)
	case !h.target.inProcess:
		// This costs a round trip, which is not needed for our own stream.
		_ = lv.RegisterCloseCallback(func(*golibvirt.Connect, golibvirt.ConnectCloseReason) { c.markLost() })
	}
	// Drivers without a network connection refuse keepalive, and don't need it.
	switch {
	case h.target.inProcess:
	case r == nil:
		_ = lv.SetKeepAlive(keepaliveInterval, keepaliveCount)
	case h.cfg.quiet, lv.SetKeepAlive(keepaliveInterval, keepaliveNever) == nil:
		r.endWhenSilent()
	}
	h.connected.Store(true)
	h.log.Debug("connected to libvirt", "host", h.cfg.Name)
	return c, nil
}
