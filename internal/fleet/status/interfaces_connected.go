package status

import (
	"fmt"
	"strings"
)

// CutOff is an interface of a running VM that libvirt no longer connects to its network, because the network was
// stopped while the VM ran.
type CutOff struct{ Interface, Network string }

// String returns what happened to the interface.
func (c CutOff) String() string {
	return fmt.Sprintf("interface %q: network %q was stopped while the VM ran, and libvirt hasn't connected it again",
		c.Interface, c.Network)
}

// interfacesConnected reports whether libvirt still connects the running VM's interfaces to their networks.
func interfacesConnected(f Facts) Condition {
	c := Condition{Status: False, Layer: LayerLibvirt}
	switch {
	case f.CutOff.Value == nil:
		return unobserved(f.CutOff.Why, LayerLibvirt)
	case !f.Active:
		c.Reason, c.Message = ReasonGuestNotRunning, f.shortStateText()
	case len(*f.CutOff.Value) > 0:
		lines := make([]string, len(*f.CutOff.Value))
		for i, cut := range *f.CutOff.Value {
			lines[i] = cut.String()
		}
		c.Reason, c.Message = "NetworkStopped", strings.Join(lines, "; ")
	default:
		c.Status, c.Reason = True, "AllConnected"
	}
	return c
}
