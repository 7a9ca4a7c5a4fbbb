package meta

import "sync"

// Reservations are the DHCP reservations, by their ids, that resources had, replaced or added since the provider was
// configured.
type Reservations struct {
	mu                    sync.Mutex
	had, replaced, adding map[string]bool
}

// Had records a reservation that a resource in the state has.
func (r *Reservations) Had(id string) { r.record(&r.had, id) }

// IsHad reports whether a resource in the state has the reservation.
func (r *Reservations) IsHad(id string) bool { return r.is(&r.had, id) }

// Replaced records a reservation in whose place its resource gets another one.
func (r *Reservations) Replaced(id string) { r.record(&r.replaced, id) }

// IsReplaced reports whether the resource of a reservation gets another one in its place.
func (r *Reservations) IsReplaced(id string) bool { return r.is(&r.replaced, id) }

// Adding records a reservation that a resource adds, and reports whether another resource has added it before. A
// resource that failed calls undo.
func (r *Reservations) Adding(id string) (undo func(), again bool) {
	if r.record(&r.adding, id) {
		return func() {}, true
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.adding, id)
	}, false
}

func (r *Reservations) record(all *map[string]bool, id string) (was bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was = (*all)[id]
	if *all == nil {
		*all = map[string]bool{}
	}
	(*all)[id] = true
	return was
}

func (r *Reservations) is(all *map[string]bool, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return (*all)[id]
}
