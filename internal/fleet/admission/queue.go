package admission

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// othersInterval is how often waiting moves check the moves of other runs.
const othersInterval = 3 * time.Second

// Queue admits moves by their priority and the limits. A move that has to wait for its hosts doesn't delay moves
// between other hosts.
type Queue struct {
	limits     Limits
	findOthers func(context.Context) map[string]Route

	// counting holds a token for the caller that counts. It guards counted.
	counting chan struct{}
	counted  time.Time

	mu sync.Mutex
	// ours are the moves of this run, others the remaining moves that were seen.
	ours, others traffic
	// uuids are the VMs of ours, with the number of each VM's moves.
	uuids map[string]int
	// waiting are the waiting moves, in the order in which they are admitted.
	waiting []*waitingMove
}

type waitingMove struct {
	uuid, from, to string
	priority       int
	// admitted is closed when the move may begin.
	admitted chan struct{}
}

// NewQueue returns a queue that enforces the limits. findOthers returns all moves that are in progress, by the VM's
// UUID, whichever run or user started them. If it is nil, no other run moves VMs.
func NewQueue(l Limits, findOthers func(context.Context) map[string]Route) *Queue {
	return &Queue{
		limits: l.withDefaults(), findOthers: findOthers, counting: make(chan struct{}, 1),
		ours: newTraffic(), others: newTraffic(),
		uuids: make(map[string]int),
	}
}

// Limits returns the limits that the queue enforces.
func (q *Queue) Limits() Limits { return q.limits }

// Enter waits until a VM may move between the hosts. leave, which may be called more than once, makes room for the next
// move.
func (q *Queue) Enter(ctx context.Context, uuid, from, to string, priority int) (leave func(), err error) {
	w := &waitingMove{uuid: uuid, from: from, to: to, priority: priority, admitted: make(chan struct{})}

	q.countOthers(ctx)
	q.mu.Lock()
	// It comes after all moves with the same priority.
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

	if at < 0 { // it was admitted at the same moment
		q.leave(w)
	}

	return nil, context.Cause(ctx)
}

// awaitAdmission waits until the move is admitted, and checks from time to time whether other runs' moves have ended.
// It returns false if ctx ends.
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

// countOthers counts the moves of other runs and users, unless another caller just did. A caller that comes during a
// count waits for its end.
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

// admitWaiting admits every move that may begin. The caller holds the mutex.
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

// Others returns how many moves of other runs and users were seen.
func (q *Queue) Others() int {
	q.mu.Lock()
	defer q.mu.Unlock()

	return q.others.total
}

// Inbound returns how many VMs are being moved to the host, or wait for that.
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
