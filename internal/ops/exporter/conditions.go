package exporter

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/observe"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

var vmCondition = gauge("virtfleet_vm_condition", "The conditions of each virtual machine that a scrape can tell, as "+
	"virtfleet_conditions has them, with their status and reason. Value is 1.")

// addConditions adds the conditions of a VM. Conditions that require a query to the guest or to QEMU have no series: a
// scrape queries neither.
func (f *families) addConditions(facts status.Facts, l labels) {
	for _, c := range status.Conditions(facts) {
		if c.Reason != status.ReasonNotObserved {
			f.add(vmCondition, new(1.0), l.with("type", c.Type, "status", string(c.Status), "reason", c.Reason))
		}
	}
}

var (
	hostFenced = gauge("virtfleet_host_fenced", "Whether the host is given up (fenced = true), and isn't asked. A fenced "+
		"host has no other series.")
	hostSchedulable = gauge("virtfleet_host_schedulable", "Whether the fleet places virtual machines on the host.")
	hostCordoned    = gauge("virtfleet_host_cordoned", "Whether the host is cordoned.")
	cordonedSince   = gauge("virtfleet_host_cordoned_timestamp_seconds", "When the host was cordoned.")
	hostMemory      = gauge("virtfleet_host_memory_bytes", "The host's memory.")
	memoryLimit     = gauge("virtfleet_host_memory_limit_bytes", "How much memory may be committed to virtual machines.")
	committed       = gauge("virtfleet_host_memory_committed_bytes", "How much memory is committed to virtual machines.")
	drainPhase      = gauge("virtfleet_host_drain", "The drain of the maintenance that the host is under, by its "+
		"state: draining, drained, or failed where it ended before the host was empty. Value is 1.")
	drainStart = gauge("virtfleet_host_drain_start_time_seconds", "When the drain of virtfleet_host_drain began.")
	drainSteps = gauge("virtfleet_host_drain_open_steps",
		"How many virtual machines the drain of virtfleet_host_drain still has to move.")
)

// addHosts adds the state of each host, whether it answers or not.
func (f *families) addHosts(all []observe.HostCondition) {
	for _, h := range all {
		node := labels{}.with("node", h.Name)
		f.add(hostFenced, boolValue(h.Fenced), node)
		if h.Fenced {
			continue
		}
		f.add(hostSchedulable, boolValue(h.Schedulable), node)
		if h.MemoryLimit > 0 {
			f.add(hostMemory, new(float64(h.Memory)), node)
			f.add(memoryLimit, new(float64(h.MemoryLimit)), node)
			f.add(committed, new(float64(h.CommittedMemory)), node)
		}
		if h.Record == nil {
			continue
		}
		f.add(hostCordoned, boolValue(h.Record.Cordon != nil), node)
		if c := h.Record.Cordon; c != nil {
			f.add(cordonedSince, seconds1970(c.Since), node)
		}
		if e := h.Record.Drain(); e != nil {
			f.add(drainPhase, new(1.0), node.with("state", drainState(e)))
			f.add(drainStart, seconds1970(e.Since), node)
			f.add(drainSteps, new(float64(e.Open())), node)
		}
	}
}

func drainState(e *hostrecord.Evacuation) string {
	switch {
	case e.Done:
		return "drained"
	case e.Ended:
		return "failed"
	default:
		return "draining"
	}
}

func boolValue(so bool) *float64 {
	if so {
		return new(1.0)
	}
	return new(0.0)
}
