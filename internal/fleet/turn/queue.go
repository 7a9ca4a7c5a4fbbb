package turn

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// lookInterval is how often those who wait look at what others move.
const lookInterval = 3 * time.Second

// Queue lets VMs leave as their priority and the limits say. One that has
// to wait for its hosts doesn't hold up one who goes between others.
type Queue struct {
	limits Limits
	look   func(context.Context) map[string]Route

	// looking holds a token for whoever looks. It guards looked.
	looking chan struct{}
	looked  time.Time

	mu sync.Mutex
	// ours is what moves from here, others what else was seen to.
	ours, others traffic
	// uuids are the VMs of ours, with how many moves each has.
	uuids map[string]int
	// waiting are in the order in which they are let go.
	waiting []*waitingMove
}

type waitingMove struct {
	uuid, from, to string
	priority       int
	// admitted is closed when it may go.
	admitted chan struct{}
}

// NewQueue makes a queue that keeps the limits. look reads what is on its way,
// whoever moves it, by UUID. Nil: no other run moves anything.
func NewQueue(l Limits, look func(context.Context) map[string]Route) *Queue {
	return &Queue{
		limits: l.withDefaults(), look: look, looking: make(chan struct{}, 1), ours: newTraffic(), others: newTraffic(),
		uuids: make(map[string]int),
	}
}

// Limits returns those that it keeps.
func (q *Queue) Limits() Limits { return q.limits }

// Enter waits until a VM may move between the hosts. leave, which may be
// called more than once, makes room for the next.
func (q *Queue) Enter(ctx context.Context, uuid, from, to string, priority int) (leave func(), err error) {
	w := &waitingMove{uuid: uuid, from: from, to: to, priority: priority, admitted: make(chan struct{})}

	q.lookAround(ctx)
	q.mu.Lock()
	// Behind all that are as urgent.
	at := slices.IndexFunc(q.waiting, func(other *waitingMove) bool { return other.priority < priority })
	if at < 0 {
		at = len(q.waiting)
	}

	q.waiting = slices.Insert(q.waiting, at, w)
	q.admit()
	q.mu.Unlock()

	if q.await(ctx, w) {
		return sync.OnceFunc(func() { q.leave(w) }), nil
	}

	q.mu.Lock()
	at = slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	q.mu.Unlock()

	if at < 0 { // It was admitted in the same moment.
		q.leave(w)
	}

	return nil, context.Cause(ctx)
}

// await waits until the move is admitted, and looks now and then whether others
// are through. It is false when ctx ends.
func (q *Queue) await(ctx context.Context, w *waitingMove) bool {
	for {
		var again <-chan time.Time
		if q.look != nil {
			again = time.After(lookInterval)
		}

		select {
		case <-w.admitted:
			return true
		case <-ctx.Done():
			return false
		case <-again:
		}

		q.lookAround(ctx)
		q.mu.Lock()
		q.admit()
		q.mu.Unlock()
	}
}

// lookAround counts what others move, unless another caller just did. Whoever comes
// while that is found out waits for it.
func (q *Queue) lookAround(ctx context.Context) {
	if q.look == nil {
		return
	}

	select {
	case q.looking <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-q.looking }()

	if !q.looked.IsZero() && time.Since(q.looked) < lookInterval/2 {
		return
	}

	q.mu.Lock()
	before := maps.Clone(q.uuids)
	q.mu.Unlock()

	all := q.look(ctx)
	q.looked = time.Now()

	q.mu.Lock()
	defer q.mu.Unlock()

	q.others = newTraffic()

	for uuid, r := range all {
		if before[uuid] == 0 && q.uuids[uuid] == 0 {
			q.others.add(r.From, r.To, 1)
		}
	}
}

// admit lets go whoever may. The mutex must be held.
func (q *Queue) admit() {
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waitingMove) bool {
		if !q.limits.allows(w.from, w.to, q.ours, q.others) {
			return false
		}

		q.ours.add(w.from, w.to, 1)
		q.uuids[w.uuid]++
		close(w.admitted)

		return true
	})
}

func (q *Queue) leave(w *waitingMove) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.ours.add(w.from, w.to, -1)

	if q.uuids[w.uuid]--; q.uuids[w.uuid] == 0 {
		delete(q.uuids, w.uuid)
	}

	q.admit()
}

// Others says how many VMs others were seen to move.
func (q *Queue) Others() int {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.others.total
}

// Heading is how many VMs are on their way to the host, or wait for that.
func (q *Queue) Heading(to string) int {
	q.mu.Lock()
	defer q.mu.Unlock()

	n := q.ours.inbound[to] + q.others.inbound[to]

	for _, w := range q.waiting {
		if w.to == to {
			n++
		}
	}

	return n
}
