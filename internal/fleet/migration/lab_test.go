package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// slow is a bandwidth at which a guest that writes to its memory never arrives.
const slow = 2 << 20

// bench is two hosts and a guest on the first.
type bench struct {
	lab            *lab.Lab
	source, target *libvirt.Host
	machine        VM
	// tunnels make a relay possible; nil leaves it out.
	tunnels func(t *testing.T, h *lab.Host) func() (Tunnel, error)
	// peers is where the target's libvirt is reached at its address, a format; "" leaves it out.
	peers string
	// keepsData says that the guest reads its disk again and again.
	keepsData bool
	// stallWindow shortens what the stall detector waits for.
	stallWindow time.Duration
}

// newBench starts a guest on one of the lab's shared hosts.
func newBench(t *testing.T, words string) *bench {
	t.Helper()
	l := lab.Open(t)
	return newBenchOn(t, l, l.Host("kvm1"), l.Host("kvm2"), words)
}

// newBenchOn starts a guest with a disk that both hosts reach, and waits until it is up. words are for the guest.
func newBenchOn(t *testing.T, l *lab.Lab, source, target *lab.Host, words string) *bench {
	t.Helper()
	name := lab.Name(t)
	export := l.NBD(t, name, 16<<20)
	b := newBenchWith(t, l, source, target, name, words+" noagent", fmt.Sprintf(`<disk type='network' device='disk'>
      <driver name='qemu' type='raw' cache='none'/>
      <source protocol='nbd' name='%s'><host name='%s' port='%d'/></source>
      <target dev='vda' bus='virtio'/>
    </disk>`, export.Name, export.Host, export.Port))
	b.keepsData = slices.Contains(strings.Fields(words), "data")
	b.intact(t, b.source)
	return b
}

// newBenchWith starts a guest of that name with these devices.
func newBenchWith(t *testing.T, l *lab.Lab, source, target *lab.Host, name, words, devices string) *bench {
	t.Helper()
	b := &bench{lab: l, source: open(t, source), target: open(t, target)}
	l.RemoveDomain(t, name)
	uuid, err := b.source.DefineDomain(t.Context(), fmt.Sprintf(`<domain type='qemu'>
  <name>%[1]s</name>
  <memory unit='MiB'>128</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>%[2]s</kernel><initrd>%[3]s</initrd><cmdline>%[4]s counter %[5]s</cmdline>
  </os>
  <features><acpi/></features>
  <devices>
    %[6]s
    <serial type='file'><source path='%[7]s'/></serial>
  </devices>
</domain>`, name, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline, words, devices, lab.ConsoleLog(name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.source.StartDomain(t.Context(), uuid); err != nil {
		t.Fatal(err)
	}
	b.machine.Name = name
	lab.Await(t, "the guest to count", func() bool { return b.counter(source.Name) > 1 })
	b.machine, err = Inspect(t.Context(), b.source, uuid, true)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, h *lab.Host) *libvirt.Host {
	t.Helper()
	return openSocket(t, h.Name, h.Path("/run/libvirt/libvirt-sock"))
}

// openSocket opens a host by its libvirt's socket, for as long as the test runs.
func openSocket(t *testing.T, name, socket string) *libvirt.Host {
	t.Helper()
	host, err := libvirt.Open(libvirt.Config{Name: name, URI: "qemu+unix:///system?socket=" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return host
}

// counter is the last number that the guest counted on a host, 0 when none.
func (b *bench) counter(host string) int {
	counts := b.counts(host)
	if len(counts) == 0 {
		return 0
	}
	return counts[len(counts)-1]
}

// counts are the numbers that the guest counted on a host since it arrived there. One that is being printed is none
// yet, nor is one that was when the guest left.
func (b *bench) counts(host string) []int {
	data, err := os.ReadFile(b.lab.Host(host).Path(lab.ConsoleLog(b.machine.Name)))
	if err != nil {
		return nil
	}
	var all []int
	for line := range strings.Lines(string(data)) {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "counter %d", &n); err == nil && strings.HasSuffix(line, "\n") {
			all = append(all, n)
		}
	}
	return all
}

// patience is how long a move may take that is to end by itself.
const patience = 8 * time.Minute

// run moves the VM, and removes the originals of its copied disks afterwards if they aren't kept, as the caller of Run
// does.
func (b *bench) run(ctx context.Context, t *testing.T, o Options, progress func(State)) (State, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var created []string
	request := Request{
		VM: b.machine, Source: b.source, Target: b.target, Address: b.lab.Host(b.target.Name()).Address,
		Options: o, Progress: progress, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		stallWindow: b.stallWindow,
		Created: func(_ context.Context, _ State, files []string) error {
			created = append(created, files...)
			return nil
		},
	}
	if b.tunnels != nil {
		request.SourceTunnel = b.tunnels(t, b.lab.Host(b.source.Name()))
		request.TargetTunnel = b.tunnels(t, b.lab.Host(b.target.Name()))
	}
	if b.peers != "" {
		request.PeerURI = fmt.Sprintf(b.peers, request.Address)
	}
	state, err := Run(ctx, request)
	t.Logf("%+v: %v", state, err)
	if err != nil || *o.WithDefaults().KeepSourceDisks {
		return state, err
	}
	for _, disk := range b.machine.Mobility.Disks {
		if disk.ReadOnly || !slices.Contains(created, disk.Path) {
			continue
		}
		if stays, _, err := RemoveOriginal(ctx, b.source, b.target, disk.Path); err != nil || stays != "" {
			t.Errorf("%s stays: %s (%v)", disk.Path, stays, err)
		}
	}
	return state, err
}

// runsOnlyOn fails the test unless the VM runs on one host with its data, and the other has nothing of it.
func (b *bench) runsOnlyOn(t *testing.T, here, there *libvirt.Host) {
	t.Helper()
	d, err := here.Domain(t.Context(), b.machine.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if d.State != libvirt.Running || !d.Persistent {
		t.Errorf("on %s it is %s (%s), persistent: %v", here.Name(), d.State, d.Reason, d.Persistent)
	}
	if d, err := there.Domain(t.Context(), b.machine.UUID); !errors.Is(err, libvirt.ErrNotFound) {
		t.Errorf("on %s: %+v, %v; want nothing", there.Name(), d, err)
	}
	before := b.counter(here.Name())
	b.intact(t, here)
	lab.Await(t, "the guest to keep counting", func() bool { return b.counter(here.Name()) > before })
}

// intact fails the test unless the guest, which runs there, reads from its disk what it wrote at its beginning.
func (b *bench) intact(t *testing.T, at *libvirt.Host) {
	t.Helper()
	if b.keepsData {
		b.lab.AwaitData(t, at.Name(), b.machine.Name)
	}
}

// Ten times in a row, in both directions: the guest never stops counting, never counts a number twice, and keeps its
// data.
func TestLab_movesTenTimesInARow(t *testing.T) {
	t.Parallel()
	b := newBench(t, "data")
	for i := range 10 {
		blockers, err := CheckHosts(t.Context(), b.machine, b.source, b.target, Options{})
		if err != nil || len(Blocking(blockers)) > 0 {
			t.Fatalf("preflight: %+v, %v", blockers, err)
		}
		before := b.counter(b.source.Name())
		var told []State
		state, err := b.run(t.Context(), t, Options{}, func(s State) { told = append(told, s) })
		if err != nil {
			t.Fatalf("move %d: %+v, %v", i+1, state, err)
		}
		if state.Phase != PhaseSucceeded || !state.Completed || state.Failed || state.Statistics.Downtime == 0 {
			t.Errorf("move %d: state %+v", i+1, state)
		}
		if len(told) == 0 || told[len(told)-1].Phase != PhaseSucceeded {
			t.Errorf("move %d: told %+v", i+1, told)
		}
		b.runsOnlyOn(t, b.target, b.source)
		counts := b.counts(b.target.Name())
		if len(counts) == 0 || counts[0] < before || !slices.IsSorted(counts) ||
			len(slices.Compact(slices.Clone(counts))) != len(counts) {
			t.Errorf("move %d: it had counted to %d, and continued with %v", i+1, before, counts)
		}
		b.source, b.target = b.target, b.source
	}
}

// A guest that writes faster than can be copied: a migration that is late, stuck or cancelled is aborted, and a pause
// that doesn't help is taken back. Each time the guest runs at its source, as it did before. Post-copy ends it.
func TestLab_whatCannotConverge(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dirty=32 data")
	b.isAborted(t)
	b.isCancelled(t)

	state, err := b.run(t.Context(), t, Options{
		AllowWorkloadDisruption: new(true), CompletionTimeoutPerGiB: new(2 * time.Second), Bandwidth: new(uint64(1 << 20)),
	}, nil)
	if !errors.Is(err, ErrLate) || state.Mode != Paused {
		t.Errorf("paused: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.source, b.target)

	state, err = b.run(t.Context(), t, Options{
		AllowPostCopy: new(true), CompletionTimeoutPerGiB: new(3 * time.Second), Bandwidth: new(uint64(slow)),
	}, nil)
	if err != nil || state.Mode != PostCopy {
		t.Errorf("in post-copy: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
}

// isAborted expects that what doesn't end in its time, or doesn't get on, is aborted.
func (b *bench) isAborted(t *testing.T) {
	t.Helper()
	for name, o := range map[string]Options{
		// Within the timeout no more than a tenth of the memory comes.
		"completion": {CompletionTimeoutPerGiB: new(3 * time.Second), Bandwidth: new(uint64(slow))},
		// When all has come once, there is again as much as the guest wrote to meanwhile, however slowly that did.
		"progress": {ProgressTimeout: new(time.Millisecond), Bandwidth: new(uint64(4 * slow))},
	} {
		state, err := b.run(t.Context(), t, o, nil)
		want := map[string]error{"completion": ErrLate, "progress": ErrStuck}[name]
		if failed, ok := errors.AsType[*FailedError](err); !ok || !errors.Is(err, want) ||
			!strings.Contains(failed.Error(), "remained") || !strings.Contains(failed.Where, `on host "kvm1" (Running)`) {
			t.Errorf("%s: got %v", name, err)
		}
		if !state.Failed || state.FailurePlane != PlaneData || state.AbortStatus != AbortSucceeded {
			t.Errorf("%s: state %+v", name, state)
		}
		b.runsOnlyOn(t, b.source, b.target)
	}
}

// isCancelled expects that a migration is aborted when it is cancelled, at the very beginning and in the middle.
func (b *bench) isCancelled(t *testing.T) {
	t.Helper()
	for _, phase := range []string{PhasePreparingTarget, PhaseRunning} {
		ctx, cancel := context.WithCancel(t.Context())
		if phase == PhasePreparingTarget {
			cancel()
		}
		var asked time.Time
		var phases []string
		state, err := b.run(ctx, t, Options{Bandwidth: new(uint64(slow))}, func(s State) {
			if s.Phase != PhasePreparingTarget {
				phases = append(phases, s.Phase)
			}
			if s.Phase == phase && s.Statistics.Data.Processed > 0 && asked.IsZero() {
				asked = time.Now()
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) || !state.Failed || state.AbortStatus != AbortSucceeded {
			t.Errorf("%s: state %+v: %v", phase, state, err)
		}
		phases = slices.Compact(phases)
		if phase == PhaseRunning && !slices.Equal(phases, []string{PhaseTargetReady, PhaseRunning, PhaseFailed}) {
			t.Errorf("phases %v", phases)
		}
		if !asked.IsZero() {
			t.Logf("aborted within %v", time.Since(asked))
		}
		b.runsOnlyOn(t, b.source, b.target)
	}
}

// Once the guest is paused all of its memory comes, in the end: here at once, so that it is not too late for any.
func TestLab_pauseEndsWhatCannotConverge(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dirty=8")
	var hurried sync.Once
	state, err := b.run(t.Context(), t, Options{
		AllowWorkloadDisruption: new(true), CompletionTimeoutPerGiB: new(10 * time.Second), Bandwidth: new(uint64(slow)),
	}, func(s State) {
		if s.Mode == Paused {
			hurried.Do(func() {
				if err := b.source.SetMigrationBandwidth(t.Context(), b.machine.UUID, 8<<30, false); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if err != nil || state.Mode != Paused {
		t.Errorf("state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
}

func TestLab_autoConvergeEndsWhatCannotConverge(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dirty=16@max")
	throttled := 0
	state, err := b.run(t.Context(), t, Options{
		AllowAutoConverge: new(true), Bandwidth: new(uint64(24 << 20)), CompletionTimeoutPerGiB: new(2 * time.Minute),
	}, func(s State) { throttled = max(throttled, s.Statistics.AutoConvergeThrottle) })
	if err != nil {
		t.Fatalf("state %+v: %v", state, err)
	}
	t.Logf("throttled to %d %%", throttled)
	if told := state.Statistics.AutoConvergeThrottle; told != throttled {
		t.Errorf("it tells a throttle of %d %%, and was slowed down by %d", told, throttled)
	}
	b.runsOnlyOn(t, b.target, b.source)
}

// A guest that writes faster than can be copied, with all the time that there is: only the stall can be the reason for
// what becomes of it. It is aborted early; where that is allowed, a stop or post-copy ends it.
func TestLab_stalls(t *testing.T) {
	t.Parallel()
	// It writes four times as fast as is copied, as elsewhere. It is all faster, and there is less of it: three
	// migrations have to last until they stall.
	b := newBench(t, "dirty=16@16")
	b.lab.AwaitConsole(t, b.source.Name(), b.machine.Name, lab.GuestWrites)
	b.stallWindow = time.Second
	stalling := Options{
		StallDetector: new(true), Bandwidth: new(uint64(2 * slow)), CompletionTimeoutPerGiB: new(24 * time.Hour),
		ProgressTimeout: new(time.Duration(0)),
	}

	state, err := b.run(t.Context(), t, stalling, nil)
	failed, ok := errors.AsType[*FailedError](err)
	if !ok || !errors.Is(err, ErrStalled) || errors.Is(err, ErrLate) || errors.Is(err, ErrStuck) ||
		!strings.Contains(failed.Where, `on host "kvm1" (Running)`) {
		t.Errorf("got %v", err)
	}
	if !state.Failed || state.FailurePlane != PlaneData || state.AbortStatus != AbortSucceeded || state.Mode != PreCopy ||
		!strings.HasPrefix(state.FailureReason, ErrStalled.Error()) || state.Statistics.Iteration < 2 {
		t.Errorf("state %+v", state)
	}
	b.runsOnlyOn(t, b.source, b.target)

	// Once QEMU may stop the guest for as long as that takes, all of its memory comes. It comes at full speed then: the
	// guest may continue before the test has seen it paused.
	stopped := stalling
	stopped.AllowWorkloadDisruption = new(true)
	state, err = b.run(t.Context(), t, stopped, nil)
	if err != nil || state.Mode == PostCopy || state.AbortRequested {
		t.Errorf("stopped: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)

	b.source, b.target = b.target, b.source
	before := b.counter(b.source.Name())
	ahead := stalling
	ahead.AllowPostCopy = new(true)
	state, err = b.run(t.Context(), t, ahead, nil)
	if err != nil || state.Mode != PostCopy || state.AbortRequested {
		t.Errorf("in post-copy: state %+v: %v", state, err)
	}
	b.runsOnlyOn(t, b.target, b.source)
	if now := b.counter(b.target.Name()); now <= before {
		t.Errorf("the guest's counter went from %d to %d: it was restarted", before, now)
	}
}
