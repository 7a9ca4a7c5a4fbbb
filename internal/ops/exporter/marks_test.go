package exporter

import (
	"context"
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// TestLab_drainShowsAtOnce: a tool that moves VMs itself may read from the metrics which ones are to leave, and which
// hosts are cordoned. So the mark, the cordon and the drain's state show at once, not when the definitions are read
// again a minute later.
func TestLab_drainShowsAtOnce(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	name := lab.Name(t)
	l.Define(t, h.Name, resting(t, h, name))
	startAll(t, l, h, []string{name})
	f := openFleet(t, h)
	elsewhere := evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "elsewhere"}, Strategy: evacuation.External,
	}
	if _, err := f.EvictionPolicies().Put(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	r := startOn(t, l, nil, h)
	// The minute may end meanwhile on a busy computer, but not each time.
	for range 3 {
		if drainShows(t, r, f, h, name) {
			return
		}
	}
	t.Error("a drain shows only once all definitions are read again")
}

// drainShows drains a host until the VM's mark shows, gives up, and uncordons the host. It returns whether all of that
// showed without another reading of all definitions.
func drainShows(t *testing.T, r *running, f *fleet.Fleet, h *lab.Host, name string) bool {
	t.Helper()
	vm, node := fmt.Sprintf("name=%q", name), fmt.Sprintf("node=%q", h.Name)
	readings := func(all scraped) float64 { return callsOf(all, h.Name)["virConnectListAllDomains"] }
	marked := func(all scraped) bool {
		return len(all.series("virtfleet_vm_condition", vm, `type="EvictionRequested"`, `status="True"`)) == 1
	}
	all, _ := r.scrape()
	before := readings(all)
	if marked(all) || all.one(t, "virtfleet_host_cordoned", node) != 0 {
		t.Fatal("nothing drains the host, and a scrape says so")
	}

	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	drained := make(chan error, 1)
	go func() {
		_, err := f.Drain(ctx, fleet.Drain{Host: h.Name, ID: "m", Why: "a test"})
		drained <- err
	}()
	lab.Await(t, "the mark", func() bool {
		all, _ = r.scrape()
		return marked(all)
	})
	if all.one(t, "virtfleet_host_cordoned", node) != 1 {
		t.Error("the VM is marked, and the host isn't cordoned")
	}
	all.one(t, "virtfleet_host_drain", node, `state="draining"`)

	giveUp()
	if err := <-drained; err == nil {
		t.Error("the drain ended well")
	}
	all, _ = r.scrape()
	all.one(t, "virtfleet_host_drain", node, `state="failed"`)
	lab.Await(t, "the mark to go", func() bool {
		all, _ = r.scrape()
		return !marked(all)
	})
	if err := f.Uncordon(t.Context(), h.Name, "m"); err != nil {
		t.Fatal(err)
	}
	all, _ = r.scrape()
	if all.one(t, "virtfleet_host_cordoned", node) != 0 {
		t.Error("the host is still cordoned")
	}
	return readings(all) == before
}
