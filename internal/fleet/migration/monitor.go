package migration

import "time"

// Mode is how memory is moved.
type Mode string

// The modes, as KubeVirt names them.
const (
	// PreCopy copies while the guest runs at the source.
	PreCopy Mode = "PreCopy"
	// PostCopy fetches what the guest lacks while it runs on the target.
	PostCopy Mode = "PostCopy"
	// Paused copies while the guest is paused.
	Paused Mode = "Paused"
)

// action is what the monitor does about a running migration.
type action int

const (
	// noAction lets the migration continue.
	noAction action = iota
	// startPostCopy lets the guest continue on the target.
	startPostCopy
	// raiseDowntime lets QEMU pause the guest for as long as copying the rest takes.
	raiseDowntime
	// pauseGuest pauses the guest.
	pauseGuest
	// hardStop lets QEMU pause the guest for as long as copying the rest takes, softStop for the maximum downtime.
	hardStop
	softStop
	// abortStuck aborts because what remains doesn't shrink, abortStalled because it shrinks too little from iteration
	// to iteration, abortLate because the migration takes too long.
	abortStuck
	abortStalled
	abortLate
)

// sample is one look at the running job.
type sample struct {
	// elapsed is the time since the migration began, by our clock.
	elapsed time.Duration
	// remaining is how many bytes are still to be copied.
	remaining uint64
	// disks says whether disks are still being copied, which come before memory.
	disks bool

	// Only the stall detector reads the following: rate is how many bytes of memory were copied in the last second,
	// iteration says whether QEMU has just begun another pass over the memory, stopped whether QEMU has paused the
	// guest.
	rate               uint64
	iteration, stopped bool
}

// monitor decides about one migration. It remembers earlier samples and does no I/O.
type monitor struct {
	options Options // with defaults
	// budget is the time after which the monitor acts. 0 means no limit.
	budget time.Duration
	// vfio says whether the guest has hardware that post-copy can't move.
	vfio bool
	mode Mode
	// detector is nil where it isn't requested, or where there are no events to drive it.
	detector *stallDetector

	// watermark is what remained at the last sample, progressed when that was less than before.
	watermark  uint64
	progressed time.Duration
	// looked is when the last sample was taken.
	looked time.Duration
	// refusals counts decisions that the host did not carry out.
	refusals int
}

// maxRefusals is how often a host may refuse a disruption before the migration counts as late.
const maxRefusals = 5

func newMonitor(o Options, bytes uint64, vfio bool) *monitor {
	m := &monitor{options: o.WithDefaults(), budget: o.Budget(bytes), vfio: vfio, mode: PreCopy}
	if *m.options.StallDetector {
		m.detector = newStallDetector()
	}
	return m
}

// decide returns the first decision that applies, in KubeVirt's order. It assumes that the decision is carried out.
func (m *monitor) decide(s sample) action {
	if m.detector != nil {
		return m.decideWithDetector(s)
	}
	stuck := m.isStuck(s)
	late := m.budget > 0 && s.elapsed > m.budget
	if s.disks && *m.options.AllowWorkloadDisruption && m.switchesToPostCopy() {
		late = false // QEMU accepts no switch before it copies memory. A later sample switches.
	}
	switch {
	case m.mode == PostCopy:
		return noAction // Post-copy can't be aborted.
	case late && *m.options.AllowWorkloadDisruption && m.mode != Paused && m.refusals < maxRefusals:
		return m.disrupt()
	case stuck:
		return abortStuck
	case late:
		return abortLate
	default:
		return noAction
	}
}

// disrupt returns the action that completes the migration by a disruption that the guest's users notice.
func (m *monitor) disrupt() action {
	if m.switchesToPostCopy() {
		m.mode = PostCopy
		return startPostCopy
	}
	m.mode = Paused
	m.budget *= 2
	if m.vfio {
		return raiseDowntime
	}
	return pauseGuest
}

// switchesToPostCopy says whether a disruption is a switch to post-copy.
func (m *monitor) switchesToPostCopy() bool { return *m.options.AllowPostCopy && !m.vfio }

// raisedDowntime returns the downtime that raiseDowntime sets: at most the rest of the doubled budget.
func (m *monitor) raisedDowntime() time.Duration { return min(m.budget, MaxDowntimeLimit) }

// takeBack reverts a decision that the host did not carry out, so that the next sample decides again.
func (m *monitor) takeBack() {
	m.refusals++
	switch {
	case m.detector != nil:
		m.detector.deadline = 0
	case m.mode == Paused:
		m.budget /= 2
	}
	m.mode = PreCopy
}

// maxGap is the longest time between two samples in which the second one says what happened since the first one.
const maxGap = 30 * time.Second

// isStuck says whether the remaining bytes have not decreased within the progress timeout. The watermark follows every
// sample, so any decrease restarts the timeout. A time without samples, because the host didn't answer or this process
// didn't run, doesn't count if more remains afterwards: the remaining bytes may have decreased meanwhile, and risen
// again when memory followed the disks.
func (m *monitor) isStuck(s sample) bool {
	if gap := s.elapsed - m.looked; gap > maxGap && s.remaining > m.watermark {
		m.progressed += gap
	}
	m.looked = s.elapsed
	if m.watermark == 0 || s.remaining < m.watermark {
		m.progressed = s.elapsed
	}
	m.watermark = s.remaining
	limit := *m.options.ProgressTimeout
	return limit > 0 && s.elapsed-m.progressed > limit
}
