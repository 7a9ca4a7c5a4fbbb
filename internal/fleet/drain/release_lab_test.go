package drain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// coldMoved is the step of a VM that was moved to that host while it was off.
func coldMoved(uuid, name string, to *lab.Host, ran bool) hostrecord.RecordedStep {
	s := hostrecord.RecordedStep{Result: hostrecord.ResultColdMoved, Ran: ran}
	s.UUID, s.Name, s.Method, s.Target = uuid, name, evacuation.MethodCold, to.Name

	return s
}

// maintained records that a maintenance has drained the host by these steps.
func maintained(t *testing.T, f *fleet.Fleet, host *lab.Host, steps ...hostrecord.RecordedStep) {
	t.Helper()

	if err := f.Cordon(t.Context(), host.Name, "m", "a test"); err != nil {
		t.Fatal(err)
	}

	if err := f.ChangeRecord(t.Context(), f.Host(host.Name), func(r *hostrecord.Record) error {
		r.Evacuation = &hostrecord.Evacuation{Since: time.Now(), Done: true, Steps: steps}

		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The end of a maintenance shuts a guest down only if an eviction policy still allows that, and the plan says so
// before. A VM that is off is moved back in any case.
func TestLab_endShutsDownOnlyWhatPoliciesAllow(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	running, stopped := lab.Name(t)+"-on", lab.Name(t)+"-off"
	on := small(t, l, to, running, "")
	off := small(t, l, to, stopped, "")
	l.Virsh(t, to.Name, "destroy", off)

	id := strings.TrimSpace(l.Virsh(t, to.Name, "domid", on))
	allowed := evacuation.Policy{
		Identity: policy.Identity{ID: "1", Name: "cold", Selector: policy.Selector{Names: []string{running}}},
		Strategy: evacuation.LiveMigrate, Fallback: evacuation.ColdMigrate,
	}

	if _, err := f.EvictionPolicies().Put(t.Context(), allowed); err != nil {
		t.Fatal(err)
	}

	maintained(t, f, from, coldMoved(on, running, to, true), coldMoved(off, stopped, to, false))

	back := `virtual machine "` + stopped + `" is moved back to host "` + from.Name + `" while it is off`

	p, err := f.PlanRelease(t.Context(), from.Name, "m", true)
	if want := []string{
		`virtual machine "` + running + `" is shut down, moved back to host "` + from.Name + `", and started there`, back,
	}; err != nil || !slices.Equal(p.Restored, want) || p.Unrestored != nil {
		t.Errorf("planned %+v, %v; want %q", p, err, want)
	}

	for id, restore := range map[string]bool{"m": false, "another": true} {
		if p, err := f.PlanRelease(t.Context(), from.Name, id, restore); err != nil || p.Restored != nil {
			t.Errorf("the end of %s, restoring %v: planned %+v, %v; want nothing", id, restore, p, err)
		}
	}

	change := func(do func(*hostrecord.Evacuation)) {
		t.Helper()

		if err := f.ChangeRecord(t.Context(), f.Host(from.Name), func(r *hostrecord.Record) error {
			do(r.Evacuation)

			return nil
		}); err != nil {
			t.Error(err)
		}
	}

	// What an incomplete drain moved stays away, except for what an earlier complete one of the same maintenance moved.
	change(func(e *hostrecord.Evacuation) { e.Done, e.Steps[1].Completed = false, true })

	p, err = f.PlanRelease(t.Context(), from.Name, "m", true)
	if want := []string{
		`virtual machine "` + running + `" was moved to host "` + to.Name + `" by a drain that was not completed, and ` +
			`isn't moved back`,
	}; err != nil || !slices.Equal(p.Restored, []string{back}) || !slices.Equal(p.Unrestored, want) {
		t.Errorf("after an incomplete drain: planned %+v, %v; want not restored: %q", p, err, want)
	}

	p, err = f.PlanRelease(t.Context(), from.Name, "m", false)
	if err != nil || p.Restored != nil || p.Unrestored != nil {
		t.Errorf("after an incomplete drain, restoring nothing: planned %+v, %v; want nothing", p, err)
	}

	change(func(e *hostrecord.Evacuation) { e.Done, e.Steps[1].Completed = true, false })

	allowed.Fallback = evacuation.Shutdown
	if _, err := f.EvictionPolicies().Put(t.Context(), allowed); err != nil {
		t.Fatal(err)
	}

	p, err = f.PlanRelease(t.Context(), from.Name, "m", true)
	if err != nil || !slices.Equal(p.Restored, []string{back}) || len(p.Unrestored) != 1 ||
		!strings.Contains(p.Unrestored[0], `"`+running+`" runs on host "`+to.Name+`", where it stays`) {
		t.Errorf("planned %+v, %v", p, err)
	}

	released, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true})
	if err != nil || !slices.Equal(released.Unrestored, p.Unrestored) || len(released.ForcedOff) > 0 {
		t.Errorf("%+v, %v; want not restored what was planned: %q", released, err, p.Unrestored)
	}

	if now := strings.TrimSpace(l.Virsh(t, to.Name, "domid", on)); now != id {
		t.Errorf("the guest was restarted: it ran as %s, and runs as %s", id, now)
	}

	onlyOn(t, f, on, to.Name)
	onlyOn(t, f, off, from.Name)

	// It isn't shut down before it is recorded that it has to run afterwards.
	allowed.Fallback = evacuation.ColdMigrate
	if _, err := f.EvictionPolicies().Put(t.Context(), allowed); err != nil {
		t.Fatal(err)
	}

	maintained(t, f, from, coldMoved(on, running, to, true))

	// Nor is a guest that was off when the end was planned, and that its user has started since.
	none := &[]string{}

	p, err = f.PlanRelease(t.Context(), from.Name, "m", true)
	if err != nil || !slices.Equal(p.Restarts, []string{on}) {
		t.Errorf("planned %+v, %v", p, err)
	}

	released, err = f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true, Restarts: none})
	if err != nil || len(released.Unrestored) != 1 ||
		!strings.Contains(released.Unrestored[0], "it wasn't among the guests") {
		t.Errorf("%+v, %v; want the guest left alone", released, err)
	}

	if now := strings.TrimSpace(l.Virsh(t, to.Name, "domid", on)); now != id {
		t.Errorf("the guest was restarted: it ran as %s, and runs as %s", id, now)
	}

	maintained(t, f, from, coldMoved(on, running, to, true))
	listen(f, &onLog{Message: "turning off VM", Do: func() {
		change(func(e *hostrecord.Evacuation) { e.Releasing = "another" })
	}})

	if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err == nil ||
		!strings.Contains(err.Error(), "another run has changed the maintenance") {
		t.Errorf("%v; want that it can't be recorded", err)
	}

	if now := strings.TrimSpace(l.Virsh(t, to.Name, "domid", on)); now != id {
		t.Errorf("the guest was restarted: it ran as %s, and runs as %s", id, now)
	}

	// So one that is off now was turned off by its user, and stays off.
	l.Virsh(t, to.Name, "destroy", on)

	for _, shutDown := range []bool{false, true} {
		if _, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true}); err != nil {
			t.Error(err)
		}

		want := libvirt.Shutoff.String()
		if shutDown {
			want = libvirt.Running.String()
		}

		if got := howStarted(t, f, on); !strings.HasPrefix(got, from.Name+" "+want) {
			t.Errorf("shut down by an earlier end: %v; it is %s", shutDown, got)
		}

		maintained(t, f, from, coldMoved(on, running, to, true))
		change(func(e *hostrecord.Evacuation) { e.Releasing, e.Steps[0].Returning = "m", true })
	}
}

// A drain is killed before it begins a step, and a user moves that VM elsewhere. The next drain has nothing to do for
// it, and neither it nor the end of the maintenance says that the VM was moved where it was only planned to go.
func TestLab_endTellsWhereAVMWent(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, planned, went := l.StartHost(t), l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, planned, went)
	name := lab.Name(t)
	uuid := small(t, l, went, name, "")

	step := hostrecord.RecordedStep{}
	step.UUID, step.Name, step.Method, step.Target = uuid, name, evacuation.MethodLive, planned.Name
	maintained(t, f, from, step)

	if err := f.ChangeRecord(t.Context(), f.Host(from.Name), func(r *hostrecord.Record) error {
		r.Evacuation.Done = false

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	steps, err := f.Drain(t.Context(), drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if err != nil || len(steps) != 1 || steps[0].Result != hostrecord.ResultMoved || steps[0].WentTo() != went.Name {
		t.Errorf("drained: %+v, %v; want that it went to %s", steps, err, went.Name)
	}

	stays := []string{fmt.Sprintf("virtual machine %q was to be moved to host %q, but left host %q in another way, and "+
		"is on host %q now, where it stays", name, planned.Name, from.Name, went.Name)}

	if p, err := f.PlanRelease(t.Context(), from.Name, "m", true); err != nil || !slices.Equal(p.Unrestored, stays) {
		t.Errorf("planned %+v, %v; want %q", p, err, stays)
	}

	released, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true})
	if err != nil || !slices.Equal(released.Unrestored, stays) {
		t.Errorf("ended: %+v, %v; want %q", released, err, stays)
	}

	onlyOn(t, f, uuid, went.Name)
}

// The host is empty when its drain begins, and a VM has come when the drain looks again. The drain fails, and says that
// it has changed the host: it is cordoned.
func TestLab_drainOfAnEmptyHostTellsThatItBegan(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	host := l.StartHost(t)
	f, other := ownFleet(t, "alice", host), ownFleet(t, "bob", host)

	_, placing, err := other.Lease(t.Context(), other.Host(host.Name), "placement", "placing VMs on")
	if err != nil {
		t.Fatal(err)
	}

	begun := make(chan struct{})
	listen(f, &onLog{Message: "waiting for another run's lease", Do: func() { close(begun) }})

	over := draining(t.Context(), f, host.Name)

	select {
	case <-begun: // It knows which VMs the host has, and waits until it may cordon the host.
	case end := <-over:
		t.Fatalf("it didn't wait: %+v", end)
	case <-time.After(fleettest.Patience):
		fleettest.Hung(t, "the drain to wait")
	}

	name := lab.Name(t)
	small(t, l, host, name, "")
	placing.Release()

	end := fleettest.Await(t, over)
	if end.err == nil || !strings.Contains(end.err.Error(), name+`": it has come meanwhile`) {
		t.Errorf("%v; want that a VM has come", end.err)
	}

	record, _, err := inventory.ReadRecord(t.Context(), f.Host(host.Name))
	if err != nil || !record.Under("m") || end.steps == nil || len(end.steps) > 0 {
		t.Errorf("record %+v, %v, steps %#v; want a cordoned host, and steps that are empty but not nil", record, err,
			end.steps)
	}
}
