package meta

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

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

// TestReservations_plan: of two reservations that are planned, the later one learns of the earlier one. The plan of one
// waits for the one that has its value now, and learns whether that is kept. If it can't wait, the error comes with
// the plan of the other.
func TestReservations_plan(t *testing.T) {
	t.Parallel()
	var r Reservations
	errors := diag.Diagnostics{diag.NewErrorDiagnostic("taken", "")}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := PlannedReservation{ID: "lan/new", Network: "lan", DHCPHost: network.DHCPHost{MAC: "new", IP: "10.0.0.2"}}
	if earlier, _ := r.Plan(fresh, ""); len(earlier) != 0 {
		t.Errorf("earlier than the first: %v", earlier)
	}
	if r.AwaitPlan(late, "lan/had") || len(r.IfKept("lan/had", errors)) > 0 {
		t.Error("whether it is kept isn't known yet")
	}
	go r.Plan(PlannedReservation{ID: "lan/gets", Network: "lan"}, "lan/goes")
	if !r.AwaitPlan(t.Context(), "lan/goes") || len(r.IfKept("lan/goes", errors)) > 0 {
		t.Error("one that is replaced isn't kept")
	}
	kept := PlannedReservation{ID: "lan/had", Network: "lan", Owned: true, Kept: true}
	if earlier, waiting := r.Plan(kept, "lan/had"); len(earlier) != 2 || earlier[0] != fresh || len(waiting) != 1 {
		t.Errorf("planned earlier: %v; waiting errors: %v", earlier, waiting)
	}
	if !r.AwaitPlan(late, "lan/had") || len(r.IfKept("lan/had", errors)) != 1 {
		t.Error("it is kept")
	}
	if earlier, _ := r.Plan(PlannedReservation{Network: "wan"}, ""); len(earlier)+len(r.Planned("wan")) != 0 {
		t.Errorf("in another network: %v", earlier)
	}
}
