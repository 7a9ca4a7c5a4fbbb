package drain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A VM that was moved cold is started on its target as any VM is started there: not while that is cordoned by now, not
// without room, and not once another run may place VMs there. One whose move fails is started on the host that is
// drained, whose cordon is the drain's own.
func TestLab_coldMovedAsksBeforeItStarts(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	f := ownFleet(t, "alice", from, to)
	d := light(t, l, "cold", nil)
	vm := create(t, ownFleet(t, "alice", from), l, d)

	step := hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Method: evacuation.MethodCold, Target: to.Name}, Ran: true,
	}
	moveCold := func() error {
		_, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, step).MoveCold(t.Context(), 0)

		return err
	}
	off := func(on *lab.Host) {
		t.Helper()
		onlyOn(t, f, vm.UUID, on.Name)

		if now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil || now.Active {
			t.Fatalf("%+v, %v; want it off", now, err)
		}
	}

	// As an earlier drain left it, that was killed after it had moved it.
	l.Virsh(t, from.Name, "destroy", vm.UUID)

	if _, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, migration.Options{}); err != nil {
		t.Fatal(err)
	}

	if err := f.Cordon(t.Context(), to.Name, "by hand", "a test"); err != nil {
		t.Fatal(err)
	}

	blocked(t, moveCold(), migration.HostCordoned, to.Name)
	off(to)

	if err := f.Uncordon(t.Context(), to.Name, "by hand"); err != nil {
		t.Fatal(err)
	}

	limit := f.Host(to.Name).Config.MemoryLimit
	f.Host(to.Name).Config.MemoryLimit = 1 << 20

	blocked(t, moveCold(), migration.InsufficientMemory, to.Name)
	off(to)

	f.Host(to.Name).Config.MemoryLimit = limit

	placingLost(t, l, f, vm, to, moveCold)
	off(to)

	if err := moveCold(); err != nil {
		t.Error(err)
	}

	onlyOn(t, f, vm.UUID, to.Name)

	if got := howStarted(t, f, vm.UUID); got != to.Name+" Running Booted" {
		t.Errorf("it is %s, want it started", got)
	}

	// Brought back to a host that is cordoned, from one that is.
	l.Virsh(t, to.Name, "destroy", vm.UUID)

	for _, h := range []*lab.Host{from, to} {
		if err := f.Cordon(t.Context(), h.Name, "by hand", "a test"); err != nil {
			t.Fatal(err)
		}
	}

	again := drain.Begun(f.Drainer, drain.Drain{Host: to.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: from.Name}, Ran: true,
	})
	_, err := again.MoveCold(t.Context(), 0)
	blocked(t, err, migration.HostCordoned, from.Name)

	record, _, err := inventory.ReadRecord(t.Context(), f.Host(to.Name))
	if err != nil || record.Evacuation == nil || record.Evacuation.Steps[0].Ran || again.Step(0).Ran {
		t.Errorf("%+v, %v; want it recorded that it runs, and needn't be started by the next try", record, err)
	}

	if got := howStarted(t, f, vm.UUID); got != to.Name+" Running Booted" {
		t.Errorf("it is %s, want that it was started where it ran", got)
	}

	for _, h := range []*lab.Host{from, to} {
		if err := f.Uncordon(t.Context(), h.Name, "by hand"); err != nil {
			t.Fatal(err)
		}
	}

	haltedMeanwhile(t, l, f, vm, to, from)
	leftMeanwhile(t, f, vm, from, to)
	runsUntilItsTurn(t, l, f, vm, to, from)
	interruptedAsItShutsDown(t, l, f, vm, to, from)
}

// placingLost: a VM isn't started once another run may place VMs on its host.
func placingLost(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, on *lab.Host, moveCold func() error) {
	t.Helper()

	vm, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	held, permit, err := f.Admit(t.Context(), vm) // The drain shares the lock.
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release()

	lock, gone := fleettest.Lease(t, l, on, "placement"), held.Done()

	listen(f, &onLog{Message: "starting VM", Do: func() {
		l.Virsh(t, on.Name, "secret-undefine", lock)

		select {
		case <-gone:
		case <-time.After(fleettest.Patience):
			t.Error("the run hasn't seen that its lease is gone")
		}
	}})

	if err := moveCold(); !errors.Is(err, fleet.ErrLeaseLost) {
		t.Errorf("%v; want the lost lease", err)
	}
}

// haltedMeanwhile: a VM that was shut down to be moved, and whose configuration turns it off by now, is moved and stays
// off. One that ran although its configuration turned it off is started again, also by the run after the one that shut
// it down.
func haltedMeanwhile(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, from, to *lab.Host) {
	t.Helper()

	strategy := func(is string) *inventory.VM {
		t.Helper()
		f.ForgetAll()

		now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
		if err != nil {
			t.Fatal(err)
		}

		m := now.Metadata
		m.RunStrategy = is

		if _, err := records.WriteMetadata(t.Context(), now, m); err != nil {
			t.Fatal(err)
		}

		return now
	}

	l.Virsh(t, from.Name, "destroy", vm.UUID)
	strategy(status.Halted)

	for _, before := range []bool{false, true} {
		_, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: to.Name}, Ran: true, Halted: before,
		}).MoveCold(t.Context(), 0)
		if err != nil {
			t.Error(err)
		}

		if now := strategy(status.Halted); now.Host != to.Name || now.Active != before {
			t.Errorf("halted before: %v; it is on %s, %s", before, now.Host, now.State)
		}
	}

	strategy(status.Always)
}

// leftMeanwhile: a VM that leaves the host while its step waits for the VM's lock isn't shut down where it runs then.
func leftMeanwhile(t *testing.T, f *fleet.Fleet, vm *inventory.VM, from, to *lab.Host) {
	t.Helper()

	bob := ownFleet(t, "bob", from, to)

	_, unlock, err := bob.Lock(t.Context(), bob.Host(from.Name), vm.UUID, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	waits := make(chan struct{})
	listen(f, &onLog{Message: "waiting for another run's lease", Do: func() { close(waits) }})

	over := make(chan error, 1)

	go func() {
		_, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: to.Name},
		}).MoveCold(t.Context(), 0)
		over <- err
	}()

	fleettest.Await(t, waits)

	if err := from.Migrate(t.Context(), vm.Name, to); err != nil {
		t.Fatal(err)
	}

	unlock()

	if err := fleettest.Await(t, over); err != nil {
		t.Error(err)
	}

	// Nor is it moved on because an earlier run had begun to move it.
	if _, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
		Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: from.Name}, Ran: true,
	}).MoveCold(t.Context(), 0); err != nil {
		t.Error(err)
	}

	if got := howStarted(t, f, vm.UUID); got != to.Name+" Running Migrated" {
		t.Errorf("it is %s, want it as it was when it left", got)
	}
}

// runsUntilItsTurn: a guest runs while other moves keep its own waiting, and isn't shut down before.
func runsUntilItsTurn(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, from, to *lab.Host) {
	t.Helper()

	for i := range f.Queue.Limits().OutboundPerHost {
		leave, err := f.Queue.Enter(t.Context(), fmt.Sprint(i), from.Name, "another host", admission.PriorityUser)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}

	run := l.Virsh(t, from.Name, "domid", vm.UUID)
	over := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	go func() {
		_, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: to.Name},
		}).MoveCold(ctx, 0)
		over <- err
	}()

	for f.Queue.Inbound(to.Name) == 0 {
		if err := admission.Pause(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}

	if now := l.Virsh(t, from.Name, "domid", vm.UUID); now != run {
		t.Errorf("it was run %s and is %s now, want that it runs until its turn", run, now)
	}

	cancel()

	if err := fleettest.Await(t, over); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want that it waited for its turn", err)
	}

	if now := l.Virsh(t, from.Name, "domid", vm.UUID); now != run {
		t.Errorf("it was run %s and is %s now, want that it was left alone", run, now)
	}
}

// interruptedAsItShutsDown: a guest that turns off soon after the drain was interrupted, because the drain had asked it
// to shut down, is started again on the host that is drained.
func interruptedAsItShutsDown(t *testing.T, l *lab.Lab, f *fleet.Fleet, vm *inventory.VM, from, to *lab.Host) {
	t.Helper()
	f.ForgetAll()

	now, err := f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{})
	if err != nil {
		t.Fatal(err)
	}

	m := now.Metadata
	m.TerminationGracePeriod = new(time.Hour) // Its firmware never shuts down.

	if _, err := records.WriteMetadata(t.Context(), now, m); err != nil {
		t.Fatal(err)
	}

	run := l.Virsh(t, from.Name, "domid", vm.UUID)
	asked := func() int { return f.Calls()[from.Name]["virDomainShutdownFlags"] }
	before := asked()
	over := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	waits := false
	listen(f, &onLog{Message: "waiting for a guest that was asked to shut down", Do: func() {
		waits = true

		l.Virsh(t, from.Name, "destroy", vm.UUID) // That is how its guest turns off.
	}})

	go func() {
		_, err := drain.Begun(f.Drainer, drain.Drain{Host: from.Name}, hostrecord.RecordedStep{
			Step: evacuation.Step{UUID: vm.UUID, Name: vm.Name, Target: to.Name},
		}).MoveCold(ctx, 0)
		over <- err
	}()

	for asked() == before {
		if err := admission.Pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}

	cancel()

	if err := fleettest.Await(t, over); !errors.Is(err, context.Canceled) || errors.Is(err, drain.ErrMayTurnOff) {
		t.Errorf("%v; want that it was interrupted, and nothing else", err)
	}

	if !waits { // It turns off all the same, a little later.
		l.Virsh(t, from.Name, "destroy", vm.UUID)
	}

	if got := howStarted(t, f, vm.UUID); got != from.Name+" Running Booted" {
		t.Errorf("it is %s, want that it was started again where it was", got)
	}

	if now, _ := l.TryVirsh(t, from.Name, "domid", vm.UUID); now == run {
		t.Errorf("it is still run %s", run)
	}
}
