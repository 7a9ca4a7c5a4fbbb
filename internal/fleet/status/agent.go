package status

import "strings"

// agentConnected is True if the channel is open in the guest, as in KubeVirt, and the agent answered if it was asked.
func agentConnected(f Facts) Condition {
	c := Condition{Status: False, Layer: LayerLibvirt}
	switch {
	case !f.Active, f.State == Crashed, f.PostCopy() != PostCopyIntact:
		c.Reason, c.Message = ReasonGuestNotRunning, f.shortStateText()
	case !f.AgentChannel:
		c.Reason, c.Message = "NoChannel", "the VM has no channel for a guest agent"
	case !f.AgentConnected:
		c.Reason, c.Layer = "ChannelClosed", LayerQEMU
		c.Message = "no agent in the guest has the channel open"
	case f.AgentAnswers.Value == nil:
		c.Status, c.Reason, c.Layer = True, "ChannelOpen", LayerQEMU
		c.Message = "an agent has opened the channel; it was not asked anything"
		if f.AgentAnswers.Why != "" {
			c.Message += ": " + f.AgentAnswers.Why
		}
	case !*f.AgentAnswers.Value:
		c.Reason, c.Layer = "AgentNotResponding", LayerGuestAgent
		c.Message = "the channel is open, and the agent doesn't answer"
		if f.AgentAnswers.Why != "" {
			c.Message += ": " + f.AgentAnswers.Why
		}
	default:
		c.Status, c.Reason, c.Layer = True, "AgentAnswers", LayerGuestAgent
	}
	return c
}

// agentVersionNotSupported reports whether the agent lacks commands that the provider needs.
func agentVersionNotSupported(f Facts) Condition {
	if f.AgentLacks.Value == nil {
		return unobserved(f.AgentLacks.Why, LayerGuestAgent)
	}
	if lacks := *f.AgentLacks.Value; len(lacks) > 0 {
		return Condition{
			Status: True, Reason: "CommandsNotSupported", Layer: LayerGuestAgent,
			Message: "the agent doesn't run these commands: " + strings.Join(lacks, ", "),
		}
	}
	return Condition{Status: False, Reason: "CommandsSupported", Layer: LayerGuestAgent}
}
