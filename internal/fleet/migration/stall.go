package migration

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// What KubeVirt's stall detector can be tuned with, at its defaults. It looks for a local minimum, always.
const (
	// stallProgressTimeout is the time in which what remains has to shrink by stallMargin.
	stallProgressTimeout = 40 * time.Second
	// stallMargin also says how near to the best of what remained is near enough.
	stallMargin = 0.04
	// stallRateWeight is what the last sample counts for in the smoothed rate: KubeVirt's ewmaAlpha.
	stallRateWeight = 0.4
	// patienceDecay is what each wait for a minimum is to the one before: KubeVirt's patienceWindowDecayFactor.
	patienceDecay = 0.5
	// precopyPossibleFactor is by how much the expected downtime may exceed the allowed one: copying goes on, so it may
	// yet come true.
	precopyPossibleFactor = 1.5
	// switchoverTimeout is how long QEMU may take to stop a guest that it was allowed to stop.
	switchoverTimeout = time.Minute
	// completionTimeoutFactor is how much of the completion timeout there is for what was hurried up.
	completionTimeoutFactor = 2
	// stallMaxDowntime is KubeVirt's default for Options.MaxDowntime, which counts with the detector alone, and
	// qemuDowntime the most that QEMU is given before there is a stall: what it takes by itself.
	stallMaxDowntime = 900 * time.Millisecond
	qemuDowntime     = 300 * time.Millisecond
)

// stallDetector follows what remains to be copied from one iteration to the next. A guest that writes faster than can
// be copied leaves no less with every iteration; sometimes by chance it leaves a little less, and that is the moment to
// switch over. Times are those of the samples.
type stallDetector struct {
	// window is stallProgressTimeout.
	window time.Duration
	// rate is how many bytes are copied in a second, smoothed; 0 is that nothing is known yet.
	rate float64
	// remaining is what there was to be copied when the last iteration began.
	remaining uint64

	// minima are the iterations within the window that had less than all before them there, settled is the least that one
	// before the window had.
	minima  []iteration
	settled uint64

	// stalled says that it has stalled, from when on there is a best value to come near to. later is what the iterations
	// had since then, the least first: at relaxAt the next of them is good enough.
	stalled           bool
	best              uint64
	later             []uint64
	patience, relaxAt time.Duration

	// deadline is by when QEMU has to stop the guest; 0 is that it was not told to.
	deadline time.Duration
}

// iteration is what there was to be copied when one began.
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

// relaxBest is content with a little more when the best did not come again in time.
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

// nearBest says that the iteration has about as little to copy as can be hoped for.
func (d *stallDetector) nearBest() bool {
	return float64(d.remaining) <= float64(d.best)*(1+stallMargin)
}

// expectedDowntime is how long copying what remained at the last iteration takes while the guest stands still.
func (d *stallDetector) expectedDowntime() time.Duration {
	const longest = math.MaxInt64 / completionTimeoutFactor // There is something to be added to it.
	return time.Duration(min(float64(d.remaining)/d.rate*float64(time.Second), longest))
}

// decideWithDetector is decide with the stall detector, in KubeVirt's order. The progress timeout is kept for a
// connection that is dead: there are no iterations then.
func (m *monitor) decideWithDetector(s sample) action {
	d, stuck := m.detector, m.isStuck(s)
	if m.mode == PostCopy {
		return noAction // There is no way back.
	}
	if d.remaining == 0 {
		d.remaining = s.remaining // The first iteration may begin before there is anything to be told of.
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
		late = false // QEMU takes no switch before memory is on its way. It comes then.
	}
	hurry := late && d.deadline == 0 && d.rate > 0 && m.refusals < maxRefusals && m.canFinish(s)
	switch {
	case hurry && m.switchesToPostCopy(): // KubeVirt asks for no leave to disrupt here.
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

// decideStalled decides about a migration that has stalled, as an iteration begins.
func (m *monitor) decideStalled(s sample) action {
	d := m.detector
	disrupt := *m.options.AllowWorkloadDisruption
	switch {
	case !d.nearBest():
		return noAction // A better moment may come.
	case !m.canFinish(s):
		return noAction // It is as if the network were gone: not the guest's fault.
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

// stopGuest gives QEMU the time to stop the guest in.
func (m *monitor) stopGuest(s sample, how action) action {
	m.detector.deadline = s.elapsed + switchoverTimeout
	return how
}

// canFinish says that what remained at the last iteration can be copied in what there is of the completion timeout.
// Without one it always can, where KubeVirt takes none for one of zero and never ends a stall.
func (m *monitor) canFinish(s sample) bool {
	return m.budget == 0 || s.elapsed+m.detector.expectedDowntime() <= m.budget*completionTimeoutFactor
}

// isOverdue says that the time is over: to converge, to be stopped, or, once the guest stands still, the one that it
// was stopped for.
func (m *monitor) isOverdue(s sample) bool {
	limit := m.timeLimit()
	return limit > 0 && s.elapsed > limit
}

// timeLimit is the time after which the migration is aborted, or hurried up where that is allowed; 0 is none. A guest
// that was stopped has the time that was reckoned with. KubeVirt gives it half of that if it was stopped because of a
// stall, so that it may have stood still for nothing.
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

// maxDowntime is how long the guest may stand still at the end.
func (m *monitor) maxDowntime() time.Duration {
	if d := m.options.MaxDowntime; d != nil {
		return *d
	}
	return stallMaxDowntime
}

// firstDowntime is what QEMU is told before the migration begins; nil leaves it as it is. With the stall detector it
// gets more when that is of use.
func (m *monitor) firstDowntime() *time.Duration {
	if m.detector == nil {
		return m.options.MaxDowntime
	}
	return new(min(m.maxDowntime(), qemuDowntime))
}

// hasStalled says that the stall detector found the migration to stall.
func (m *monitor) hasStalled() bool { return m.detector != nil && m.detector.stalled }

// awaitsStop says that the detector has QEMU stop the guest, which it may not have done yet.
func (m *monitor) awaitsStop() bool { return m.detector != nil && m.detector.deadline > 0 }

// describeStall tells what became of a migration that stalled.
func (m *monitor) describeStall() string {
	d := m.detector
	told := fmt.Sprintf("in %v what remained shrank by less than %v %%; ", d.window, stallMargin*100)
	if m.awaitsStop() {
		return told + fmt.Sprintf("QEMU did not stop the guest for the rest within %v", switchoverTimeout)
	}
	return told + fmt.Sprintf("copying the rest would stop the guest for %v, where %v is allowed",
		d.expectedDowntime().Round(time.Millisecond), m.maxDowntime())
}
