package status

import (
	"fmt"
	"strings"
)

func restartRequired(f Facts) Condition {
	if len(f.Pending) == 0 {
		return Condition{Status: False, Reason: "NothingPending", Layer: LayerLibvirt}
	}
	lines := make([]string, len(f.Pending))
	for i, p := range f.Pending {
		lines[i] = p.Path
		if p.Why != "" {
			lines[i] += ": " + p.Why
		}
	}
	return Condition{
		Status: True, Reason: RestartRequired, Message: strings.Join(lines, "; "), Layer: LayerLibvirt,
	}
}

func hotVCPUChange(f Facts) Condition { return hotChange(f, f.VCPUs, "virtual CPUs") }

func hotMemoryChange(f Facts) Condition { return hotChange(f, f.Memory, "bytes of memory") }

// hotChange reports whether a change that requires no restart is in progress.
func hotChange(f Facts, a Amount, what string) Condition {
	c := Condition{Status: False, Reason: "NoChange", Layer: LayerLibvirt}
	switch {
	case !f.Active:
		c.Reason, c.Message = ReasonGuestNotRunning, f.shortStateText()
	case a.Now == a.Wanted || a.Wanted == 0 || a.Now == 0:
	case a.Wanted > a.Max:
		c.Reason = RestartRequired
		c.Message = fmt.Sprintf("the definition asks for %d %s, and the running VM takes %d at most", a.Wanted, what,
			a.Max)
	default:
		c.Status, c.Reason = True, "ChangePending"
		c.Message = fmt.Sprintf("the running VM has %d %s, and its definition asks for %d", a.Now, what, a.Wanted)
	}
	return c
}

// Reasons of the condition DataVolumesReady, as in KubeVirt.
const (
	AllDVsReady    = "AllDVsReady"
	NotAllDVsReady = "NotAllDVsReady"
)
