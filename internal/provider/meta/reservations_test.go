package meta

import "testing"

// TestReservations_awaits: of changes that wait for each other, each learns that it is awaited. A change that waits for
// a reservation that isn't changed isn't told to give way, and neither is one that those it waits for don't wait for.
func TestReservations_awaits(t *testing.T) {
	t.Parallel()
	var r Reservations
	for _, id := range []string{"a", "b", "c", "d"} {
		defer r.Changing(id)()
	}
	ended := r.Changing("ended")
	ended()
	for _, c := range []struct {
		id, other       string
		change, awaited bool
	}{
		{"a", "b", true, false}, // nothing waits yet
		{"b", "c", true, false}, // a waits for b, which is made once c has another address
		{"c", "a", true, true},  // three rotate
		{"a", "b", true, true},
		{"d", "a", true, false}, // nothing waits for d
		{"a", "by hand", false, false},
		{"a", "ended", false, false},
	} {
		if change, awaited := r.Awaits(c.id, []string{c.other}); change != c.change || awaited != c.awaited {
			t.Errorf("%s waits for %s: changed %t, awaited %t, want %t, %t", c.id, c.other, change, awaited, c.change, c.awaited)
		}
	}
}
