package drain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/policy"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// sameStep says that both do the same with the same VM, for the same reason.
func sameStep(a, b evacuation.Step) bool {
	return a.UUID == b.UUID && a.Strategy == b.Strategy && a.Origin == b.Origin && a.Policy == b.Policy &&
		a.Method == b.Method && a.Target == b.Target
}

func resultsOf(steps []hostrecord.RecordedStep) string {
	var all []string
	for _, s := range steps {
		all = append(all, strings.SplitN(s.Name, "-", 2)[1]+"="+s.Result)
	}

	slices.Sort(all)

	return strings.Join(all, " ")
}

// A host is drained by the rule that each VM deserves, says so, and is as it was when the maintenance is over.
func TestLab_drainAndRestore(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone := ownFleet(t, "alice", from)
	f := ownFleet(t, "alice", from, to)
	made := map[string]*inventory.VM{}

	for _, name := range []string{"live", "none", "saved", "elsewhere", "off"} {
		d := evacuee(t, l, name, map[string]string{"kind": name})

		switch name {
		case "saved":
			d.Spec.Disks["data"] = domain.Disk{Source: domain.DiskSource{File: l.Image(t, from.Name,
				d.Spec.Name+".qcow2", "qcow2", 1<<20)}, Format: "qcow2"}
		case "off":
			d.Metadata.RunStrategy = "Manual"
		}

		made[name] = create(t, alone, l, d)
	}

	policies := []evacuation.Policy{
		{Identity: policy.Identity{ID: "1", Name: "none"}, Strategy: evacuation.None},
		{Identity: policy.Identity{ID: "2", Name: "saved"}, Strategy: evacuation.LiveMigrate, Fallback: evacuation.Save},
		{Identity: policy.Identity{ID: "3", Name: "elsewhere"}, Strategy: evacuation.External, Priority: 9},
	}
	for _, p := range policies {
		p.Selector.Labels = map[string]string{"kind": p.Name}
		if _, err := f.EvictionPolicies().Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}

	plan, err := f.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]string{
		"live": "LiveMigration " + to.Name, "none": "Shutdown ", "saved": "Save ", "elsewhere": "External ", "off": "Leave ",
	}
	for _, s := range plan.Steps {
		name := strings.SplitN(s.Name, "-", 2)[1]
		if got := s.Method + " " + s.Target; got != want[name] {
			t.Errorf("%s: %s, want %s (%v)", name, got, want[name], s.Blockers)
		}
	}

	if plan.Recorded || plan.Steps[0].Name != made["elsewhere"].Name {
		t.Errorf("plan %+v; want the highest priority first", plan)
	}

	other := make(chan error, 1)

	go func() { // Who is in charge of the external one sees the mark.
		for {
			vm, err := f.FindNow(t.Context(), made["elsewhere"].UUID, inventory.LastKnown{})
			if err != nil || admission.Pause(t.Context(), 100*time.Millisecond) != nil {
				other <- err

				return
			}

			if m := vm.Metadata.Eviction; m != nil && m.Host == from.Name {
				_, _, err := ownFleet(t, "bob", from, to).Move(t.Context(), vm.UUID, lastOf(vm), to.Name, migration.Options{})
				other <- err

				return
			}
		}
	}()

	steps, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: plan.Steps})
	if err != nil {
		t.Fatal(err)
	}

	if err := fleettest.Await(t, other); err != nil {
		t.Error(err)
	}

	if got, want := resultsOf(steps), "elsewhere=Moved live=Moved none=ShutDown off=Left saved=Saved"; got != want {
		t.Errorf("%s, want %s", got, want)
	}

	for _, s := range steps {
		if want := s.Method == evacuation.MethodShutdown || s.Method == evacuation.MethodSave; s.Stopping != want {
			t.Errorf("%s was turned off: %v, want %v", s.Name, s.Stopping, want)
		}
	}

	state := func(name, host string, active bool) {
		t.Helper()

		vm, err := f.FindNow(t.Context(), made[name].UUID, inventory.LastKnown{})
		if err != nil || vm.Host != host || vm.Active != active || vm.Metadata.Eviction != nil {
			t.Errorf("%s: %+v, %v; want it on %s, active %v, without a mark", name, vm, err, host, active)
		}
	}
	state("live", to.Name, true)
	state("elsewhere", to.Name, true)
	state("none", from.Name, false)
	state("saved", from.Name, false)

	recorded, err := ownFleet(t, "bob", from, to).PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil || !recorded.Recorded || len(recorded.Steps) != len(plan.Steps) ||
		!sameStep(recorded.Steps[1], plan.Steps[1]) {
		t.Errorf("planned anew: %+v, %v; want the same steps", recorded, err)
	}

	_, err = drainNow(t, f, drain.Drain{Host: from.Name, ID: "another", Why: "another"})
	if !errors.Is(err, inventory.ErrExists) {
		t.Errorf("drained twice: %v", err)
	}

	// Switched off, the host is silent, and the others tell.
	cfg := fleet.Config{Hosts: map[string]inventory.HostConfig{
		from.Name: {URI: "qemu+unix:///system?socket=/nowhere"},
		to.Name:   {URI: "qemu+unix:///system?socket=" + to.Path("/run/libvirt/libvirt-sock")},
	}, Owner: "carol"}

	silent, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	recorded, err = silent.PlanEvacuation(t.Context(), from.Name, drain.EvacuationQuery{})
	if err != nil || !recorded.Recorded || len(recorded.Steps) != len(plan.Steps) ||
		!silent.SwitchedOff(t.Context(), from.Name) || silent.SwitchedOff(t.Context(), to.Name) {
		t.Errorf("while the host is off: %+v, %v", recorded, err)
	}

	// Of a VM that the drain didn't leave there, the silence has another reason.
	for name, want := range map[string]bool{
		"none": true, "saved": true, "off": true, "live": false, "elsewhere": false,
	} {
		if got := silent.SwitchedOffWith(t.Context(), from.Name, made[name].UUID); got != want {
			t.Errorf("the host is off with %s: %t, want %t", name, got, want)
		}
	}

	if silent.SwitchedOffWith(t.Context(), from.Name, uuid.NewString()) {
		t.Error("the host that doesn't answer has a VM that came later, and is taken for switched off")
	}

	if err := silent.Close(); err != nil {
		t.Error(err)
	}

	// A VM that is started there and can't leave: the next drain is not completed, and takes nothing back from this one.
	stays := evacuation.Policy{
		Identity: policy.Identity{ID: "4", Name: "off", Selector: policy.Selector{Labels: map[string]string{"kind": "off"}}},
		Strategy: evacuation.External, Timeout: new(3 * time.Second),
	}
	policies = append(policies, stays)

	if _, err := f.EvictionPolicies().Put(t.Context(), stays); err != nil {
		t.Fatal(err)
	}

	l.Virsh(t, from.Name, "start", made["off"].UUID)

	_, err = drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if !errors.Is(err, move.ErrNotMoved) {
		t.Fatalf("the second drain: %v", err)
	}

	released, err := f.Release(t.Context(), from.Name, "m", drain.Restore{Wanted: true})
	if err != nil || len(released.Unrestored) > 0 {
		t.Fatalf("%+v, %v", released, err)
	}

	state("off", from.Name, true)
	state("live", from.Name, true)
	state("none", from.Name, true)
	state("saved", from.Name, true)
	state("elsewhere", to.Name, true) // Whoever moved it brings it back.

	for name, want := range map[string]string{"live": "Migrated", "none": "Booted", "saved": "Restored"} {
		if got := howStarted(t, f, made[name].UUID); got != from.Name+" Running "+want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}

	if vm, err := f.FindNow(t.Context(), made["none"].UUID, inventory.LastKnown{}); err != nil || !vm.Autostart {
		t.Errorf("autostart is lost: %v", err)
	}

	for _, p := range policies {
		if _, err := f.EvictionPolicies().Remove(t.Context(), p.ID); err != nil {
			t.Error(err)
		}
	}

	if _, err := f.Host(from.Name).Conn.OwnSecret(t.Context(), inventory.RecordUsage); !inventory.IsNotFound(err) {
		t.Errorf("the record is left: %v", err)
	}
}

// What blocks a drain, or has changed since it was planned, is told before anything is touched.
func TestLab_drainRefused(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	d := evacuee(t, l, "disk", nil)
	d.Spec.Disks["data"] = domain.Disk{
		Source: domain.DiskSource{File: l.Image(t, from.Name, d.Spec.Name+".qcow2", "qcow2", 1<<20)}, Format: "qcow2",
	}
	vm := create(t, ownFleet(t, "alice", from), l, d)

	_, err := drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test"})
	if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(err.Error(), vm.Name) ||
		!strings.Contains(err.Error(), migration.DisksNotLiveMigratable) {
		t.Errorf("blocked: %v", err)
	}

	_, err = drainNow(t, f, drain.Drain{Host: from.Name, ID: "m", Why: "a test", Steps: []evacuation.Step{}})
	if !errors.Is(err, inventory.ErrBusy) || !strings.Contains(err.Error(), fmt.Sprintf("%q has come", vm.Name)) {
		t.Errorf("changed: %v", err)
	}

	if r, err := f.Record(t.Context(), from.Name); err != nil || r.Cordon != nil || r.Evacuation != nil {
		t.Errorf("recorded: %+v, %v", r, err)
	}
}
