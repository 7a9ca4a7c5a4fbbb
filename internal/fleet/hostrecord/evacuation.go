package hostrecord

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Results of a step of an evacuation. "" means that the step is still to be done.
const (
	ResultMoved     = "Moved"
	ResultColdMoved = "ColdMoved"
	ResultShutDown  = "ShutDown"
	ResultSaved     = "Saved"
	ResultLeft      = "Left"
	ResultFailed    = "Failed"
)

// Evacuation is what a drain evicted, or is to evict, from a host.
type Evacuation struct {
	Since time.Time `json:"since"`
	// Done says that the host was drained.
	Done bool `json:"done"`
	// Ended says that the drain ended before the host was drained: no run works on it.
	Ended bool `json:"ended,omitempty"`
	// Steps are all steps, in their order.
	Steps []RecordedStep `json:"steps"`
	// Abridged says that there was no room for the steps.
	Abridged bool `json:"abridged,omitempty"`
	// Releasing is the id of a maintenance that has ended and still has to undo what the steps did; "" if there is none.
	Releasing string `json:"releasing,omitempty"`
	// Abandoned is when the maintenance ended before the host was drained. It is zero if it hasn't ended, or if the host
	// was drained.
	Abandoned time.Time `json:"abandoned,omitzero"`
	// Maintenance is the id of the maintenance that drained the host. Only what other hosts are told has it: the host's
	// own record has a cordon with that id.
	Maintenance string `json:"maintenance,omitempty"`
}

// Open returns how many steps are still to be done, or failed.
func (e *Evacuation) Open() int {
	open := 0

	for _, s := range e.Steps {
		if !s.Done() {
			open++
		}
	}

	return open
}

// Told returns what other hosts are told of the finished evacuation: enough to report it while the host is off, and to
// restore what it changed if the host loses its own record.
func (e *Evacuation) Told(maintenance string) *Evacuation {
	t := &Evacuation{Since: e.Since, Done: e.Done, Abridged: e.Abridged, Maintenance: maintenance}

	for _, s := range e.Steps {
		s.Reason = ""
		t.Steps = append(t.Steps, s)
	}

	return t
}

// Recovered returns the evacuation as the host's own record has it, from what other hosts were told of it.
func (e *Evacuation) Recovered() *Evacuation {
	own := *e
	own.Maintenance = ""

	return &own
}

// Keeps reports whether the drain left the VM on the host, as far as known. A VM without a step has come after the
// drain, unless there was no room for the steps.
func (e *Evacuation) Keeps(uuid string) bool {
	if e.Abridged {
		return true
	}

	return slices.ContainsFunc(e.Steps, func(s RecordedStep) bool {
		moved := s.Result == ResultMoved || s.Result == ResultColdMoved

		return s.UUID == uuid && (!moved || s.WentTo() == "")
	})
}

// RecordedStep is a step of the plan, evacuation.Step, with what came of it.
type RecordedStep struct {
	evacuation.Step

	// Result is one of the results above.
	Result string `json:"result,omitempty"`
	// Reason says why the step failed, that the guest was forced off, or which original of a copied disk stays.
	Reason string `json:"reason,omitempty"`
	// ForcedOff says how the guest was forced off in this run; nil if it wasn't. It isn't recorded: a later run doesn't
	// warn of it again. Reason keeps it.
	ForcedOff *ForcedOff `json:"-"`
	// Stay says which originals of copied disks stay on the host, although the move was to remove them, and why. It isn't
	// recorded, like ForcedOff.
	Stay []string `json:"-"`
	// LostCheckpoints are the VM's checkpoints that the move couldn't bring along, and why. It isn't recorded either.
	LostCheckpoints []string `json:"-"`
	// TargetUUID is the UUID of the step's target, whatever name the provider's hosts give it later; "" if not known.
	TargetUUID string `json:"target_uuid,omitempty"`
	// Arrived is the host on which a VM was found that another tool has moved. The step itself then has no target, or
	// another one, to which the VM was to go.
	Arrived string `json:"arrived,omitempty"`
	// Autostart says that the drain turned the VM's autostart off, so that its host doesn't start it meanwhile.
	Autostart bool `json:"autostart,omitempty"`
	// Stopping says that the drain has begun to shut the VM down or save it. A VM that is off later was turned off by the
	// drain only if this is true.
	Stopping bool `json:"stopping,omitempty"`
	// Ran says that the VM ran before it was shut down for the move, so that it has to run afterwards.
	Ran bool `json:"ran,omitempty"`
	// Halted says that the VM ran although its configuration turned it off, before it was shut down for the move.
	Halted bool `json:"halted,omitempty"`
	// Returning says that the end of the maintenance shuts the VM down to move it back, so that it has to run
	// afterwards. ReturningHalted says that it ran although its configuration turned it off.
	Returning       bool `json:"returning,omitempty"`
	ReturningHalted bool `json:"returning_halted,omitempty"`
	// Unsafe says that libvirt refused to migrate the VM live, because that is unsafe for its disks.
	Unsafe bool `json:"unsafe,omitempty"`
	// Options are the options for moves in the VM's policy. They also apply to the move back unless others are set then.
	Options migration.Options `json:"options,omitzero"`
	// Kept are images that stayed on the host when the VM was moved with its disks.
	Kept []KeptFile `json:"kept,omitempty"`
	// Completed says that the step was done when a drain was completed. Ending the maintenance undoes it even if a
	// later drain of the same maintenance was not completed.
	Completed bool `json:"completed,omitempty"`
}

// Done reports whether nothing is left to do.
func (s RecordedStep) Done() bool { return s.Result != "" && s.Result != ResultFailed }

// WentTo returns the host to which the VM was moved, or was to be moved; "" if none is known.
func (s RecordedStep) WentTo() string { return cmp.Or(s.Arrived, s.Target) }

// off reports whether the drain has turned the VM off, or is about to: the result is recorded a little later. A guest
// that was asked to shut down may do so after the drain has given up on it.
func (s RecordedStep) off() bool {
	switch s.Method {
	case evacuation.MethodShutdown, evacuation.MethodSave, evacuation.MethodCold:
		return s.Result == "" || s.Result == ResultShutDown || s.Result == ResultSaved ||
			s.Result == ResultFailed && s.Asked()
	default:
		return false
	}
}

// Asked reports whether the drain has begun to turn the VM off, so that it is the drain's doing if the VM is off.
func (s RecordedStep) Asked() bool { return s.Stopping || s.Ran }

// DoneText describes what was done with a VM, and where it was moved. A VM that another tool had moved before may be
// anywhere: its reason says so.
func (s RecordedStep) DoneText() string {
	text := fmt.Sprintf("%q %s", s.Name, s.Result)

	if s.WentTo() != "" && (s.Reason == "" || s.Result == ResultColdMoved) {
		text += fmt.Sprintf(" to host %q", s.WentTo())
	}

	if s.Reason != "" {
		text += fmt.Sprintf(" (%s)", s.Reason)
	}

	return text
}

// ForcedOff is a VM whose guest was ended without a chance to write what it held in memory.
type ForcedOff struct {
	Name, Host string
	// How says how it was ended, such as "destroyed after the grace period".
	How string
}

// Text says that the VM was forced off.
func (f ForcedOff) Text() string { return "its guest was forced off: " + f.How }

// KeptFile is an image that a move left on the host that the VM left, with its properties at that time: an image that
// has changed since doesn't match.
type KeptFile struct {
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
	// Changed is when the image was last changed, in the format of its host's libvirt.
	Changed string `json:"changed"`
}
