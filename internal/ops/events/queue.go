package events

import (
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// backlog is how many events wait for a slow reader.
const backlog = 1024

// queue holds events between hosts, which don't wait, and one reader. What comes while it is full is only counted.
type queue struct {
	mu     sync.Mutex
	events []fleet.Event
	missed int
	ended  bool
	filled chan struct{} // capacity 1: there is something to take
}

func newQueue() *queue { return &queue{filled: make(chan struct{}, 1)} }

// put adds an event, if there is place. It never waits.
func (q *queue) put(e fleet.Event) {
	q.mu.Lock()
	if len(q.events) < backlog {
		q.events = append(q.events, e)
	} else {
		q.missed++
	}
	q.mu.Unlock()
	q.wake()
}

// end says that nothing more comes.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// takeAll waits for events and gives all there are, how many came after them that there was no place for, and whether
// more may come.
func (q *queue) takeAll() (events []fleet.Event, missed int, more bool) {
	<-q.filled
	q.mu.Lock()
	defer q.mu.Unlock()
	events, missed = q.events, q.missed
	q.events, q.missed = nil, 0
	return events, missed, !q.ended
}
