package libvirt

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lane separates calls by how long they may take.
type lane int

const (
	// quick calls are answered from what the daemon knows.
	quick lane = iota
	// slow calls wait for a guest or a hypervisor process.
	slow
	// agents calls wait for a guest agent, which may never answer.
	agents
	lanes
)

// crowded is the number of calls on every connection of a lane from which on another connection is opened. Quick calls
// are pipelined, and five at a time keep a daemon busy. A slow call requires a connection of its own, because five
// hanging calls would block a connection.
var crowded = [lanes]int{quick: 32, slow: 1, agents: 1}

// pool holds a host's connections.
type pool struct {
	host *Host
	max  [lanes]int

	mu     sync.Mutex
	closed bool
	slots  [lanes][]*slot
	vain   vainAttempt
}

// vainAttempt is the last attempt to connect that failed because the host didn't answer for long.
type vainAttempt struct {
	err   error // nil if there was none, or a later one succeeded
	ended time.Time
}

const (
	// longWait is how long an attempt in vain took at least that isn't waited for again.
	longWait = time.Second
	// vainMemory is for how long the host counts as silent after such an attempt. Whoever asks it later waits again.
	vainMemory = 30 * time.Second
)

// slot is a connection that is open or being opened. Several calls may wait for one that is being opened.
type slot struct {
	ready   chan struct{} // closed when conn or err is set
	conn    *conn
	err     error
	waiting int // calls that will use the connection while it is being opened
}

func newPool(h *Host) *pool {
	p := &pool{host: h}
	// A silent agent occupies a worker of the daemon as well as a place on its connection. A daemon has 20 workers by
	// default: two connections with five places each leave it half of them.
	p.max[agents] = max(1, h.cfg.MaxConnections/5)
	p.max[quick] = max(1, (h.cfg.MaxConnections-p.max[agents])/2)
	p.max[slow] = max(1, h.cfg.MaxConnections-p.max[agents]-p.max[quick])
	return p
}

// acquire returns a connection of the lane on which beginCall has succeeded.
func (p *pool) acquire(ctx context.Context, l lane) (*conn, error) {
	if p.host.target.inProcess {
		l = quick
	}
	for {
		s, err := p.pick(l)
		if err != nil {
			return nil, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			p.leave(s)
			return nil, contextCause(ctx)
		}
		p.leave(s)
		if s.err != nil {
			return nil, s.err
		}
		if s.conn.beginCall() {
			return s.conn, nil
		}
		// The connection broke or was given up in between; pick doesn't offer it again.
	}
}

// pick returns the least busy slot, and opens another if all are busy enough.
func (p *pool) pick(l lane) (*slot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	usable := p.slots[l][:0]
	var best, opening *slot
	var bestLoad int
	for _, s := range p.slots[l] {
		load, isOpening, ok := s.busyness()
		if !ok {
			s.retire()
			continue
		}
		usable = append(usable, s)
		switch {
		case isOpening && (opening == nil || load < opening.waiting):
			opening = s
		case !isOpening && (best == nil || load < bestLoad):
			best, bestLoad = s, load
		}
	}
	clear(p.slots[l][len(usable):])
	p.slots[l] = usable
	if best == nil && p.isSilent() {
		if !p.isConnecting() {
			p.open(l) // No call waits for it. If it succeeds, the next call gets the connection.
		}
		return nil, p.vain.err
	}

	limit := p.max[l]
	if p.host.target.inProcess {
		limit = 1
	}
	idle := best != nil && bestLoad < crowded[l]
	// Open one at a time for quick calls: they come in hundreds, and the open connections serve them well enough.
	mayOpen := len(usable) < limit && (opening == nil || (l != quick && opening.waiting >= crowded[l]))
	if !idle && mayOpen {
		opening = p.open(l)
	}
	chosen := best
	// A slow call waits for a connection of its own; a quick call doesn't wait if a connection is open.
	if chosen == nil || (l != quick && !idle && opening != nil && opening.waiting < bestLoad) {
		chosen = opening
	}
	chosen.waiting++
	return chosen, nil
}

// openAhead opens connections of a lane, in the background, until there are that many: opening one takes several round
// trips, for which calls that are about to come then don't wait. If it fails, the calls report why.
func (p *pool) openAhead(l lane, connections int) {
	if p.host.target.inProcess {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && len(p.slots[l]) < min(connections, p.max[l]) {
		p.open(l)
	}
}

// open adds a slot and fills it in the background. Only closing the host cancels that: the caller may leave while
// others wait for the slot. The caller holds the lock.
func (p *pool) open(l lane) *slot {
	s := &slot{ready: make(chan struct{})}
	p.slots[l] = append(p.slots[l], s)
	p.host.background.Go(func() {
		began := time.Now()
		conn, err := p.host.connect(p.host.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		s.conn, s.err = conn, err
		p.noteAttempt(began, err)
		if p.closed && conn != nil {
			conn.retire()
		}
		close(s.ready)
	})
	return s
}

// noteAttempt records the outcome of an attempt to connect. The caller holds the lock.
func (p *pool) noteAttempt(began time.Time, err error) {
	p.vain = vainAttempt{}
	now := time.Now()
	if now.Sub(began) >= longWait && errors.Is(p.host.wrap(connectCall("connecting"), err, true), ErrUnreachable) {
		p.vain = vainAttempt{err: err, ended: now}
	}
}

// isSilent reports whether the host counts as silent: an attempt to connect was in vain a moment ago. A host that has
// answered this process isn't silent before a whole reconnectWindow has passed: its calls wait for it that long. The
// caller holds the lock.
func (p *pool) isSilent() bool {
	return p.vain.err != nil && time.Since(p.vain.ended) < vainMemory && !p.host.connected.Load()
}

// isConnecting reports whether a connection of any lane is being opened. The caller holds the lock.
func (p *pool) isConnecting() bool {
	for _, lane := range p.slots {
		for _, s := range lane {
			if _, opening, _ := s.busyness(); opening {
				return true
			}
		}
	}
	return false
}

func (p *pool) leave(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waiting--
}

// busyness returns how busy a slot is and whether it can be used. The caller holds the pool's lock.
func (s *slot) busyness() (calls int, opening, usable bool) {
	select {
	case <-s.ready:
	default:
		return s.waiting, true, true
	}
	if s.err != nil {
		return 0, false, false
	}
	calls, usable = s.conn.busyness()
	return calls + s.waiting, false, usable
}

func (s *slot) retire() {
	if s.conn != nil {
		s.conn.retire()
	}
}

// close retires all connections and lets no new ones be opened.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for l := range p.slots {
		for _, s := range p.slots[l] {
			s.retire()
		}
		p.slots[l] = nil
	}
}
