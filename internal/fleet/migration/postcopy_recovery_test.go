package migration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// slowPostCopy is a bandwidth that leaves a test the time to break a post-copy.
const slowPostCopy = 1 << 20

// postCopy migrates with a switch to post-copy, which is slow. Once the guest runs on the target, and waits there for a
// page, broken is called.
func (b *bench) postCopy(t *testing.T, o Options, broken func()) (State, error) {
	t.Helper()
	o.AllowPostCopy, o.CompletionTimeoutPerGiB, o.Bandwidth = new(true), new(2*time.Second), new(uint64(slow))
	if err := b.source.SetMigrationBandwidth(t.Context(), b.machine.UUID, slowPostCopy, true); err != nil {
		t.Fatal(err)
	}
	source, target := b.lab.Host(b.source.Name()), b.lab.Host(b.target.Name())
	var broke, hurried sync.Once
	var done atomic.Bool
	var breaking sync.WaitGroup
	defer breaking.Wait()
	return b.run(t.Context(), t, o, func(s State) {
		if done.Load() {
			// The rest may come at full speed.
			hurried.Do(func() { _ = b.source.SetMigrationBandwidth(t.Context(), b.machine.UUID, 0, true) })
			return
		}
		if s.Mode == PostCopy {
			broke.Do(func() {
				breaking.Go(func() {
					release := b.lab.HoldPostCopy(t, source, target, b.machine.Name)
					broken()
					release()
					done.Store(true)
				})
			})
		}
	})
}

// cutLink ends the connections over which memory goes from the source to the target.
func (b *bench) cutLink(t *testing.T) {
	t.Helper()
	b.lab.CutMigration(t, b.lab.Host(b.source.Name()), b.lab.Host(b.target.Name()))
}

// lookForAWay does what every migration to the target does before it begins.
func (b *bench) lookForAWay(t *testing.T) {
	t.Helper()
	target := b.lab.Host(b.target.Name())
	tunnel, err := b.overSSH(t, b.lab.Host(b.source.Name()))()
	if err != nil {
		t.Error(err)
		return
	}
	r := &run{Request: Request{Source: b.source, Target: b.target, Address: target.Address}, sourceTunnel: tunnel}
	if r.targetSilent(t.Context()) {
		t.Error("the target doesn't answer")
	}
	if err := tunnel.Close(); err != nil {
		t.Error(err)
	}
}

// Before it is resumed another migration looks for a way to the target, where QEMU listens still.
func TestLab_brokenPostCopyIsRecovered(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	b := newBenchOn(t, l, l.StartHost(t), l.StartHost(t), "dirty=32 data")
	b.tunnels = b.overSSH
	for _, transport := range []string{TransportDirect, TransportSSHRelay} {
		before := b.counter(b.source.Name())
		state, err := b.postCopy(t, Options{}, func() {
			if transport != TransportDirect { // It was begun directly.
				wall(t, l, l.Host(b.source.Name()), "REJECT")
			}
			b.cutLink(t)
			lab.Await(t, "the source to notice", func() bool {
				return readDomain(t.Context(), b.source, b.machine.UUID).failedPostCopy()
			})
			b.lookForAWay(t)
		})
		if err != nil || !state.Recovered || state.Mode != PostCopy || state.Transport != transport {
			t.Errorf("%s: state %+v: %v", transport, state, err)
		}
		b.switchedOver(t)
		// It tells that all was sent, even if libvirt is restarted and has forgotten it.
		log := b.lab.Run(t, b.source.Name(), "tail", "-n", "3", "/var/log/libvirt/qemu/"+b.machine.Name+".log")
		if !strings.Contains(log, "reason=migrated") {
			t.Errorf("%s: the log of the source's QEMU ends with %q", transport, log)
		}
		lab.Await(t, "the guest to keep counting", func() bool { return b.counter(b.target.Name()) > before })
		b.noSockets(t)
		b.turn(t)
	}
}

// What can't be resumed is told as it is, and nothing is destroyed.
func TestLab_brokenPostCopyIsKept(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	own, target := l.StartHost(t), l.StartHost(t)
	b := newBenchOn(t, l, own, target, "dirty=32")
	state, err := b.postCopy(t, Options{RecoveryTimeout: new(5 * time.Second)}, func() {
		wall(t, l, own, "REJECT")
		b.cutLink(t)
	})
	failed, ok := errors.AsType[*FailedError](err)
	want := fmt.Sprintf(`on host %q (Running (PostcopyFailed)) and lacks memory that is on host %q `+
		`(Paused (PostcopyFailed))`, target.Name, own.Name)
	if !errors.Is(err, ErrIrrecoverable) || !ok || !strings.Contains(failed.Where, want) || state.Recovered {
		t.Errorf("state %+v: %v", state, err)
	}
}

// What libvirt only estimated is no number of a migration that is over.
func TestRecord_hasNoEstimates(t *testing.T) {
	t.Parallel()
	job := libvirt.Job{Downtime: 856 * time.Millisecond, Data: libvirt.Transfer{Total: 8, Processed: 4, Remaining: 4}}
	for name, test := range map[string]struct {
		state               State
		downtime, remaining uint64
	}{
		"pre-copy":  {State{Phase: PhaseSucceeded, Mode: PreCopy}, 856, 0},
		"post-copy": {State{Phase: PhaseSucceeded, Mode: PostCopy}, 0, 0},
		"failed":    {State{Phase: PhaseFailed, Failed: true, Mode: PreCopy}, 0, 4},
		"running":   {State{Phase: PhaseRunning, Mode: PreCopy}, 856, 4},
	} {
		test.state.Statistics = job
		if s := test.state.Record("", "").Statistics; s.Downtime != test.downtime || s.Remaining != test.remaining {
			t.Errorf("%s: downtime %d, remaining %d", name, s.Downtime, s.Remaining)
		}
	}
}

// Where hosts don't answer when the time of a run is over, each may have a part of the guest.
func TestResumePostCopy_whereNoHostAnswers(t *testing.T) {
	t.Parallel()
	silent := silentHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRun(Request{Source: silent, Target: silent})
	r.waitGivenUp = true // It doesn't wait for hosts that may be about to be back.
	for mode, open := range map[Mode]bool{PreCopy: false, PostCopy: true} {
		r.state.Mode = mode
		err := r.resumePostCopy(ctx, libvirt.ErrUnreachable)
		if errors.Is(err, ErrPostCopyOpen) != open || !errors.Is(err, libvirt.ErrUnreachable) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestRecovery_nextStep: nothing is destroyed while a host can't tell, a part of the guest's memory that is gone is
// reported as lost, and no attempt begins once the run is to stop.
func TestRecovery_nextStep(t *testing.T) {
	t.Parallel()
	view := func(state libvirt.DomainState, reason string) hostView {
		return hostView{domain: &libvirt.Domain{State: state, Reason: reason, Persistent: true}}
	}
	broken := view(libvirt.Paused, libvirt.ReasonPostcopyFailed)
	lacking := view(libvirt.Running, libvirt.ReasonPostcopyFailed)
	ended := view(libvirt.Shutoff, libvirt.ReasonMigrated)
	awaiting := view(libvirt.Running, libvirt.ReasonPostcopy)
	silent := hostView{err: libvirt.ErrUnreachable}
	later, over := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for name, test := range map[string]struct {
		recovery
		step resumeStep
		err  error
		told bool // to stop
	}{
		"arrived": {recovery: recovery{where: arrived}, step: resumeArrived},
		"stayed":  {recovery: recovery{where: stayed, inPostCopy: true}, err: libvirt.ErrInternal},
		"the target is gone": {
			recovery: recovery{where: inPostCopy, source: broken, deadline: later}, err: ErrMemoryLost,
		},
		"the source is gone": {
			recovery: recovery{where: inPostCopy, target: lacking, deadline: later}, err: ErrMemoryLost,
		},
		"the source has ended, and the target not yet": {
			recovery: recovery{where: inPostCopy, target: awaiting, deadline: later}, step: resumeWait,
		},
		"the source has sent all, and the target takes it for broken": {
			recovery: recovery{where: inPostCopy, source: ended, target: lacking, deadline: later}, step: resumeWait,
		},
		"the source has sent all, and the target stays as it is": {
			recovery: recovery{where: inPostCopy, source: ended, target: lacking, deadline: over}, err: libvirt.ErrInternal,
		},
		"the source has sent all, which is told at the end": {
			recovery: recovery{where: inPostCopy, source: ended, target: lacking, deadline: over}, err: ErrAllSent,
		},
		"told to stop when the source has sent all": {
			recovery: recovery{where: inPostCopy, source: ended, target: lacking, deadline: later}, told: true, err: ErrAllSent,
		},
		"the source is gone, and the target doesn't notice": {
			recovery: recovery{where: inPostCopy, target: awaiting, deadline: over}, err: ErrMemoryLost,
		},
		"told to stop while the target is about to arrive": {
			recovery: recovery{where: inPostCopy, target: awaiting, deadline: later}, told: true, err: ErrPostCopyOpen,
		},
		"the target is silent": {
			recovery: recovery{where: inPostCopy, source: broken, target: silent, deadline: later}, step: resumeWait,
		},
		"at first": {
			recovery: recovery{where: inPostCopy, source: broken, target: lacking, deadline: later}, step: resumeSettle,
		},
		"then": {
			recovery: recovery{where: inPostCopy, source: broken, target: lacking, deadline: later, settled: true},
			step:     resumeTry,
		},
		"late, but once": {
			recovery: recovery{where: inPostCopy, source: broken, target: lacking, deadline: over, settled: true},
			step:     resumeTry,
		},
		"in vain": {
			recovery: recovery{where: inPostCopy, source: broken, target: lacking, deadline: over, attempt: 1},
			err:      ErrIrrecoverable,
		},
		"refused as unsupported": {
			recovery: recovery{
				where: inPostCopy, source: broken, target: lacking, deadline: over, attempt: 1, failure: libvirt.ErrUnsupported,
			},
			err: ErrPostCopyBroken,
		},
		"told to stop": {
			recovery: recovery{where: inPostCopy, source: broken, target: lacking, deadline: later, settled: true},
			told:     true, err: ErrPostCopyBroken,
		},
		"told to stop while no host answers": {
			recovery: recovery{where: unknown, source: silent, target: silent, deadline: later, inPostCopy: true},
			told:     true, err: ErrPostCopyOpen,
		},
	} {
		ctx := t.Context()
		if test.told {
			ctx = stopped
		}
		if test.failure == nil {
			test.failure = libvirt.ErrInternal
		}
		step, err := test.nextStep(ctx)
		if step != test.step || !errors.Is(err, test.err) || (err != nil) != (test.err != nil) ||
			errors.Is(err, ErrIrrecoverable) && test.err == ErrPostCopyBroken { //nolint:errorlint // the table's own value
			t.Errorf("%s: step %d, error %v; want step %d, error %v", name, step, err, test.step, test.err)
		}
	}
}

// What is said of the memory of a guest that was handed over in post-copy follows from why its source's process ended.
func TestDescribeLocation_ofTheMemory(t *testing.T) {
	t.Parallel()
	target := hostView{domain: &libvirt.Domain{State: libvirt.Running, Reason: libvirt.ReasonPostcopyFailed}}
	for want, source := range map[string]hostView{
		"sent all of its memory": {domain: &libvirt.Domain{State: libvirt.Shutoff, Reason: libvirt.ReasonMigrated}},
		`memory that is gone from host "kvm1" (Shutoff (Crashed))`: {
			domain: &libvirt.Domain{State: libvirt.Shutoff, Reason: "Crashed"},
		},
		`memory that is gone from host "kvm1" (Shutoff (Unknown))`: {
			domain: &libvirt.Domain{State: libvirt.Shutoff, Reason: "Unknown"},
		},
		`memory that is gone from host "kvm1" (absent)`: {},
		"memory that is on host": {
			domain: &libvirt.Domain{State: libvirt.Paused, Reason: libvirt.ReasonPostcopyFailed},
		},
	} {
		r := &run{}
		r.state.SourceHost, r.state.TargetHost = "kvm1", "kvm2"
		if got := r.describeLocation(inPostCopy, source, target); !strings.Contains(got, want) ||
			strings.Contains(got, "gone from") != strings.Contains(want, "gone from") {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}
