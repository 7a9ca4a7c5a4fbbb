package status

import (
	"cmp"
	"fmt"
	"strings"
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
