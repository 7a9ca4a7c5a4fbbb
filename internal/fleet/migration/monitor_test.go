package migration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// moment is a sample and what has to be done about it.
type moment struct {
	second    int
	remaining uint64
	want      action
}

func TestMonitor_decidesInKubeVirtsOrder(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	// One gigabyte: the completion timeout is 10 s, the progress timeout 5 s.
	timeouts := Options{CompletionTimeoutPerGiB: new(10 * time.Second), ProgressTimeout: new(5 * time.Second)}
	tests := map[string]struct {
		options Options
		vfio    bool
		bytes   uint64
		moments []moment
		mode    Mode
	}{
		"it converges": {
			moments: []moment{{1, 900, noAction}, {6, 500, noAction}, {9, 10, noAction}}, mode: PreCopy,
		},
		"too late": {
			moments: []moment{{1, 900, noAction}, {6, 800, noAction}, {10, 700, noAction}, {11, 600, abortLate}}, mode: PreCopy,
		},
		"stuck": {
			moments: []moment{{1, 900, noAction}, {6, 900, noAction}, {7, 900, abortStuck}}, mode: PreCopy,
		},
		"stuck comes before late": {
			moments: []moment{{1, 900, noAction}, {12, 900, abortStuck}}, mode: PreCopy,
		},
		"time without a sample doesn't count as time without progress": {
			options: Options{CompletionTimeoutPerGiB: new(time.Duration(0))},
			moments: []moment{{1, 900, noAction}, {3, 900, noAction}, {203, 2000, noAction}, {207, 2000, abortStuck}},
			mode:    PreCopy,
		},
		"any single decrease starts the progress timeout again": {
			moments: []moment{{1, 900, noAction}, {5, 2000, noAction}, {6, 1999, noAction}, {10, 5000, noAction}}, mode: PreCopy,
		},
		"post-copy when late, and never aborted then": {
			options: Options{AllowPostCopy: yes},
			moments: []moment{{1, 900, noAction}, {9, 800, noAction}, {11, 800, startPostCopy}, {999, 800, noAction}},
			mode:    PostCopy,
		},
		"disruption comes before stuck": {
			options: Options{AllowPostCopy: yes},
			moments: []moment{{1, 900, noAction}, {11, 900, startPostCopy}}, mode: PostCopy,
		},
		"post-copy without disruption is never started": {
			options: Options{AllowPostCopy: yes, AllowWorkloadDisruption: no},
			moments: []moment{{1, 900, noAction}, {6, 800, noAction}, {11, 700, abortLate}}, mode: PreCopy,
		},
		"paused when late, and aborted at twice the budget": {
			options: Options{AllowWorkloadDisruption: yes},
			moments: []moment{
				{1, 900, noAction},
				{6, 800, noAction},
				{11, 700, pauseGuest},
				{16, 600, noAction},
				{20, 500, noAction},
				{21, 400, abortLate},
			},
			mode: Paused,
		},
		"paused and stuck": {
			options: Options{AllowWorkloadDisruption: yes},
			moments: []moment{{1, 900, noAction}, {11, 700, pauseGuest}, {17, 700, abortStuck}}, mode: Paused,
		},
		"hardware that post-copy can't move gets a long downtime": {
			options: Options{AllowPostCopy: yes}, vfio: true,
			moments: []moment{{1, 900, noAction}, {11, 700, raiseDowntime}, {15, 600, noAction}}, mode: Paused,
		},
		"no completion timeout": {
			options: Options{CompletionTimeoutPerGiB: new(time.Duration(0)), AllowPostCopy: yes},
			moments: []moment{{1, 900, noAction}, {500, 800, noAction}, {504, 800, noAction}, {506, 800, abortStuck}},
			mode:    PreCopy,
		},
		"no progress timeout": {
			options: Options{ProgressTimeout: new(time.Duration(0))},
			moments: []moment{{1, 900, noAction}, {9, 900, noAction}, {11, 900, abortLate}}, mode: PreCopy,
		},
		"each started gigabyte has its time": {
			bytes:   gigabyte + 1,
			moments: []moment{{1, 900, noAction}, {11, 800, noAction}, {16, 700, noAction}, {21, 600, abortLate}}, mode: PreCopy,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.bytes == 0 {
				tt.bytes = gigabyte
			}
			m := newMonitor(tt.options.Over(timeouts), tt.bytes, tt.vfio)
			for _, look := range tt.moments {
				got := m.decide(sample{elapsed: time.Duration(look.second) * time.Second, remaining: look.remaining})
				if got != look.want {
					t.Errorf("after %d s with %d bytes left: action %d, want %d", look.second, look.remaining, got, look.want)
				}
			}
			if m.mode != tt.mode {
				t.Errorf("mode %s, want %s", m.mode, tt.mode)
			}
		})
	}
}

// Post-copy is of memory: as long as only disks come it is waited for that, as long as they do come.
func TestMonitor_postCopyWaitsForTheDisks(t *testing.T) {
	t.Parallel()
	m := newMonitor(Options{
		AllowPostCopy: new(true), CompletionTimeoutPerGiB: new(time.Second), ProgressTimeout: new(10 * time.Second),
	}, 1, false)
	var got []action
	for _, s := range []sample{
		{elapsed: time.Second, remaining: 90, disks: true},
		{elapsed: 9 * time.Second, remaining: 50, disks: true},
		{elapsed: 18 * time.Second, remaining: 10, disks: true},
		{elapsed: 19 * time.Second, remaining: 70},
	} {
		got = append(got, m.decide(s))
	}
	if diff := cmp.Diff([]action{noAction, noAction, noAction, startPostCopy}, got); diff != "" {
		t.Errorf("actions differ (-want +got):\n%s", diff)
	}

	stuck := newMonitor(Options{
		AllowPostCopy: new(true), CompletionTimeoutPerGiB: new(time.Second), ProgressTimeout: new(10 * time.Second),
	}, 1, false)
	stuck.decide(sample{elapsed: time.Second, remaining: 90, disks: true})
	if a := stuck.decide(sample{elapsed: 12 * time.Second, remaining: 90, disks: true}); a != abortStuck {
		t.Errorf("disks that don't come any more: action %d", a)
	}
}

func TestMonitor_disruptionThatHostsRefuseEndsInAnAbort(t *testing.T) {
	t.Parallel()
	m := newMonitor(Options{AllowPostCopy: new(true), CompletionTimeoutPerGiB: new(time.Second)}, 1, false)
	var got []action
	for i := range maxRefusals + 1 {
		a := m.decide(sample{elapsed: 2 * time.Second, remaining: uint64(100 - i)})
		if got = append(got, a); a == startPostCopy {
			m.takeBack()
		}
	}
	want := []action{startPostCopy, startPostCopy, startPostCopy, startPostCopy, startPostCopy, abortLate}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions differ (-want +got):\n%s", diff)
	}
}

func TestMonitor_downtimeOfTheLastResort(t *testing.T) {
	t.Parallel()
	for perGiB, want := range map[time.Duration]time.Duration{
		10 * time.Second: 20 * time.Second, time.Hour: MaxDowntimeLimit,
	} {
		m := newMonitor(Options{CompletionTimeoutPerGiB: &perGiB, AllowWorkloadDisruption: new(true)}, gigabyte, true)
		a := m.decide(sample{elapsed: perGiB + time.Second, remaining: 1})
		if a != raiseDowntime || m.raisedDowntime() != want {
			t.Errorf("after %v: action %d, downtime %v; want %v", perGiB, a, m.raisedDowntime(), want)
		}
	}
}
