package hostrecord

import (
	"cmp"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/evacuation"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
)

// Results of a step of an evacuation. "" is that it is still to be done.
const (
	ResultMoved     = "Moved"
	ResultColdMoved = "ColdMoved"
	ResultShutDown  = "ShutDown"
	ResultSaved     = "Saved"
	ResultLeft      = "Left"
	ResultFailed    = "Failed"
)

// Evacuation is what was, or is to be, taken away from a host.
type Evacuation struct {
	Since time.Time `json:"since"`
	// Done says that the host was drained.
	Done bool `json:"done"`
	// Ended says that the drain has ended before the host was empty: no run works on it.
	Ended bool `json:"ended,omitempty"`
	// Steps are all of it, in their order.
	Steps []Step `json:"steps"`
	// Abridged says that there was no room for the steps.
	Abridged bool `json:"abridged,omitempty"`
	// Releasing is the id of the maintenance that has ended, and still has to undo what the steps did. "": none.
	Releasing string `json:"releasing,omitempty"`
	// GivenUp is when the maintenance ended before the host was empty. Zero: it has not ended, or the host was.
	GivenUp time.Time `json:"given_up,omitzero"`
}

// Open is how many steps are still to be done, or failed.
func (e *Evacuation) Open() int {
	open := 0

	for _, s := range e.Steps {
		if !s.Done() {
			open++
		}
	}

	return open
}

// Outline is what was planned, without what became of it: all that others have to tell while the host is off.
func (e *Evacuation) Outline() *Evacuation {
	o := &Evacuation{Since: e.Since, Done: e.Done, Abridged: e.Abridged}
	for _, s := range e.Steps {
		o.Steps = append(o.Steps, Step{Step: s.Step})
	}

	return o
}

// Step is a step of the plan and what became of it.
type Step struct {
	evacuation.Step

	// Result is one of the results.
	Result string `json:"result,omitempty"`
	// Reason says why the step failed.
	Reason string `json:"reason,omitempty"`
	// Arrived is the host on which the VM was found that another tool has moved. The step itself has no target then.
	Arrived string `json:"arrived,omitempty"`
	// Autostart says that it was taken from the VM, so that its host doesn't start it meanwhile.
	Autostart bool `json:"autostart,omitempty"`
	// Ran says that the VM ran before it was shut down to be moved, so that it has to run afterwards.
	Ran bool `json:"ran,omitempty"`
	// Options are what the VM's policy said of moves. The way back goes by them too, where nothing else is said by then.
	Options migration.Options `json:"options,omitzero"`
	// Kept are images that stayed when the VM was moved with its disks.
	Kept []KeptFile `json:"kept,omitempty"`
}

// Done says that nothing is left to do.
func (s Step) Done() bool { return s.Result != "" && s.Result != ResultFailed }

// WentTo is the host that the VM was moved to, or was to be moved to. "": none is known.
func (s Step) WentTo() string { return cmp.Or(s.Arrived, s.Target) }

// off says that the drain has shut the VM down, or is about to: what became of it is recorded a little later.
func (s Step) off() bool {
	switch s.Method {
	case evacuation.MethodShutdown, evacuation.MethodSave, evacuation.MethodCold:
		return s.Result == "" || s.Result == ResultShutDown || s.Result == ResultSaved
	default:
		return false
	}
}

// DoneText says what was done with a VM, and where it went. One that had gone before may be anywhere.
func (s Step) DoneText() string {
	switch {
	case s.Reason != "":
		return fmt.Sprintf("%q %s (%s)", s.Name, s.Result, s.Reason)
	case s.WentTo() != "":
		return fmt.Sprintf("%q %s to host %q", s.Name, s.Result, s.WentTo())
	default:
		return fmt.Sprintf("%q %s", s.Name, s.Result)
	}
}

// KeptFile is an image that a move left on the host that the VM went away from, as it was then: one that has changed
// since is not known any more.
type KeptFile struct {
	Path  string `json:"path"`
	Bytes uint64 `json:"bytes"`
	// Changed is when it was changed last, as its host's libvirt writes it.
	Changed string `json:"changed"`
}
