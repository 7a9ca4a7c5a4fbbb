package meta

import "sync"

// Reservations are the DHCP reservations, by their ids, that resources had, replaced or added since the provider was
// configured.
type Reservations struct {
	mu                    sync.Mutex
	had, replaced, adding map[string]bool
	// changing are the reservations that are being changed, with those that each change waits for.
	changing map[string][]string
	plans    reservationPlans
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

// Changing records that a resource changes its reservation. done must be called afterwards.
func (r *Reservations) Changing(id string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changing == nil {
		r.changing = map[string][]string{}
	}
	r.changing[id] = nil
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.changing, id)
	}
}

// Awaits records that the change of a reservation waits for others, because they have a value that it is to get. It
// reports whether all of these are being changed, too, and then whether one of them waits for this one in turn, itself
// or through others. Otherwise this one is made once the others have ended, as in a shift of addresses to a free one.
func (r *Reservations) Awaits(id string, others []string) (change, awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changing[id] = others
	for _, other := range others {
		if _, changes := r.changing[other]; !changes {
			return false, false
		}
	}
	return true, r.reaches(others, id, map[string]bool{})
}

// reaches reports whether one of the changes is that of id, or waits for it. seen are those that were looked at.
func (r *Reservations) reaches(changes []string, id string, seen map[string]bool) bool {
	for _, change := range changes {
		if change == id {
			return true
		}
		if !seen[change] {
			seen[change] = true
			if r.reaches(r.changing[change], id, seen) {
				return true
			}
		}
	}
	return false
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
