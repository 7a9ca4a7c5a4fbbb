package meta

import (
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// Reservations are the DHCP reservations, by their ids, that resources had, replaced or added since the provider was
// configured.
type Reservations struct {
	mu                          sync.Mutex
	had, replaced, adding, kept map[string]bool
	// changing are the reservations that are being changed, with those that each change waits for.
	changing map[string][]string
	// waiting are errors that hold if the plan keeps a reservation as it is.
	waiting map[string]diag.Diagnostics
}

// Had records a reservation that a resource in the state has.
func (r *Reservations) Had(id string) { r.record(&r.had, id) }

// IsHad reports whether a resource in the state has the reservation.
func (r *Reservations) IsHad(id string) bool { return r.is(&r.had, id) }

// Replaced records a reservation in whose place its resource gets another one.
func (r *Reservations) Replaced(id string) { r.record(&r.replaced, id) }

// IsReplaced reports whether the resource of a reservation gets another one in its place.
func (r *Reservations) IsReplaced(id string) bool { return r.is(&r.replaced, id) }

// Kept records a reservation that the plan keeps as it is. It returns the errors of other resources that hold for that
// reason.
func (r *Reservations) Kept(id string) diag.Diagnostics {
	r.record(&r.kept, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	errors := r.waiting[id] // IfKept adds none from here on.
	delete(r.waiting, id)
	return errors
}

// IfKept returns errors that hold if the plan keeps a reservation as it is. If that isn't known yet, Kept returns them.
func (r *Reservations) IfKept(id string, errors diag.Diagnostics) diag.Diagnostics {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[id] {
		return errors
	}
	if r.waiting == nil {
		r.waiting = map[string]diag.Diagnostics{}
	}
	r.waiting[id] = append(r.waiting[id], errors...)
	return nil
}

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
// reports whether all of these are being changed, too, and then whether another change waits for this one.
func (r *Reservations) Awaits(id string, others []string) (change, awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changing[id] = others
	for _, other := range others {
		if _, changes := r.changing[other]; !changes {
			return false, false
		}
	}
	for of, waitsFor := range r.changing {
		awaited = awaited || of != id && slices.Contains(waitsFor, id)
	}
	return true, awaited
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
