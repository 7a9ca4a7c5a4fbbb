package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/admission"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// torn is a VM that one run moves in post-copy between two hosts of its own, while the connection between them breaks
// for good.
type torn struct {
	t        *testing.T
	l        *lab.Lab
	f        *Fleet
	from, to *lab.Host
	desired  placement.Desired
	vm       *inventory.VM
	order    move.Order
}

func newTorn(t *testing.T, o migration.Options) *torn {
	t.Helper()

	l := lab.Open(t)
	b := &torn{t: t, l: l, from: l.StartHost(t), to: l.StartHost(t)}
	alone := ownFleet(t, "alice", b.from)
	b.f = ownFleet(t, "alice", b.from, b.to)
	d := evacuee(t, l, "torn", nil)
	d.Spec.Kernel.Cmdline += " dirty=32"
	b.desired, b.vm = d, create(t, alone, l, d)

	// Before it begins: the switch may come before the test sees that it has begun.
	if err := b.f.Host(b.from.Name).Conn.SetMigrationBandwidth(t.Context(), b.vm.UUID, 1<<20, true); err != nil {
		t.Fatal(err)
	}

	o.AllowPostCopy, o.CompletionTimeoutPerGiB, o.Bandwidth = new(true), new(2*time.Second), new(uint64(2<<20))
	b.order = move.Order{UUID: b.vm.UUID, Last: lastOf(b.vm), ID: "4711", Target: b.to.Name, Options: o}

	return b
}

// end is how a migration ended.
type end struct {
	vm     *inventory.VM
	record domain.Migration
	err    error
}

// move moves the VM.
func (b *torn) move(ctx context.Context) <-chan end {
	over := make(chan end, 1)

	go func() {
		vm, record, err := b.f.MoveOnce(ctx, b.order)
		over <- end{vm, record, err}
	}()

	return over
}

// tear breaks the connection once the guest runs on the target and its source still has most of its memory.
func (b *torn) tear(over <-chan end) {
	b.t.Helper()

	fleettest.AwaitCopying(b.t, b.f.Host(b.from.Name), b.vm.UUID, over)

	release := b.l.HoldPostCopy(b.t, b.from, b.to, b.vm.Name)

	for _, chain := range []string{"INPUT", "OUTPUT"} {
		b.l.Run(b.t, b.from.Name, "iptables", "-I", chain, "-p", "tcp", "--syn", "--dport", "49152:49215", "-j", "REJECT")
	}

	b.l.CutMigration(b.t, b.from, b.to)
	release()
}

// seen is what a host says of the VM.
func (b *torn) seen(on *lab.Host) string {
	d, err := b.f.Host(on.Name).Conn.Domain(b.t.Context(), b.vm.UUID)
	if err != nil {
		return ""
	}

	return d.State.String() + " (" + d.Reason + ")"
}

func (b *torn) inTwoParts() bool {
	return b.seen(b.from) == "Paused (PostcopyFailed)" && b.seen(b.to) == "Running (PostcopyFailed)"
}

func (b *torn) await(what string, so func() bool) {
	b.t.Helper()

	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()

	for !so() {
		if err := admission.Pause(ctx, 100*time.Millisecond); err != nil {
			b.t.Fatalf("waited for %s", what)
		}
	}
}

// irrecoverable is the condition, as whoever asks now sees it. It names what both hosts have.
func (b *torn) irrecoverable() status.ConditionStatus {
	b.t.Helper()

	o, err := b.f.Observe(b.t.Context(), observe.Question{UUID: b.vm.UUID})
	if err != nil {
		b.t.Fatal(err)
	}

	c := status.ConditionOf(o.Facts, status.Irrecoverable)
	if c.Reason != status.ReasonPostcopyInterrupted {
		b.t.Errorf("an apply can resume it, and its reason is %s", c.Reason)
	}

	for _, part := range []string{
		`"` + b.from.Name + `" has it as Paused (PostcopyFailed)`, `"` + b.to.Name + `" has it as Running (PostcopyFailed)`,
	} {
		if !strings.Contains(c.Message, part) {
			b.t.Errorf("%s %s: %s; want it to say %s", c.Status, c.Reason, c.Message, part)
		}
	}

	return c.Status
}

// resumed lets the hosts reach each other again and gives the order once more, which brings the migration to its end,
// and begins none.
func (b *torn) resumed() {
	b.t.Helper()
	b.l.Run(b.t, b.from.Name, "iptables", "-F")

	b.order.Options.RecoveryTimeout = new(time.Hour)

	ended := fleettest.Await(b.t, b.move(b.t.Context()))

	now, record, err := ended.vm, ended.record, ended.err
	if err != nil || now.Host != b.to.Name || !now.Running() || !record.Recovered || record.Failed ||
		record.Mode != string(migration.PostCopy) || record.Transport != migration.TransportDirect ||
		len(now.Metadata.Migrations) != 1 || !now.Autostart {
		b.t.Errorf("%+v, %+v, %v", now, record, err)
	}

	onlyOn(b.t, b.f, b.vm.UUID, b.to.Name)
	recorded(b.t, b.l, b.to.Name, b.vm.UUID, `id="4711"`, `phase="Succeeded"`, `recovered="true"`)
}

// While a run resumes it, it isn't given up, and an abort destroys nothing. It is given up when that ends. A run whose
// deadline is over keeps it as it is, and it is resumed by whoever comes when the hosts reach each other again.
func TestLab_brokenMigrationIsResumedLater(t *testing.T) {
	t.Parallel()

	b := newTorn(t, migration.Options{
		RecoveryTimeout: new(time.Hour), OnIrrecoverable: migration.IrrecoverableDestroy,
	})

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	over := b.move(ctx)
	b.tear(over)
	b.await("both hosts to notice", b.inTwoParts)

	if got := b.irrecoverable(); got != status.False {
		t.Errorf("while it is resumed it is Irrecoverable: %s", got)
	}

	cancel()

	e := fleettest.Await(b.t, over)
	if !errors.Is(e.err, migration.ErrPostCopyBroken) || errors.Is(e.err, migration.ErrIrrecoverable) {
		t.Errorf("%+v, %v", e.record, e.err)
	}

	if !b.inTwoParts() {
		t.Errorf("the source has it %s, the target %s", b.seen(b.from), b.seen(b.to))
	}

	if got := b.irrecoverable(); got != status.True {
		t.Errorf("when no run resumes it, it is Irrecoverable: %s", got)
	}

	if _, err := b.f.Delete(t.Context(), b.vm.UUID, lastOf(b.vm), 0); !errors.Is(err, inventory.ErrBusy) ||
		!b.inTwoParts() {
		t.Errorf("deleting it: %v", err)
	}

	b.order.Options.RecoveryTimeout = new(5 * time.Second)
	b.order.Options.OnIrrecoverable = migration.IrrecoverableKeep

	_, record, err := b.f.MoveOnce(t.Context(), b.order)
	if !errors.Is(err, migration.ErrIrrecoverable) || errors.Is(err, move.ErrDestroyed) || record.Recovered {
		t.Errorf("while the hosts don't reach each other: %+v, %v", record, err)
	}

	if got := b.irrecoverable(); got != status.True || !b.inTwoParts() {
		t.Errorf("Irrecoverable: %s; the source has it %s, the target %s", got, b.seen(b.from), b.seen(b.to))
	}

	b.resumed()
}

// What can't be resumed until the deadline and is to be destroyed leaves one definition, off, and its record says what
// happened.
func TestLab_irrecoverableMigration(t *testing.T) {
	t.Parallel()

	b := newTorn(t, migration.Options{
		RecoveryTimeout: new(5 * time.Second), OnIrrecoverable: migration.IrrecoverableDestroy,
	})

	over := b.move(t.Context())
	b.tear(over)

	e := fleettest.Await(b.t, over)
	if !errors.Is(e.err, migration.ErrIrrecoverable) || !errors.Is(e.err, move.ErrDestroyed) {
		t.Fatalf("%+v, %v", e.record, e.err)
	}

	if e.vm == nil || e.vm.State != libvirt.Shutoff || !e.record.Failed {
		t.Errorf("%+v, %+v", e.vm, e.record)
	}

	onlyOn(t, b.f, b.vm.UUID, b.to.Name)

	_, kept, err := b.f.MigrationRecord(t.Context(), b.vm.UUID, b.order.Last, b.order.ID)
	if err != nil || !kept.Failed || kept.Mode != string(migration.PostCopy) ||
		!strings.Contains(kept.FailureReason, move.ErrDestroyed.Error()) {
		t.Errorf("%+v, %v", kept, err)
	}
}

// The run that moves the VM is killed when all of its memory has come, and before its guest is started on the target.
// Neither libvirt removes anything. The next run resumes the guest at the source, and then moves it.
func TestLab_runIsKilledAtTheSwitchover(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	from, to := l.StartHost(t), l.StartHost(t)
	alone, f := ownFleet(t, "alice", from), ownFleet(t, "alice", from, to)
	d := evacuee(t, l, "still", nil)
	d.Spec.Kernel.Cmdline += " dirty=8"
	vm := booted(t, l, create(t, alone, l, d))

	left := migration.State{
		SourceHost: from.Name, TargetHost: to.Name, Start: time.Now(), Phase: migration.PhasePreparingTarget,
	}.Record("", "a run that is lost")
	if _, err := records.WriteMetadata(t.Context(), vm, vm.Metadata.WithMigration(left)); err != nil {
		t.Fatal(err)
	}

	wake := l.LoseMover(t, vm.Name, from, to)

	problems, err := f.CheckMove(t.Context(), move.Order{UUID: vm.UUID, Last: lastOf(vm), Target: to.Name}, nil)
	if err != nil || len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].Summary, "ended first") {
		t.Errorf("the plan: %+v, %v", problems, err)
	}

	now, state, err := f.Move(t.Context(), vm.UUID, lastOf(vm), to.Name, migration.Options{})
	if err != nil || now.Host != to.Name || !now.Running() || state.Phase != migration.PhaseSucceeded {
		t.Fatalf("%+v, %+v, %v", now, state, err)
	}

	if m := now.Metadata.Migrations; len(m) != 2 || !m[0].Failed || !m[0].Completed() || m[1].Failed {
		t.Errorf("%+v", m)
	}

	if err := wake(); err == nil {
		t.Error("the run that was resumed reports that it moved the VM")
	}

	onlyOn(t, f, vm.UUID, to.Name)

	if d, err := f.Host(to.Name).Conn.Domain(t.Context(), vm.UUID); err != nil || d.State != libvirt.Running {
		t.Errorf("%+v, %v", d, err)
	}
}

// The source's QEMU dies while the rest of the memory is there: the guest on the target hangs at the first page
// it lacks. libvirt calls it running. Every reader gives one verdict on it: it failed, isn't ready, and what to do.
func TestLab_sourceLostInPostCopy(t *testing.T) {
	t.Parallel()

	b := newTorn(t, migration.Options{RecoveryTimeout: new(5 * time.Second)})

	over := b.move(t.Context())
	fleettest.AwaitCopying(t, b.f.Host(b.from.Name), b.vm.UUID, over)

	release := b.l.HoldPostCopy(t, b.from, b.to, b.vm.Name)
	b.l.Run(t, b.from.Name, "sh", "-c", "kill -KILL $(cat /run/libvirt/qemu/"+b.vm.Name+".pid)")
	release()

	e := fleettest.Await(b.t, over)
	if !errors.Is(e.err, migration.ErrMemoryLost) || !errors.Is(e.err, migration.ErrIrrecoverable) || !e.record.Failed {
		t.Errorf("%+v, %v", e.record, e.err)
	}

	for _, part := range []string{"source is gone", b.from.Name, b.to.Name, "(PostcopyFailed)"} {
		if !strings.Contains(e.err.Error(), part) {
			t.Errorf("the order doesn't say %q: %v", part, e.err)
		}
	}

	for _, wrong := range []string{"it was not moved", "Destroy neither"} {
		if strings.Contains(e.err.Error(), wrong) {
			t.Errorf("the order says %q: %v", wrong, e.err)
		}
	}

	b.await("libvirt to call the target's part failed", func() bool {
		return b.seen(b.to) == "Running (PostcopyFailed)" && !strings.Contains(b.seen(b.from), "Postcopy")
	})

	last := inventory.LastKnown{Host: b.to.Name}

	o, err := b.f.Observe(t.Context(), observe.Question{UUID: b.vm.UUID})
	if err != nil {
		t.Fatal(err)
	}

	want := map[string]status.ConditionStatus{
		status.Ready: status.False, status.Irrecoverable: status.True, status.LiveMigratable: status.False,
		status.AgentConnected: status.False,
	}
	for of, truth := range want {
		if c := status.ConditionOf(o.Facts, of); c.Status != truth {
			t.Errorf("%s is %s (%s): %s", of, c.Status, c.Reason, c.Message)
		}
	}

	if s := status.PrintableStatus(o.Facts); s != status.StatusFailed || o.VM.Phase() != status.PhaseFailed ||
		o.VM.Status() != s || (WaitFor{}).Ready(o.VM, nil) {
		t.Errorf("status %s and %s, phase %s", s, o.VM.Status(), o.VM.Phase())
	}

	if m := o.Migration; m == nil || m.Phase != migration.PhaseFailed || !m.Failed || m.Mode != "PostCopy" ||
		m.SourceHost != b.from.Name || m.TargetHost != b.to.Name || !strings.Contains(m.FailureReason, "lost") {
		t.Errorf("the migration: %+v", m)
	}

	if _, kept, err := b.f.MigrationRecord(t.Context(), b.vm.UUID, last, b.order.ID); err != nil || kept == nil ||
		!kept.Failed {
		t.Errorf("its record: %+v, %v", kept, err)
	}

	refused, ok := errors.AsType[*inventory.Error](o.VM.RequireIdle())
	if !ok || !strings.Contains(refused.Detail, "is lost") || !strings.Contains(refused.Remedy, "on_irrecoverable") {
		t.Errorf("whoever wants to change it is told: %+v", refused)
	}

	problems, err := b.f.CheckMove(t.Context(), move.Order{UUID: b.vm.UUID, Last: last, Target: b.from.Name}, nil)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Detail, "is lost") {
		t.Errorf("the plan: %+v, %v", problems, err)
	}

	b.isEndedByHand(last)
}

// isEndedByHand fences the source, about which the provider then knows nothing. So it doesn't end what is left,
// whatever on_irrecoverable says. It says what a user does, and that works: the next apply starts the VM.
func (b *torn) isEndedByHand(last inventory.LastKnown) {
	t := b.t
	t.Helper()

	cfg := ownConfig("bob", b.from, b.to)
	fenced := cfg.Hosts[b.from.Name]
	fenced.Fenced = true
	cfg.Hosts[b.from.Name] = fenced
	f := openFleet(t, cfg)

	destroy := move.Order{UUID: b.vm.UUID, Last: last, Target: b.to.Name}
	destroy.Options.OnIrrecoverable = migration.IrrecoverableDestroy

	_, _, err := f.MoveOnce(t.Context(), destroy)
	command := "virsh destroy " + b.vm.UUID

	if e, ok := errors.AsType[*inventory.Error](err); !ok || !strings.Contains(e.Remedy, command) ||
		!strings.Contains(e.Remedy, b.from.Name) || strings.Contains(e.Remedy, "on_irrecoverable") {
		t.Fatalf("with the source fenced: %+v, %v", e, err)
	}

	if !strings.Contains(b.l.Virsh(t, b.to.Name, "dominfo", b.vm.UUID), "Persistent:     yes") {
		t.Error("virsh destroy would remove the definition, too")
	}

	b.l.Virsh(t, b.to.Name, strings.Fields(command)[1:]...)

	now, err := f.Update(t.Context(), b.vm.UUID, last, b.desired)
	if err != nil || now.Host != b.to.Name || !now.Running() {
		t.Errorf("after it was ended by hand: %+v, %v", now, err)
	}
}
