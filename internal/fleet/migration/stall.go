package migration

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The parameters of KubeVirt's stall detector, at their defaults. The detector always looks for a local minimum.
const (
	// stallProgressTimeout is the time in which what remains has to shrink by stallMargin.
	stallProgressTimeout = 40 * time.Second
	// stallMargin also says how far above the least that remained an iteration may be.
	stallMargin = 0.04
	// stallRateWeight is the weight of the last sample in the smoothed rate: KubeVirt's ewmaAlpha.
	stallRateWeight = 0.4
	// patienceDecay is the ratio of each wait for a minimum to the wait before: KubeVirt's patienceWindowDecayFactor.
	patienceDecay = 0.5
	// precopyPossibleFactor is by how much the expected downtime may exceed the allowed one: copying continues, so the
	// expected downtime may still shrink.
	precopyPossibleFactor = 1.5
	// switchoverTimeout is how long QEMU may take to pause a guest that it was allowed to pause.
	switchoverTimeout = time.Minute
	// completionTimeoutFactor multiplies the completion timeout once the guest is paused, so that the rest can be copied.
	completionTimeoutFactor = 2
	// stallMaxDowntime is KubeVirt's default for Options.MaxDowntime, which applies only with the detector.
	// qemuDowntime is the most that QEMU is given before a stall: its own default.
	stallMaxDowntime = 900 * time.Millisecond
	qemuDowntime     = 300 * time.Millisecond
)

// stallDetector compares the remaining bytes from one iteration to the next. If a guest writes faster than memory can
// be copied, they don't decrease from iteration to iteration. Sometimes they decrease a little by chance: that is the
// best moment to switch over. Times are those of the samples.
type stallDetector struct {
	// window is stallProgressTimeout.
	window time.Duration
	// rate is the smoothed number of bytes copied per second. 0 means that it is unknown.
	rate float64
	// remaining is what remained to be copied when the last iteration began.
	remaining uint64

	// minima are the iterations within the window that had less to copy than all before them in the window. settled is
	// the least that an iteration before the window had.
	minima  []iteration
	settled uint64

	// stalled says whether the migration has stalled. From then on, the detector waits for an iteration that has about as
	// little to copy as the best one before. later is what the iterations had to copy since then, the least first. At
	// relaxAt, the detector accepts the next of these values as the best one.
	stalled           bool
	best              uint64
	later             []uint64
	patience, relaxAt time.Duration

	// deadline is when QEMU has to have paused the guest. 0 means that QEMU was not told to.
	deadline time.Duration
}

// iteration is what remained to be copied when an iteration began.
type iteration struct {
	began     time.Duration
	remaining uint64
}

func newStallDetector() *stallDetector {
	return &stallDetector{window: stallProgressTimeout, settled: math.MaxUint64}
}

// smoothRate notes how fast memory is copied.
func (d *stallDetector) smoothRate(rate uint64) {
	if d.rate == 0 {
		d.rate = float64(rate)
		return
	}
	d.rate = stallRateWeight*float64(rate) + (1-stallRateWeight)*d.rate
}

// addIteration notes an iteration that begins, and says whether the migration has stalled, now or before.
func (d *stallDetector) addIteration(i iteration) bool {
	d.remaining = i.remaining
	switch {
	case d.rate == 0:
		return false
	case d.stalled:
		d.relaxBest(i)
		return true
	}
	for len(d.minima) > 0 && i.began-d.minima[0].began >= d.window {
		d.settled = min(d.settled, d.minima[0].remaining)
		d.minima = d.minima[1:]
	}
	if n := len(d.minima); n == 0 || i.remaining < d.minima[n-1].remaining {
		d.minima = append(d.minima, i)
	}
	if float64(i.remaining) < float64(d.settled)*(1-stallMargin) {
		return false
	}
	d.stalled, d.best = true, min(d.settled, d.minima[len(d.minima)-1].remaining)
	d.patience, d.relaxAt = d.window, i.began+d.window
	return true
}

// relaxBest accepts a little more as the best value when the best did not occur again in time.
func (d *stallDetector) relaxBest(i iteration) {
	at, _ := slices.BinarySearch(d.later, i.remaining)
	d.later = slices.Insert(d.later, at, i.remaining)
	if i.began < d.relaxAt {
		return
	}
	d.best, d.later = d.later[0], d.later[1:]
	d.patience = time.Duration(float64(d.patience) * patienceDecay)
	d.relaxAt = i.began + d.patience
}

// nearBest says whether the iteration has about as little to copy as can be expected.
func (d *stallDetector) nearBest() bool {
	return float64(d.remaining) <= float64(d.best)*(1+stallMargin)
}

// expectedDowntime returns how long the guest would be paused to copy what remained at the last iteration.
func (d *stallDetector) expectedDowntime() time.Duration {
	const longest = math.MaxInt64 / completionTimeoutFactor // Something is added to it.
	return time.Duration(min(float64(d.remaining)/d.rate*float64(time.Second), longest))
}

// decideWithDetector decides like decide, but with the stall detector, in KubeVirt's order. It keeps the progress
// timeout for a dead connection, which has no iterations.
func (m *monitor) decideWithDetector(s sample) action {
	d, stuck := m.detector, m.isStuck(s)
	if m.mode == PostCopy {
		return noAction // Post-copy can't be aborted.
	}
	if d.remaining == 0 {
		d.remaining = s.remaining // The first iteration may begin before there is anything to report.
	}
	switch {
	case s.stopped:
		m.mode = Paused
	case !s.iteration:
		d.smoothRate(s.rate)
	case d.deadline == 0 && d.addIteration(iteration{s.elapsed, s.remaining}):
		if a := m.decideStalled(s); a != noAction {
			return a
		}
	}
	late := m.isOverdue(s)
	if s.disks && m.switchesToPostCopy() {
		late = false // QEMU accepts no switch before it copies memory. A later sample switches.
	}
	hurry := late && d.deadline == 0 && d.rate > 0 && m.refusals < maxRefusals && m.canFinish(s)
	switch {
	case hurry && m.switchesToPostCopy(): // KubeVirt requires no AllowWorkloadDisruption here.
		m.mode = PostCopy
		return startPostCopy
	case hurry && *m.options.AllowWorkloadDisruption:
		return m.stopGuest(s, hardStop)
	case stuck:
		return abortStuck
	case late && d.stalled && d.deadline > 0 && m.mode != Paused:
		return abortStalled
	case late:
		return abortLate
	default:
		return noAction
	}
}

// decideStalled decides about a stalled migration when an iteration begins.
func (m *monitor) decideStalled(s sample) action {
	d := m.detector
	disrupt := *m.options.AllowWorkloadDisruption
	switch {
	case !d.nearBest():
		return noAction // A later iteration may have less to copy.
	case !m.canFinish(s):
		return noAction // The network seems to be down, so a pause of the guest wouldn't help.
	case m.refusals >= maxRefusals:
		return abortStalled
	case disrupt && m.switchesToPostCopy():
		m.mode = PostCopy
		return startPostCopy
	case disrupt:
		return m.stopGuest(s, hardStop)
	case float64(d.expectedDowntime()) <= float64(m.maxDowntime())*precopyPossibleFactor:
		return m.stopGuest(s, softStop)
	default:
		return abortStalled
	}
}

// stopGuest returns the action that pauses the guest, and sets the deadline by which QEMU has to do so.
func (m *monitor) stopGuest(s sample, how action) action {
	m.detector.deadline = s.elapsed + switchoverTimeout
	return how
}

// canFinish says whether what remained at the last iteration can be copied within the completion timeout. Without a
// timeout it always can. KubeVirt takes a timeout of zero as no time, and never ends a stall.
func (m *monitor) canFinish(s sample) bool {
	return m.budget == 0 || s.elapsed+m.detector.expectedDowntime() <= m.budget*completionTimeoutFactor
}

// isOverdue says whether a deadline has passed: to converge, to pause the guest, or, once the guest is paused, to copy
// the rest.
func (m *monitor) isOverdue(s sample) bool {
	limit := m.timeLimit()
	return limit > 0 && s.elapsed > limit
}

// timeLimit returns the time after which the migration is aborted, or hurried up where that is allowed. 0 means no
// limit. A paused guest has the time that canFinish calculated with. KubeVirt gives it half of that if it was paused
// because of a stall, so that the pause may have been in vain.
func (m *monitor) timeLimit() time.Duration {
	switch {
	case m.detector == nil || m.detector.deadline == 0:
		return m.budget
	case m.mode == Paused:
		return m.budget * completionTimeoutFactor
	default:
		return m.detector.deadline
	}
}

// maxDowntime returns how long the guest may be paused at the end.
func (m *monitor) maxDowntime() time.Duration {
	if d := m.options.MaxDowntime; d != nil {
		return *d
	}
	return stallMaxDowntime
}

// firstDowntime returns the downtime that QEMU is told before the migration begins. Nil leaves QEMU's own. With the
// stall detector QEMU gets more once that is useful.
func (m *monitor) firstDowntime() *time.Duration {
	if m.detector == nil {
		return m.options.MaxDowntime
	}
	return new(min(m.maxDowntime(), qemuDowntime))
}

// hasStalled says whether the stall detector found that the migration stalled.
func (m *monitor) hasStalled() bool { return m.detector != nil && m.detector.stalled }

// awaitsStop says whether the detector has told QEMU to pause the guest, which QEMU may not have done yet.
func (m *monitor) awaitsStop() bool { return m.detector != nil && m.detector.deadline > 0 }

// describeStall returns a text about what happened in a migration that stalled.
func (m *monitor) describeStall() string {
	d := m.detector
	told := fmt.Sprintf("in %v what remained shrank by less than %v %%; ", d.window, stallMargin*100)
	if m.awaitsStop() {
		return told + fmt.Sprintf("QEMU did not stop the guest for the rest within %v", switchoverTimeout)
	}
	return told + fmt.Sprintf("copying the rest would stop the guest for %v, where %v is allowed",
		d.expectedDowntime().Round(time.Millisecond), m.maxDowntime())
}
