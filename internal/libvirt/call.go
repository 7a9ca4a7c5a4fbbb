package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	golibvirt "libvirt.org/go/libvirt"
)

// The limits of calls.
const (
	// bulkTimeout is the limit of a read of everything of one kind that a host has.
	bulkTimeout = time.Minute
	// readTimeout is far longer than a busy daemon needs, and shorter than a user would wait.
	readTimeout = 30 * time.Second
	// slowTimeout is long enough to start a domain on a busy host, and for another call to release a lock that it holds
	// for up to 30 s.
	slowTimeout = 2 * time.Minute
	// answerTimeout is how long a user who has interrupted an operation waits for a host that may hang.
	answerTimeout = 5 * time.Second
	// agentTimeout bounds one request to a guest agent; libvirt itself waits 5 s for the agent to synchronise.
	agentTimeout = 15 * time.Second
)

// reconnectWindow bounds the attempts to reconnect to a daemon that answered before: it is longer than a restart of the
// daemon takes. When it has passed in vain, the host is considered down, and each call tries once until the host
// answers again.
const reconnectWindow = 20 * time.Second

// dialLimit bounds the wait for a connection, for a Dial that sets no limit of its own. It is longer than a login that
// waits until a user touches a key.
const dialLimit = 2 * time.Minute

// callSpec describes a call.
type callSpec struct {
	operation string // for errors, such as "starting domain"
	lane      lane
	timeout   time.Duration // the limit of a call on an open connection, whatever deadline the caller has
	patient   bool          // it may take until the caller's deadline: timeout is for callers without one
	repeat    bool          // it changes nothing, so it may be repeated if its connection breaks
	writes    bool          // it changes something, so the guard in its context is asked right before it
	late      error         // the kind of error if the deadline expires
	agent     bool          // it is a request to the guest agent
	storage   *storageCall  // what it asks, if it is about storage: callStorage sets it
}

// readCall describes a call that only reads what the daemon knows.
func readCall(operation string) callSpec {
	return callSpec{operation: operation, lane: quick, timeout: readTimeout, repeat: true, late: ErrUnreachable}
}

// readingAll describes a call that reads everything of one kind that the daemon knows.
func readingAll(operation string) callSpec {
	s := readCall(operation)
	s.timeout = bulkTimeout
	return s
}

// connectCall describes the wait for a connection on behalf of an operation.
func connectCall(operation string) callSpec {
	return callSpec{operation: operation, late: ErrUnreachable}
}

// defineCall describes a call that changes what the daemon knows and doesn't wait for anything else.
func defineCall(operation string) callSpec {
	return callSpec{operation: operation, lane: quick, timeout: readTimeout, late: ErrUnreachable, writes: true}
}

// changeCall describes a call that changes something and may take long.
func changeCall(operation string) callSpec {
	return callSpec{operation: operation, lane: slow, timeout: slowTimeout, patient: true, late: ErrBusy, writes: true}
}

// agentCall describes a call that waits for a guest agent.
func agentCall(operation string) callSpec {
	return callSpec{
		operation: operation, lane: agents, timeout: agentTimeout, late: ErrAgentUnavailable, agent: true,
	}
}

// call runs f on a connection of the host and keeps what this package promises: it returns when ctx ends, reconnects
// with back-off, repeats a read whose connection broke, and returns errors of type *Error. The limit of the call begins
// once there is a connection: before that Dial and ConnectTimeout set the limits, because a login may wait for a user.
//
// f runs in its own goroutine and may outlive the caller, so it must share nothing with the caller except its result.
func call[T any](ctx context.Context, h *Host, s callSpec, f func(*conn) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := h.onClose(cancel)
	defer stop()
	repeat, silent := s.repeat, false
	attempt := func() (T, error) {
		c, err := h.acquire(ctx, s.lane)
		silent = err != nil
		if err != nil {
			var none T
			err = h.wrap(connectCall(s.operation), err, true)
			// A host that was never reached, or hasn't answered for a whole reconnectWindow, is more likely misspelt or down
			// than restarting: report that at once.
			if !h.connected.Load() || !errors.Is(err, ErrUnreachable) {
				err = backoff.Permanent(err)
			}
			return none, err
		}
		// Ask as late as possible: the wait for the connection may have been long.
		if err := s.checkGuard(ctx); err != nil {
			c.endCall(true)
			var none T
			return none, backoff.Permanent(err)
		}
		limited, done := h.withDeadline(ctx, s)
		defer done()
		value, lost, err := runCall(limited, h, c, s, f)
		if err == nil {
			h.connected.Store(true)
			return value, nil
		}
		err = h.wrap(s, err, lost)
		if again := lost && repeat && errors.Is(err, ErrUnreachable); !again {
			return value, backoff.Permanent(err)
		}
		repeat = false
		return value, err
	}
	value, err := retryCall(ctx, attempt)
	if silent && errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
		h.connected.Store(false) // The next caller shouldn't wait as long again.
		if s.storage != nil {
			s.storage.hostSilent = true
		}
	}
	return value, err
}

// retryCall repeats attempt until it succeeds or fails for good. When the time is over it returns the last failure, and
// not the context's error as backoff.Retry would: the user needs to know the failure.
func retryCall[T any](ctx context.Context, attempt func() (T, error)) (T, error) {
	var last error
	delay := backoff.NewExponentialBackOff()
	delay.InitialInterval = 50 * time.Millisecond
	delay.MaxInterval = 2 * time.Second
	value, err := backoff.Retry(ctx, func() (T, error) {
		if last != nil && ctx.Err() != nil {
			var none T
			return none, backoff.Permanent(last) // Another attempt would report nothing new.
		}
		value, err := attempt()
		last = err
		return value, err
	}, backoff.WithBackOff(delay), backoff.WithMaxElapsedTime(reconnectWindow))
	if err == nil {
		return value, nil
	}
	var permanent *backoff.PermanentError
	if errors.As(last, &permanent) {
		return value, permanent.Unwrap()
	}
	return value, last
}

// acquire returns a connection of the lane on which beginCall has succeeded.
func (h *Host) acquire(ctx context.Context, l lane) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	return h.pool.acquire(ctx, l)
}

// withDeadline sets the deadline of a call, and cancels the call when the host is closed. A call never holds up a long
// operation for longer than the call's own limit: the caller's deadline replaces that limit only for patient calls.
func (h *Host) withDeadline(ctx context.Context, s callSpec) (context.Context, context.CancelFunc) {
	timeout := s.timeout
	if _, ok := ctx.Deadline(); ok && s.patient {
		timeout = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	stop := h.onClose(cancel)
	return ctx, func() { stop(); cancel() }
}

// runCall is runOn for a call of that kind.
func runCall[T any](
	ctx context.Context, h *Host, c *conn, s callSpec, f func(*conn) (T, error),
) (value T, lost bool, err error) {
	if s.storage != nil {
		return runInStorage(ctx, h, c, s, f)
	}
	return runOn(ctx, c, f)
}

// runOn runs f on a connection that was acquired, and returns when f or ctx ends. lost reports whether the connection
// broke. f may use further connections, on which beginCall has succeeded as well.
func runOn[T any](
	ctx context.Context, c *conn, f func(*conn) (T, error), further ...*conn,
) (value T, lost bool, err error) {
	return runOrLeave(ctx, c, f, (*conn).giveUp, further...)
}

// runOrLeave is runOn, and calls leave with each connection if ctx ends first.
func runOrLeave[T any](
	ctx context.Context, c *conn, f func(*conn) (T, error), leave func(*conn), further ...*conn,
) (value T, lost bool, err error) {
	type outcome struct {
		value T
		lost  bool
		err   error
	}
	each := func(do func(*conn)) {
		do(c)
		for _, other := range further {
			do(other)
		}
	}
	if ctx.Err() != nil {
		each(func(c *conn) { c.endCall(true) })
		return value, false, contextCause(ctx)
	}
	start := time.Now()
	result := make(chan outcome, 1)
	var settled atomic.Bool // set by the first of two: the call that ended, or the caller that left
	each(func(c *conn) { c.host.background.add() })
	go func() {
		defer each(func(c *conn) { c.host.background.done() })
		value, err := f(c)
		o := outcome{value: value, lost: err != nil && c.isLost(), err: err}
		awaited := settled.CompareAndSwap(false, true)
		// Do this before the caller gets the result: its next call should find this connection free and not open another.
		each(func(c *conn) { c.endCall(awaited) })
		result <- o
	}()
	select {
	case o := <-result:
		return o.value, o.lost, o.err
	case <-ctx.Done():
	}
	if !settled.CompareAndSwap(false, true) {
		o := <-result
		return o.value, o.lost, o.err
	}
	each(leave)
	return value, false, fmt.Errorf("no answer for %v: %w", time.Since(start).Round(time.Millisecond), contextCause(ctx))
}

// contextCause returns why ctx has ended, including the cause if there is one.
func contextCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && errors.Is(cause, context.DeadlineExceeded):
		return cause // It can say whose limit it was.
	case errors.Is(cause, ctx.Err()):
		return ctx.Err()
	case errors.Is(ctx.Err(), context.Canceled):
		return &stoppedError{cause}
	default:
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
}

// stoppedError says why a call was given up that no user has cancelled, for example because a lease was lost. It also
// is context.Canceled, for callers that only ask whether the host refused.
type stoppedError struct{ cause error }

func (e *stoppedError) Error() string { return e.cause.Error() }

func (e *stoppedError) Unwrap() []error { return []error{e.cause, context.Canceled} }

// onDomain runs f on a domain. It returns ErrNotFound if the host has no such domain.
func onDomain[T any](
	ctx context.Context, h *Host, s callSpec, uuid string, f func(*conn, *golibvirt.Domain) (T, error),
) (T, error) {
	return call(ctx, h, s, func(c *conn) (T, error) {
		d, err := c.domainHandle(uuid)
		if err != nil {
			var none T
			return none, err
		}
		return f(c, d)
	})
}

// runOnDomain runs a procedure without a result on a domain.
func (h *Host) runOnDomain(
	ctx context.Context, s callSpec, uuid, procedure string, f func(*golibvirt.Domain) error,
) error {
	_, err := onDomain(ctx, h, s, uuid, func(c *conn, d *golibvirt.Domain) (struct{}, error) {
		c.countCall(procedure)
		return struct{}{}, f(d)
	})
	return err
}

// counter counts calls by procedure.
type counter struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counter) add(procedure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[procedure]++
}

func (c *counter) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		return map[string]int{}
	}
	return maps.Clone(c.calls)
}
