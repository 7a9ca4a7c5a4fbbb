package status

import (
	"cmp"
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

// dataVolumesReady reports whether the source of every disk exists and can be opened on the host.
func dataVolumesReady(f Facts) Condition {
	layer := LayerLibvirt
	if f.Active {
		layer = LayerQEMU
	}
	if f.Disks.Value == nil {
		return unobserved(f.Disks.Why, layer)
	}
	c := Condition{Status: True, Reason: AllDVsReady, Layer: layer}
	var messages []string
	for _, d := range *f.Disks.Value {
		if d.Ready == True {
			continue
		}
		messages = append(messages, fmt.Sprintf("disk %q: %s", d.Key, d.Why))
		if c.Status != False {
			c.Status, c.Reason, c.Layer = d.Ready, NotAllDVsReady, cmp.Or(d.Layer, layer)
		}
	}
	c.Message = strings.Join(messages, "; ")
	return c
}

func provisioning(f Facts) Condition {
	if f.Creating == nil {
		return Condition{Status: False, Reason: "Provisioned", Layer: LayerMetadata}
	}
	return Condition{
		Status: True, Reason: "Creating", Since: *f.Creating, Layer: LayerMetadata,
		Message: fmt.Sprintf("its creation by %s isn't finished", f.Creator),
	}
}
