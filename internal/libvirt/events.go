package libvirt

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// eventBuffer is the number of events that a subscriber may be behind before it is told that it missed events.
const eventBuffer = 256

// EventKind says what an Event is about.
type EventKind int

// The kinds of events.
const (
	// EventLost says that events were missed, because the connection broke or the subscriber was too slow: the subscriber
	// must read the state instead. It comes when the connection breaks and again when events flow again. Detail is
	// LostConnection, LostUntilNow or LostBehind.
	EventLost EventKind = iota
	// EventLifecycle is a change of state: Detail is "Started", "Stopped", ..., Reason is the event's detail in libvirt.
	EventLifecycle
	// EventReboot says that the guest rebooted itself.
	EventReboot
	// EventAgent says that the agent's channel was "Connected" or "Disconnected": Detail.
	EventAgent
	// EventJobCompleted says that the job Operation, such as a migration, has ended; Detail is "Completed" or "Failed" if
	// libvirt reports the outcome, Reason its message.
	EventJobCompleted
	// EventDeviceAdded says that a device was attached: Device is its alias.
	EventDeviceAdded
	// EventDeviceRemoved says that the guest has released a device: Device is its alias.
	EventDeviceRemoved
	// EventDeviceRemovalFailed says that the guest refused to release a device: Device is its alias.
	EventDeviceRemovalFailed
	// EventMigrationIteration says that a migration began another pass over the memory: Iteration is its number.
	EventMigrationIteration
	// EventIOError says that a disk failed: Device is its alias, Detail the action ("None", "Pause", "Report"), Reason
	// what libvirt knows about the cause, such as "enospc".
	EventIOError
	// EventBlockJob reports the state of the job Operation ("Copy", "Commit", ...) of the disk Device: Detail is "Ready"
	// for a job that waits to be completed, "Completed", "Failed" or "Canceled".
	EventBlockJob
	// EventTray says that the tray of the drive Device is "Open" or "Closed": Detail.
	EventTray
	// EventWatchdog says that the guest's watchdog expired: Detail is the action, such as "Reset".
	EventWatchdog
	// EventMemoryFailure says that memory of the host is broken: Reason is whose, "Guest" or "Hypervisor", Detail the
	// action, such as "Fatal".
	EventMemoryFailure
	// EventMetadata says that title, description or metadata changed; Reason is the metadata's namespace.
	EventMetadata
)

var eventKindNames = [...]string{
	EventLost: "Lost", EventLifecycle: "Lifecycle", EventReboot: "Reboot", EventAgent: "Agent",
	EventJobCompleted: "JobCompleted", EventDeviceAdded: "DeviceAdded", EventDeviceRemoved: "DeviceRemoved",
	EventDeviceRemovalFailed: "DeviceRemovalFailed", EventMigrationIteration: "MigrationIteration",
	EventIOError: "IOError", EventBlockJob: "BlockJob", EventTray: "Tray", EventWatchdog: "Watchdog",
	EventMemoryFailure: "MemoryFailure", EventMetadata: "Metadata",
}

// String returns the name of the kind.
func (k EventKind) String() string { return nameAt(eventKindNames[:], int(k)) }

// The values of Detail of EventLost.
const (
	// LostConnection says that the connection broke. It is opened again while there are subscribers.
	LostConnection = "Disconnected"
	// LostUntilNow says that the connection is open again, and events flow again.
	LostUntilNow = "Reconnected"
	// LostBehind says that the subscriber was too slow.
	LostBehind = "Behind"
)

// Event is something that happened to a domain. An event is a reason to read the domain, and never describes its state
// completely.
type Event struct {
	Kind      EventKind
	UUID      string // the domain; "" for EventLost
	Name      string
	Detail    string
	Reason    string
	Device    string
	Operation string
	Iteration int
}

// Subscribe delivers the events of one domain, or of all if uuid is "". It returns when events are flowing. From then
// on ctx's deadline doesn't matter; its end closes the channel. A lost connection is opened again while there are
// subscribers.
func (h *Host) Subscribe(ctx context.Context, uuid string) (<-chan Event, error) {
	s := &subscription{uuid: uuid, events: make(chan Event, eventBuffer)}
	start, err := h.events.add(s)
	if err != nil {
		return nil, h.wrap(connectCall("subscribing to events"), err, false)
	}
	select {
	case <-start.done:
		err = start.err
	case <-ctx.Done():
		err = contextCause(ctx)
	}
	if err != nil {
		h.events.remove(s)
		return nil, h.wrap(connectCall("subscribing to events"), err, true)
	}
	context.AfterFunc(ctx, func() { h.events.remove(s) })
	return s.events, nil
}

// subscription is one subscriber.
type subscription struct {
	uuid   string
	events chan Event
	behind bool // events were dropped since the subscriber last caught up
}

// events keeps one connection on which libvirt delivers events, while there are subscribers.
type events struct {
	host *Host

	mu            sync.Mutex
	closed        bool
	subscriptions map[*subscription]struct{}
	start         *start        // nil while nothing serves
	conn          *conn         // nil while there is none
	broken        chan struct{} // capacity 1: conn broke
}

// start is the first connection of a run of serve, which subscribers wait for.
type start struct {
	done chan struct{}
	err  error
}

func (e *events) add(s *subscription) (*start, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	if e.subscriptions == nil {
		e.subscriptions = map[*subscription]struct{}{}
	}
	e.subscriptions[s] = struct{}{}
	if e.start == nil {
		e.start = &start{done: make(chan struct{})}
		e.broken = make(chan struct{}, 1)
		first := e.start
		e.host.background.Go(func() { e.serve(first) })
	}
	return e.start, nil
}

func (e *events) remove(s *subscription) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.subscriptions[s]; ok {
		delete(e.subscriptions, s)
		close(s.events)
	}
}

// close ends all subscriptions. The host's context has ended, so serve ends too.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for s := range e.subscriptions {
		delete(e.subscriptions, s)
		close(s.events)
	}
}

// connectionLost may be called for any connection, and from libvirt's event loop, so it must not block.
func (e *events) connectionLost(c *conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == c {
		select {
		case e.broken <- struct{}{}:
		default:
		}
	}
}

// deliver passes an event to its subscribers. It runs in libvirt's event loop and never blocks: a subscriber whose
// buffer is full gets EventLost as its last event and nothing more until it has caught up.
func (e *events) deliver(event Event) {
	if isCopier(event.Name, event.UUID) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for s := range e.subscriptions {
		if event.Kind != EventLost && s.uuid != "" && s.uuid != event.UUID {
			continue
		}
		// Only this function sends, so a place that is free stays free.
		switch free := cap(s.events) - len(s.events); {
		case free > 1 || (free == 1 && event.Kind == EventLost && !s.behind):
			s.behind = event.Kind == EventLost && free == 1
			s.events <- event
		case free == 1 && !s.behind:
			s.behind = true
			s.events <- Event{Kind: EventLost, Detail: LostBehind}
		}
	}
}

// serve connects, waits for the connection to break, and connects again while there are subscribers.
func (e *events) serve(first *start) {
	ctx := e.host.ctx
	c, err := e.connectAndRegister(ctx)
	first.err = err
	if !e.adoptConnection(c) {
		close(first.done)
		return
	}
	close(first.done)
	for {
		select {
		case <-e.broken:
		case <-ctx.Done():
			c.retire()
			return
		}
		c.retire()
		e.deliver(Event{Kind: EventLost, Detail: LostConnection})
		if c = e.reconnect(ctx); !e.adoptConnection(c) {
			return
		}
		e.deliver(Event{Kind: EventLost, Detail: LostUntilNow})
	}
}

// adoptConnection makes a connection the current one. If there is none the run is over, and the next subscriber starts
// another.
func (e *events) adoptConnection(c *conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn = c
	if c == nil {
		e.start = nil
		return false
	}
	select {
	case <-e.broken: // A late second signal for the last connection: don't give up this one for it.
	default:
	}
	if c.isBroken() {
		// The connection broke before connectionLost could know that it is ours.
		select {
		case e.broken <- struct{}{}:
		default:
		}
	}
	return true
}

// errUnwanted ends the attempts to reconnect.
var errUnwanted = errors.New("no listener")

// reconnect tries until it succeeds; it returns nil when there is no subscriber any more.
func (e *events) reconnect(ctx context.Context) *conn {
	delay := backoff.NewExponentialBackOff()
	delay.InitialInterval = 100 * time.Millisecond
	delay.MaxInterval = 5 * time.Second
	var denied time.Duration
	c, err := backoff.Retry(ctx, func() (*conn, error) {
		e.mu.Lock()
		wanted := len(e.subscriptions) > 0
		e.mu.Unlock()
		if !wanted {
			return nil, backoff.Permanent(errUnwanted)
		}
		c, err := e.connectAndRegister(ctx)
		if isDenied(err) {
			// A host may lock out clients that it has to refuse again and again.
			denied = min(max(2*denied, deniedDelay), maxDeniedDelay)
			return nil, backoff.RetryAfter(int(denied.Seconds()))
		}
		return c, err
	}, backoff.WithBackOff(delay), backoff.WithMaxElapsedTime(0))
	if err != nil {
		return nil
	}
	return c
}

// How long to wait before connecting again to a host that refused us, at first and at most.
const (
	deniedDelay    = time.Minute
	maxDeniedDelay = time.Hour
)

func isDenied(err error) bool {
	return errors.Is(err, ErrDenied) || err != nil && errors.Is(kindOf(codeOf(err)), ErrDenied)
}

// connectAndRegister opens a connection for events and registers for all kinds of events on it.
func (e *events) connectAndRegister(ctx context.Context) (*conn, error) {
	c, err := e.openConnection(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.host.cfg.ConnectTimeout)
	defer cancel()
	_, lost, err := runOn(ctx, c, func(c *conn) (struct{}, error) { return struct{}{}, c.registerEvents() })
	if err != nil {
		c.retire()
		return nil, e.host.wrap(connectCall("registering for events"), err, lost)
	}
	return c, nil
}

// openConnection returns a connection on which beginCall has succeeded. The test driver's only connection is shared.
func (e *events) openConnection(ctx context.Context) (*conn, error) {
	if e.host.target.inProcess {
		return e.host.pool.acquire(ctx, quick)
	}
	return e.host.reserveConnection(ctx)
}
