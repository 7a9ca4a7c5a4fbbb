package events

import (
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
)

// backlog is how many events are kept for a slow reader.
const backlog = 1024

// queue passes events from the hosts, which never wait, to one reader. Events that come while it is full are only
// counted.
type queue struct {
	mu     sync.Mutex
	events []fleet.Event
	missed int
	ended  bool
	filled chan struct{} // capacity 1: there is something to take
}

func newQueue() *queue { return &queue{filled: make(chan struct{}, 1)} }

// put adds an event if there is room. It never blocks.
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

// end marks the end of the queue: no more events come.
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

// takeAll waits for events. It returns all events in the queue, how many came after them for which there was no room,
// and whether more may come.
func (q *queue) takeAll() (events []fleet.Event, missed int, more bool) {
	<-q.filled
	q.mu.Lock()
	defer q.mu.Unlock()
	events, missed = q.events, q.missed
	q.events, q.missed = nil, 0
	return events, missed, !q.ended
}
