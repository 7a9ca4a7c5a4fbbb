package admission

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// othersInterval is how often those who wait look at what others move.
const othersInterval = 3 * time.Second

// Queue lets VMs leave as their priority and the limits say. One that has to wait for its hosts doesn't hold up one who
// goes between others.
type Queue struct {
	limits     Limits
	findOthers func(context.Context) map[string]Route

	// counting holds a token for the caller that counts. It guards counted.
	counting chan struct{}
	counted  time.Time

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

// NewQueue makes a queue that keeps the limits. findOthers reads what is on its way, whoever moves it, by UUID. Nil: no
// other run moves anything.
func NewQueue(l Limits, findOthers func(context.Context) map[string]Route) *Queue {
	return &Queue{
		limits: l.withDefaults(), findOthers: findOthers, counting: make(chan struct{}, 1),
		ours: newTraffic(), others: newTraffic(),
		uuids: make(map[string]int),
	}
}

// Limits returns those that it keeps.
func (q *Queue) Limits() Limits { return q.limits }

// Enter waits until a VM may move between the hosts. leave, which may be called more than once, makes room for the
// next.
func (q *Queue) Enter(ctx context.Context, uuid, from, to string, priority int) (leave func(), err error) {
	w := &waitingMove{uuid: uuid, from: from, to: to, priority: priority, admitted: make(chan struct{})}

	q.countOthers(ctx)
	q.mu.Lock()
	// Behind all that are as urgent.
	at := slices.IndexFunc(q.waiting, func(other *waitingMove) bool { return other.priority < priority })
	if at < 0 {
		at = len(q.waiting)
	}

	q.waiting = slices.Insert(q.waiting, at, w)
	q.admitWaiting()
	q.mu.Unlock()

	if q.awaitAdmission(ctx, w) {
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

// awaitAdmission waits until the move is admitted, and looks now and then whether others
// are through. It is false when ctx ends.
func (q *Queue) awaitAdmission(ctx context.Context, w *waitingMove) bool {
	for {
		var again <-chan time.Time
		if q.findOthers != nil {
			again = time.After(othersInterval)
		}

		select {
		case <-w.admitted:
			return true
		case <-ctx.Done():
			return false
		case <-again:
		}

		q.countOthers(ctx)
		q.mu.Lock()
		q.admitWaiting()
		q.mu.Unlock()
	}
}

// countOthers counts what others move, unless another caller just did. Whoever comes while that is found out waits for
// it.
func (q *Queue) countOthers(ctx context.Context) {
	if q.findOthers == nil {
		return
	}

	select {
	case q.counting <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-q.counting }()

	if !q.counted.IsZero() && time.Since(q.counted) < othersInterval/2 {
		return
	}

	q.mu.Lock()
	before := maps.Clone(q.uuids)
	q.mu.Unlock()

	all := q.findOthers(ctx)
	q.counted = time.Now()

	q.mu.Lock()
	defer q.mu.Unlock()

	q.others = newTraffic()

	for uuid, r := range all {
		if before[uuid] == 0 && q.uuids[uuid] == 0 {
			q.others.add(r.From, r.To, 1)
		}
	}
}

// admitWaiting lets go whoever may. The mutex must be held.
func (q *Queue) admitWaiting() {
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

	q.admitWaiting()
}

// Others says how many VMs others were seen to move.
func (q *Queue) Others() int {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.others.total
}

// Inbound is how many VMs are on their way to the host, or wait for that.
func (q *Queue) Inbound(to string) int {
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
