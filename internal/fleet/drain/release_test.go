package drain

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// drainerOf is a drainer of these hosts.
func drainerOf(t *testing.T, configs map[string]inventory.HostConfig) *Drainer {
	t.Helper()

	log := slog.New(slog.DiscardHandler)

	hosts, err := inventory.New(configs, log)
	if err != nil {
		t.Fatal(err)
	}

	store := records.NewStore(hosts, records.Config{Owner: "alice", Log: log})
	scheduler := placement.NewScheduler(hosts, store, placement.Config{Owner: "alice", Log: log})
	mover := move.NewMover(hosts, store, scheduler, move.Config{Owner: "alice", Log: log})

	t.Cleanup(func() {
		store.EndRenewals()
		store.AwaitRenewals()

		if err := hosts.Close(); err != nil {
			t.Error(err)
		}
	})

	observer := observe.NewObserver(hosts, store, mover.Checks, observe.Config{Log: log})
	manager := lifecycle.NewManager(hosts, store, scheduler, mover, observer, lifecycle.Config{Owner: "alice", Log: log})

	return NewDrainer(hosts, store, scheduler, mover, manager, Config{Owner: "alice", Log: log})
}

// builtIn is a drainer of libvirt's built-in test host, and a VM there of its own.
func builtIn(t *testing.T) (*Drainer, *inventory.VM) {
	t.Helper()

	dr := drainerOf(t, map[string]inventory.HostConfig{"local": {URI: "test:///default", MemoryLimit: 1 << 40}})
	id := fleettest.DefineBuiltIn(t, dr.hosts.Host("local"))

	vm, err := dr.hosts.FindNow(t.Context(), id, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	return dr, vm
}

// A VM that lost its autostart to a step that then failed gets it back when the maintenance ends, and nothing else is
// done to it.
func TestRelease_failedStepGetsItsAutostartBack(t *testing.T) {
	t.Parallel()

	for _, done := range []bool{true, false} {
		dr, vm := builtIn(t)
		step := hostrecord.RecordedStep{Result: hostrecord.ResultFailed, Autostart: true}
		step.UUID, step.Name, step.Method = vm.UUID, vm.Name, "Shutdown"

		e := hostrecord.Evacuation{Done: done, Steps: []hostrecord.RecordedStep{step}}
		r := &releaseRun{drainer: dr, host: vm.On, evacuation: e, restore: Restore{Wanted: true}}

		left, err := r.undoSteps(t.Context())
		if err != nil || left != nil {
			t.Errorf("%+v, %v", left, err)
		}

		now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || !now.Autostart || now.Active {
			t.Errorf("done %v: autostart %v, active %v, %v", done, now.Autostart, now.Active, err)
		}
	}
}

// A VM that its user stops right before its step is left alone, with its autostart, as one that was off from the
// beginning: the end of the maintenance doesn't start it.
func TestTurnOff_leavesWhatItsUserStopped(t *testing.T) {
	t.Parallel()

	for _, method := range []string{evacuation.MethodShutdown, evacuation.MethodSave} {
		dr, vm := builtIn(t)

		if err := vm.On.Conn.SetAutostart(t.Context(), vm.UUID, true); err != nil {
			t.Fatal(err)
		}

		step := stepOf(vm.Name, method, "")
		step.UUID = vm.UUID
		d := Begun(dr, Drain{Host: vm.Host}, step)

		result, err := d.Try(t.Context(), 0, evacuation.Rule{})
		if err != nil || result != hostrecord.ResultLeft {
			t.Fatalf("%s: %s, %v", method, result, err)
		}

		d.steps[0].Result = result
		r := &releaseRun{
			drainer: dr, host: vm.On, evacuation: hostrecord.Evacuation{Done: true, Steps: d.steps},
			restore: Restore{Wanted: true},
		}

		if left, err := r.undoSteps(t.Context()); err != nil || left != nil {
			t.Errorf("%s: %+v, %v", method, left, err)
		}

		now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || !now.Autostart || now.Active {
			t.Errorf("%s: autostart %v, active %v, %v", method, now.Autostart, now.Active, err)
		}
	}
}

// Steps that begin at the same time each note what they do. None of the notes is lost, whichever is written last.
func TestLab_recordHasWhatEveryStepNoted(t *testing.T) {
	t.Parallel()

	h := lab.Open(t).StartHost(t)
	dr := drainerOf(t, fleettest.HostConfigs(h))
	steps := make([]hostrecord.RecordedStep, 20)

	for i := range steps {
		steps[i] = stepOf(strconv.Itoa(i), evacuation.MethodShutdown, "")
	}

	d := Begun(dr, Drain{Host: h.Name}, steps...)

	var notes errgroup.Group

	for i := range steps {
		notes.Go(func() error {
			return d.suspendAutostart(t.Context(), i, &inventory.VM{Name: steps[i].Name})
		})
	}

	if err := notes.Wait(); err != nil {
		t.Fatal(err)
	}

	record, _, err := inventory.ReadRecord(t.Context(), d.host)
	if err != nil {
		t.Fatal(err)
	}

	for _, s := range record.Evacuation.Steps {
		if !s.Stopping {
			t.Errorf("the note of step %s is lost", s.Name)
		}
	}
}

// A VM that a drain shut down, and whose configuration wants it off by now, stays off without autostart when the
// maintenance ends.
func TestRelease_leavesOffWhatIsHaltedByNow(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)

	m := vm.Metadata
	m.RunStrategy = status.Halted

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	vm.On.Forget()

	step := hostrecord.RecordedStep{Result: hostrecord.ResultShutDown, Autostart: true}
	step.UUID, step.Name, step.Method = vm.UUID, vm.Name, "Shutdown"

	r := &releaseRun{
		drainer: dr, host: vm.On, evacuation: hostrecord.Evacuation{Done: true}, restore: Restore{Wanted: true},
	}
	if err := r.restorePower(t.Context(), step); err != nil {
		t.Fatal(err)
	}

	now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil || now.Autostart || now.Active {
		t.Errorf("autostart %v, active %v, %v", now.Autostart, now.Active, err)
	}
}

// What a completed drain turned off is started when the maintenance ends, even if a later drain of it was not
// completed, unless nothing is to be restored. What that later drain turned off stays off in any case: a shutdown that
// was done, and a move that was interrupted before it began. The user is told of each VM that no apply starts, by the
// plan and at the end.
func TestRelease_restoresWhatACompletedDrainDid(t *testing.T) {
	t.Parallel()

	shutDown := hostrecord.RecordedStep{Result: hostrecord.ResultShutDown, Stopping: true}
	shutDown.Method = evacuation.MethodShutdown
	completed := shutDown
	completed.Completed = true
	interrupted := hostrecord.RecordedStep{Result: hostrecord.ResultFailed, Ran: true}
	interrupted.Method, interrupted.Target = evacuation.MethodCold, "other"

	for name, c := range map[string]struct {
		step                 hostrecord.RecordedStep
		restore, runs, tells bool
	}{
		"completed":                        {completed, true, true, false},
		"not completed":                    {shutDown, true, false, true},
		"interrupted move":                 {interrupted, true, false, true},
		"completed, without restore":       {completed, false, false, false},
		"not completed, without restore":   {shutDown, false, false, true},
		"interrupted move without restore": {interrupted, false, false, true},
	} {
		dr, vm := builtIn(t)
		step := c.step
		step.UUID, step.Name = vm.UUID, vm.Name

		m := vm.Metadata
		m.RunStrategy = status.Manual

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}

		vm.On.Forget()

		e := hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{step}}
		r := &releaseRun{drainer: dr, host: vm.On, evacuation: e, restore: Restore{Wanted: c.restore}}
		_, restored, unrestored := r.planStep(t.Context(), step)

		if (restored == `is started on host "local"`) != c.runs || strings.Contains(unrestored, "stays off") != c.tells {
			t.Errorf("%s: planned %q, %q", name, restored, unrestored)
		}

		left, err := r.undoSteps(t.Context())
		if err != nil || (left == nil) != step.Completed {
			t.Errorf("%s: kept %+v, %v", name, left, err)
		}

		if told := strings.Join(r.released.Unrestored, ""); strings.Contains(told, "stays off") != c.tells {
			t.Errorf("%s: told %q", name, told)
		}

		now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || now.Active != c.runs {
			t.Errorf("%s: active %v, %v", name, now.Active, err)
		}
	}
}

// A VM that was shut down to be moved back, by an earlier end of the maintenance that was killed before it could start
// the VM, is started by the next one, whose plan says so. It stays off if no earlier end shut it down, whatever the
// drain did, or if its configuration turns it off by now.
func TestRelease_startsWhatAKilledOneMovedBack(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		ran, returning, halted, runs bool
		strategy                     string
	}{
		"killed":                    {ran: true, returning: true, strategy: status.Manual, runs: true},
		"killed, was moved off":     {returning: true, strategy: status.Manual, runs: true},
		"killed, ran though Halted": {returning: true, halted: true, strategy: status.Halted, runs: true},
		"killed, Halted by now":     {ran: true, returning: true, strategy: status.Halted},
		"killed, was off":           {strategy: status.Manual},
		"turned off by its user":    {ran: true, strategy: status.Manual},
	} {
		dr, vm := builtIn(t)

		m := vm.Metadata
		m.RunStrategy = c.strategy

		if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
			t.Fatal(err)
		}

		vm.On.Forget()

		step := hostrecord.RecordedStep{
			Result: hostrecord.ResultColdMoved, Ran: c.ran, Returning: c.returning, ReturningHalted: c.halted,
		}
		step.UUID, step.Name, step.Method, step.Target = vm.UUID, vm.Name, evacuation.MethodCold, vm.Host

		e := hostrecord.Evacuation{Done: true, Steps: []hostrecord.RecordedStep{step}}
		r := &releaseRun{drainer: dr, host: vm.On, evacuation: e, restore: Restore{Wanted: true}}

		_, restored, unrestored := r.planStep(t.Context(), step)
		if (restored == `is started on host "local"`) != c.runs || unrestored != "" {
			t.Errorf("%s: planned %q, %q", name, restored, unrestored)
		}

		if left, err := r.undoSteps(t.Context()); err != nil || left != nil {
			t.Errorf("%s: kept %+v, %v", name, left, err)
		}

		now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil || now.Active != c.runs {
			t.Errorf("%s: active %v, %v", name, now.Active, err)
		}
	}
}

// What could not be given back stays recorded, for the next attempt.
func TestRelease_whatFailsStaysRecorded(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)
	step := hostrecord.RecordedStep{Result: hostrecord.ResultFailed, Autostart: true}
	step.UUID, step.Name, step.Method = vm.UUID, vm.Name, "Shutdown"

	e := hostrecord.Evacuation{Steps: []hostrecord.RecordedStep{step}}
	r := &releaseRun{drainer: dr, host: vm.On, evacuation: e, restore: Restore{Wanted: true}}

	ended, cancel := context.WithCancel(t.Context())
	cancel()

	left, err := r.undoSteps(ended)
	if err == nil || left == nil || len(left.Steps) != 1 || !left.Steps[0].Autostart {
		t.Errorf("%+v, %v", left, err)
	}
}

// What could not be recorded before a guest is shut down is recorded by the next try. The built-in host keeps no
// record.
func TestNoteRan_isTriedAgain(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)
	step := stepOf(vm.Name, evacuation.MethodCold, "")
	step.UUID = vm.UUID
	d := Begun(dr, Drain{Host: vm.Host}, step)

	for range 2 {
		if err := d.noteRan(t.Context(), 0, true, false); err == nil || d.Step(0).Ran {
			t.Errorf("%v, ran %v; want that it can't be recorded, and isn't said to be", err, d.Step(0).Ran)
		}
	}
}

// The next end of the maintenance knows which guests this one shuts down, and which VMs are restored. One whose
// maintenance another run has changed shuts nothing down.
func TestLab_releaseRecordsWhatItDoes(t *testing.T) {
	t.Parallel()

	h := lab.Open(t).StartHost(t)
	dr := drainerOf(t, fleettest.HostConfigs(h))
	host := dr.hosts.Host(h.Name)
	steps := []hostrecord.RecordedStep{
		stepOf("a", evacuation.MethodCold, hostrecord.ResultColdMoved),
		stepOf("b", evacuation.MethodShutdown, hostrecord.ResultShutDown),
	}
	written := &hostrecord.Evacuation{Done: true, Releasing: "m", Steps: steps}

	if err := dr.records.ChangeRecord(t.Context(), host, func(r *hostrecord.Record) error {
		r.Evacuation = written

		return nil
	}); err != nil {
		t.Fatal(err)
	}

	recorded := func() *hostrecord.Evacuation {
		t.Helper()

		record, _, err := inventory.ReadRecord(t.Context(), host)
		if err != nil || record.Evacuation == nil {
			t.Fatalf("%+v, %v", record, err)
		}

		return record.Evacuation
	}
	runOf := func(id string) *releaseRun {
		e := recorded()
		e.Releasing = id

		return &releaseRun{drainer: dr, host: host, evacuation: *e, restore: Restore{Wanted: true}}
	}

	if err := runOf("m").noteRan(t.Context(), 0, true, true); err != nil {
		t.Error(err)
	}

	first := runOf("m")
	if s := first.evacuation.Steps[0]; !s.Returning || !s.ReturningHalted {
		t.Errorf("the next run knows %+v", s)
	}

	other := runOf("other")
	if err := other.noteRan(t.Context(), 0, true, false); err == nil {
		t.Error("the end of another maintenance has noted something")
	}

	other.forget(t.Context(), steps[1])

	if e := recorded(); len(e.Steps) != 2 || !e.Steps[0].ReturningHalted {
		t.Errorf("another run changed it: %+v", e.Steps)
	}

	if err := first.noteRan(t.Context(), 0, false, false); err != nil {
		t.Error(err)
	}

	first.forget(t.Context(), steps[1])

	if e := recorded(); len(e.Steps) != 1 || e.Steps[0].UUID != "a" || e.Steps[0].Returning || e.Steps[0].ReturningHalted {
		t.Errorf("recorded is %+v", e.Steps)
	}
}

// What was shut down is started while VMs that are to be moved back still wait, although it comes after them.
func TestRelease_startWaitsForNoMove(t *testing.T) {
	t.Parallel()

	dr, vm := builtIn(t)

	var steps []hostrecord.RecordedStep

	for range dr.mover.Queue.Limits().InboundPerHost {
		step := stepOf(fleettest.DefineBuiltIn(t, vm.On), evacuation.MethodLive, hostrecord.ResultMoved)
		step.Target = vm.Host
		steps = append(steps, step)

		_, release, err := dr.records.Lock(t.Context(), vm.On, step.UUID, "testing")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}

	e := hostrecord.Evacuation{
		Done: true, Steps: append(steps, stepOf(vm.UUID, evacuation.MethodShutdown, hostrecord.ResultShutDown)),
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()

	over := make(chan struct{}, 1)

	go func() {
		r := &releaseRun{drainer: dr, host: vm.On, evacuation: e, restore: Restore{Wanted: true}}
		_, _ = r.undoSteps(ctx)

		over <- struct{}{}
	}()

	waiting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	for {
		now, err := dr.hosts.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		if now.Active {
			break
		}

		if admission.Pause(waiting, time.Millisecond) != nil {
			t.Error("it isn't started while the others wait")

			break
		}
	}

	interrupt()
	fleettest.Await(t, over)
}
