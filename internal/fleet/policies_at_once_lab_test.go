package fleet

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// Two runs write policies at the same time. Of two policies of one name, one is written, and the other is refused, also
// by a run that has read the hosts before. Policies of other names are all written. If both runs change one policy, all
// hosts have the same one afterwards.
func TestLab_policiesOfTwoRunsAtOnce(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	hosts := []*lab.Host{l.StartHost(t), l.StartHost(t)}
	reader := ownFleet(t, "carol", hosts...)
	runs := map[string]*Fleet{"alice": ownFleet(t, "alice", hosts...), "bob": ownFleet(t, "bob", hosts...)}

	for _, f := range runs {
		if _, err := f.Records(t.Context()); err != nil { // As a plan does.
			t.Fatal(err)
		}
	}

	// both has each run write a policy, and returns the errors.
	both := func(of func(run string) evacuation.Policy) (errs []error) {
		var (
			wg sync.WaitGroup
			mu sync.Mutex
		)

		for run, f := range runs {
			wg.Go(func() {
				_, err := f.EvictionPolicies().Put(t.Context(), of(run))

				mu.Lock()
				defer mu.Unlock()

				errs = append(errs, err)
			})
		}

		fleettest.AwaitAll(t, &wg)

		return errs
	}
	strategies := map[string]string{"alice": evacuation.None, "bob": "LiveMigrate"}
	// on returns the policies of that name that a host has.
	on := func(h *lab.Host, name string) (found []evacuation.Policy) {
		t.Helper()

		record, _, err := inventory.ReadRecord(t.Context(), reader.Host(h.Name))
		if err != nil {
			t.Fatal(err)
		}

		for _, p := range record.EvictionPolicies {
			if p.Name == name {
				found = append(found, p)
			}
		}

		return found
	}
	// oneEverywhere wants that all hosts have one policy of that name, and the same.
	oneEverywhere := func(name string) {
		t.Helper()

		first, second := on(hosts[0], name), on(hosts[1], name)
		if len(first) != 1 || len(second) != 1 || first[0].ID != second[0].ID || !policy.Same(first[0], second[0]) {
			t.Errorf("%s: the hosts have %+v and %+v; want one and the same", name, first, second)
		}
	}

	for round := range 3 {
		name := fmt.Sprintf("same-%d", round)
		refused := 0

		for _, err := range both(func(run string) evacuation.Policy {
			return evacuation.Policy{
				Identity: policy.Identity{ID: run + "-" + name, Name: name}, Strategy: strategies[run],
			}
		}) {
			switch {
			case errors.Is(err, inventory.ErrExists):
				refused++
			case err != nil:
				t.Errorf("%s: %v", name, err)
			}
		}

		if refused != 1 {
			t.Errorf("%s: %d runs were refused; want one", name, refused)
		}

		oneEverywhere(name)

		for _, err := range both(func(run string) evacuation.Policy {
			return evacuation.Policy{Identity: policy.Identity{ID: run + name, Name: run + name}, Strategy: strategies[run]}
		}) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}

		oneEverywhere("alice" + name)
		oneEverywhere("bob" + name)

		id := policy.Identity{ID: "shared", Name: "shared"}

		for _, err := range both(func(run string) evacuation.Policy {
			return evacuation.Policy{Identity: id, Strategy: strategies[run]}
		}) {
			if err != nil {
				t.Errorf("shared: %v", err)
			}
		}

		oneEverywhere("shared")
	}
}
