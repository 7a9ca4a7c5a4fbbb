package migration

import (
	"cmp"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// tick is what is seen at a second, of MB that remain, and what has to be done about it. Unless it is a poll, QEMU has
// just begun an iteration.
type tick struct {
	second, remaining float64
	want              action
	poll, stopped     bool
}

// stalling are four iterations that leave 100 MB, one every ten seconds, and what follows.
func stalling(then ...tick) []tick {
	return append([]tick{
		begins(10, 100, noAction), begins(20, 100, noAction), begins(30, 100, noAction), begins(40, 100, noAction),
	}, then...)
}

func poll(second, remaining float64, want action) tick {
	return tick{second: second, remaining: remaining, want: want, poll: true}
}

func begins(second, remaining float64, want action) tick {
	return tick{second: second, remaining: remaining, want: want}
}

func TestStallDetector_decidesInKubeVirtsOrder(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	postCopy := Options{AllowPostCopy: yes}
	disruption := Options{AllowWorkloadDisruption: yes}
	// The detector has 40 s, the migration 150 s, and QEMU copies 10 MB a second. A guest that leaves 100 MB has
	// to be paused for 10 s.
	tests := map[string]struct {
		options    Options
		vfio       bool
		rate       uint64
		unmeasured bool
		ticks      []tick
		mode       Mode
	}{
		"it converges": {
			options: postCopy,
			ticks: []tick{
				begins(10, 100, noAction), begins(30, 90, noAction), begins(50, 80, noAction), begins(90, 70, noAction),
			},
		},
		"what is not older than the timeout tells nothing": {
			options: postCopy, ticks: []tick{begins(10, 100, noAction), begins(49, 100, noAction)},
		},
		"less by the margin is progress": {
			options: postCopy, ticks: []tick{begins(10, 100, noAction), begins(50, 95.9, noAction)},
		},
		"less by no more than the margin is none": {
			options: postCopy, ticks: []tick{begins(10, 100, noAction), begins(50, 96, startPostCopy)}, mode: PostCopy,
		},
		"it is compared with the least": {
			options: postCopy,
			ticks: []tick{
				begins(10, 100, noAction), begins(20, 50, noAction), begins(30, 70, noAction), begins(60, 49, startPostCopy),
			},
			mode: PostCopy,
		},
		"between iterations nothing is compared": {
			options: postCopy,
			ticks:   []tick{begins(10, 100, noAction), poll(49, 100, noAction), poll(60, 99, noAction), poll(70, 98, noAction)},
		},
		"without a rate nothing is known": {
			options: postCopy, unmeasured: true, ticks: stalling(begins(50, 100, noAction), begins(90, 100, noAction)),
		},
		"at once where it is a minimum": {
			options: postCopy, ticks: stalling(begins(50, 100, startPostCopy)), mode: PostCopy,
		},
		"later where less was to be copied before": {
			options: postCopy,
			ticks: []tick{
				begins(10, 100, noAction), begins(20, 80, noAction), begins(55, 99, noAction), begins(60, 99, noAction),
				begins(70, 83.3, noAction), begins(75, 83.2, startPostCopy),
			},
			mode: PostCopy,
		},
		"with patience that halves": {
			options: postCopy,
			ticks: []tick{
				begins(10, 100, noAction), begins(20, 80, noAction), // the best
				begins(60, 130, noAction), // stalled: until 100 it is waited for 80
				begins(70, 100, noAction), begins(80, 110, noAction), begins(90, 120, noAction),
				begins(100, 130, noAction), // until 120 for 100
				begins(119, 130, noAction),
				begins(120, 125, noAction),      // until 130 for 110
				begins(129, 120, noAction),      // which is more than 4 % above
				begins(130, 125, noAction),      // until 135 for 120, which came at 90
				begins(131, 124, startPostCopy), // within 4 % of it
			},
			mode: PostCopy,
		},
		"until there is nothing better": {
			options: postCopy,
			ticks: []tick{
				begins(10, 100, noAction), begins(20, 80, noAction), begins(60, 130, noAction), begins(99, 130, noAction),
				begins(100, 130, startPostCopy),
			},
			mode: PostCopy,
		},
		"without post-copy the guest is stopped": {
			options: disruption, ticks: stalling(begins(50, 100, hardStop)),
		},
		"hardware that post-copy can't move is stopped": {
			options: postCopy, vfio: true, ticks: stalling(begins(50, 100, hardStop)),
		},
		"post-copy takes leave to disrupt": {
			options: Options{AllowPostCopy: yes, AllowWorkloadDisruption: no},
			ticks:   stalling(begins(50, 100, abortStalled)),
		},
		"a short stop needs no leave": {
			options: Options{MaxDowntime: new(10 * time.Second)}, ticks: stalling(begins(50, 100, softStop)),
		},
		"nor does one that may yet become short": {
			options: Options{MaxDowntime: new(6667 * time.Millisecond)}, ticks: stalling(begins(50, 100, softStop)),
		},
		"what will not become short is aborted early": {
			options: Options{MaxDowntime: new(6666 * time.Millisecond)},
			ticks:   stalling(begins(50, 100, abortStalled)),
		},
		"a stop is 900 ms at most where nothing is said": {
			ticks: []tick{
				begins(10, 13, noAction), begins(50, 13, softStop),
			},
		},
		"a stop that isn't due": {
			ticks: []tick{begins(10, 14, noAction), begins(50, 14, abortStalled)},
		},
		"what can't be copied in time is left alone": {
			options: postCopy, rate: 10_000_000 / 26, // 260 s
			ticks: []tick{
				begins(10, 100, noAction), begins(39, 100, noAction), begins(50, 100, noAction), begins(140, 99.5, noAction),
				poll(151, 99, abortLate),
			},
		},
		"a stop that doesn't come": {
			options: disruption,
			ticks: stalling(begins(50, 100, hardStop), begins(60, 90, noAction), begins(109, 80, noAction),
				poll(110, 70, noAction), poll(110.1, 60, abortStalled)),
		},
		"a stop that comes has twice the completion timeout": {
			options: disruption,
			ticks: stalling(begins(50, 100, hardStop), poll(60, 90, noAction),
				tick{second: 61, remaining: 80, poll: true, stopped: true},
				tick{second: 200, remaining: 70, poll: true, stopped: true},
				tick{second: 300, remaining: 60, poll: true, stopped: true},
				tick{second: 301, remaining: 50, poll: true, stopped: true, want: abortLate}),
			mode: Paused,
		},
		"post-copy is never aborted": {
			options: postCopy,
			ticks: stalling(begins(50, 100, startPostCopy), begins(60, 100, noAction), poll(9999, 100, noAction),
				begins(99999, 100, noAction)),
			mode: PostCopy,
		},
		"late, before there is a stall": {
			options: postCopy,
			ticks:   []tick{begins(10, 500, noAction), poll(150, 100, noAction), poll(151, 90, startPostCopy)}, mode: PostCopy,
		},
		"late, post-copy needs no leave to disrupt": {
			options: Options{AllowPostCopy: yes, AllowWorkloadDisruption: no},
			ticks:   []tick{begins(10, 500, noAction), poll(151, 90, startPostCopy)}, mode: PostCopy,
		},
		"late, the guest is stopped": {
			options: disruption,
			ticks: []tick{
				begins(10, 500, noAction), poll(151, 90, hardStop), poll(211, 80, noAction), poll(211.1, 70, abortLate),
			},
		},
		"late, and stopped": {
			options: disruption,
			ticks: []tick{
				begins(10, 500, noAction), poll(151, 90, hardStop),
				{second: 299, remaining: 60, poll: true, stopped: true},
				{second: 301, remaining: 50, poll: true, stopped: true, want: abortLate},
			},
			mode: Paused,
		},
		"late, and nothing is allowed": {
			ticks: []tick{begins(10, 500, noAction), poll(150, 100, noAction), poll(151, 90, abortLate)},
		},
		"late, before anything was copied": {
			options: postCopy, unmeasured: true, ticks: []tick{poll(151, 90, abortLate)},
		},
		"late, and the rest does not come in time": {
			options: postCopy, ticks: []tick{begins(10, 1500, noAction), poll(151, 1000, abortLate)},
		},
		"no completion timeout": {
			options: Options{CompletionTimeoutPerGiB: new(time.Duration(0)), AllowPostCopy: yes},
			ticks:   stalling(begins(50, 100, startPostCopy)), mode: PostCopy,
		},
		"a dead connection has no iterations": {
			ticks: []tick{begins(10, 100, noAction), poll(20, 90, noAction), poll(140, 90, noAction), poll(141, 90, abortStuck)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := tt.options
			o.StallDetector, o.ProgressTimeout = yes, new(2*time.Minute)
			m := newMonitor(o, gigabyte, tt.vfio)
			rate := cmp.Or(tt.rate, 10_000_000)
			if tt.unmeasured {
				rate = 0
			}
			m.decide(sample{elapsed: time.Second, remaining: gigabyte, rate: rate})
			for _, look := range tt.ticks {
				got := m.decide(sample{
					elapsed:   time.Duration(look.second * float64(time.Second)),
					remaining: uint64(look.remaining * 1_000_000), rate: rate, iteration: !look.poll, stopped: look.stopped,
				})
				if got != look.want {
					t.Errorf("after %v s with %v MB left: action %d, want %d", look.second, look.remaining, got, look.want)
				}
			}
			if want := cmp.Or(tt.mode, PreCopy); m.mode != want {
				t.Errorf("mode %s, want %s", m.mode, want)
			}
		})
	}
}

// The rate follows what is measured between iterations, the last sample counting for two fifths.
func TestStallDetector_smoothsTheRate(t *testing.T) {
	t.Parallel()
	d := newStallDetector()
	d.remaining = 900
	for _, look := range []struct {
		rate       uint64
		standstill time.Duration
	}{
		{100, 9 * time.Second}, {350, 4500 * time.Millisecond}, {50, 6428571428}, {0, 10714285714},
	} {
		if d.smoothRate(look.rate); d.expectedDowntime() != look.standstill {
			t.Errorf("after %d bytes in a second: %v, want %v", look.rate, d.expectedDowntime(), look.standstill)
		}
	}
	if d.rate = 1e-30; d.expectedDowntime() <= 0 {
		t.Errorf("next to nothing is copied: %v", d.expectedDowntime())
	}
}

// What a host refuses is decided again at the next iteration, and ends.
func TestStallDetector_whatHostsRefuseEndsInAnAbort(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options   Options
		iteration bool
		tried     action
		end       action
	}{
		"stalled, post-copy": {Options{AllowPostCopy: new(true)}, true, startPostCopy, abortStalled},
		"stalled, stopping":  {Options{AllowWorkloadDisruption: new(true)}, true, hardStop, abortStalled},
		"stalled, briefly":   {Options{MaxDowntime: new(time.Hour)}, true, softStop, abortStalled},
		"late, post-copy":    {Options{AllowPostCopy: new(true)}, false, startPostCopy, abortLate},
		"late, stopping":     {Options{AllowWorkloadDisruption: new(true)}, false, hardStop, abortLate},
	} {
		o := tt.options
		o.StallDetector, o.ProgressTimeout = new(true), new(time.Duration(0))
		m := newMonitor(o, gigabyte, false)
		m.decide(sample{elapsed: time.Second, remaining: gigabyte, rate: 100})
		m.decide(sample{elapsed: 2 * time.Second, remaining: 1000, iteration: true})
		at := map[bool]time.Duration{true: 100 * time.Second, false: 160 * time.Second}[tt.iteration]
		for i := range maxRefusals + 1 {
			want := tt.tried
			if i == maxRefusals {
				want = tt.end
			}
			got := m.decide(sample{elapsed: at, remaining: 1000, rate: 100, iteration: tt.iteration})
			if got != want || got == tt.tried && m.mode == Paused {
				t.Errorf("%s, after %d refusals: action %d in mode %s, want %d", name, i, got, m.mode, want)
			}
			if m.takeBack(); m.mode != PreCopy || m.awaitsStop() {
				t.Errorf("%s, refused: mode %s, stopping %t", name, m.mode, m.awaitsStop())
			}
		}
	}
}

// QEMU takes no switch to post-copy while only disks come.
func TestStallDetector_postCopyWaitsForTheDisks(t *testing.T) {
	t.Parallel()
	m := newMonitor(Options{StallDetector: new(true), AllowPostCopy: new(true)}, 1, false)
	for _, look := range []struct {
		sample
		want action
	}{
		{sample{elapsed: time.Second, remaining: 90, disks: true}, noAction},
		{sample{elapsed: 149 * time.Second, remaining: 60, disks: true}, noAction},
		{sample{elapsed: 200 * time.Second, remaining: 10, disks: true}, noAction},
		{sample{elapsed: 201 * time.Second, remaining: 70, rate: 1000}, startPostCopy},
	} {
		if got := m.decide(look.sample); got != look.want {
			t.Errorf("after %v: action %d, want %d", look.elapsed, got, look.want)
		}
	}
}

// Before there is a stall QEMU isn't given more than it takes by itself, which would pause the guest where
// that isn't needed.
func TestStallDetector_downtimeComesLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options     Options
		first, most time.Duration
	}{
		"not set": {Options{}, 300 * time.Millisecond, 900 * time.Millisecond},
		"longer":  {Options{MaxDowntime: new(5 * time.Second)}, 300 * time.Millisecond, 5 * time.Second},
		"shorter": {Options{MaxDowntime: new(time.Millisecond)}, time.Millisecond, time.Millisecond},
	} {
		tt.options.StallDetector = new(true)
		m := newMonitor(tt.options, 1, false)
		if first := m.firstDowntime(); first == nil || *first != tt.first || m.maxDowntime() != tt.most {
			t.Errorf("%s: %v at first, %v at last", name, first, m.maxDowntime())
		}
		m.detector = nil // There are no events.
		if first := m.firstDowntime(); first != tt.options.MaxDowntime {
			t.Errorf("%s: %v without the detector", name, first)
		}
	}
}

func TestStallDetector_isOffWithoutEvents(t *testing.T) {
	t.Parallel()
	host, err := libvirt.Open(libvirt.Config{Name: "kvm1", URI: "test:///default"})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	r := newRun(Request{Source: host, Target: host, Options: Options{StallDetector: new(true)}})
	r.monitor = newMonitor(r.Options, gigabyte, false)
	if events := r.subscribeIterations(t.Context()); events != nil || r.monitor.detector != nil {
		t.Errorf("events %v, detector %v", events, r.monitor.detector)
	}
}
