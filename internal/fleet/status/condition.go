package status

import (
	"strings"
	"time"
)

// ConditionStatus is the status of a condition.
type ConditionStatus string

// The values of ConditionStatus.
const (
	True    ConditionStatus = "True"
	False   ConditionStatus = "False"
	Unknown ConditionStatus = "Unknown"
)

func conditionStatus(b bool) ConditionStatus {
	if b {
		return True
	}
	return False
}

// Layer is the layer from which a fact was read.
type Layer string

// The layers, from the outside in.
const (
	// LayerConnection is the connection to the host.
	LayerConnection Layer = "connection"
	// LayerFleet is the comparison of several hosts' replies.
	LayerFleet Layer = "fleet"
	// LayerMetadata is the provider's record in the domain's metadata.
	LayerMetadata Layer = "metadata"
	// LayerLibvirt is the host's libvirt: state and definitions.
	LayerLibvirt Layer = "libvirt"
	// LayerQEMU is the hypervisor process.
	LayerQEMU Layer = "qemu"
	// LayerGuestAgent is the agent in the guest.
	LayerGuestAgent Layer = "guest-agent"
)

// The types of conditions: KubeVirt's, and three more that distinguish why a VM isn't up: Connected, Defined, Started.
const (
	Connected                = "Connected"
	Defined                  = "Defined"
	Started                  = "Started"
	Ready                    = "Ready"
	PausedCondition          = "Paused"
	AgentConnected           = "AgentConnected"
	AgentVersionNotSupported = "AgentVersionNotSupported"
	LiveMigratable           = "LiveMigratable"
	StorageLiveMigratable    = "StorageLiveMigratable"
	MigrationRequired        = "MigrationRequired"
	EvictionRequested        = "EvictionRequested"
	RestartRequired          = "RestartRequired"
	HotVCPUChange            = "HotVCPUChange"
	HotMemoryChange          = "HotMemoryChange"
	DataVolumesReady         = "DataVolumesReady"
	InterfacesConnected      = "InterfacesConnected"
	Provisioning             = "Provisioning"
	StaleDefinition          = "StaleDefinition"
	Irrecoverable            = "Irrecoverable"
	TwoCopies                = "TwoCopies"
)

// Reasons that several conditions share.
const (
	ReasonHostUnreachable = "HostUnreachable"
	ReasonNotObserved     = "NotObserved"
	ReasonGuestNotRunning = "GuestNotRunning"
	ReasonNotMigratable   = "NotMigratable"
	ReasonMigrating       = "Migrating"
)

// Condition is one fact about a virtual machine, in the form of a Kubernetes condition.
type Condition struct {
	Type   string
	Status ConditionStatus
	// Reason is a word for programs, Message a sentence for users; either may be "".
	Reason, Message string
	// Since is when the status last changed; zero if unknown.
	Since time.Time
	// Layer is the layer from which the condition was read.
	Layer Layer
}

// builders build every condition, in the order in which they are shown: from the outside in.
var builders = []struct {
	name string
	make func(Facts) Condition
}{
	{Connected, connected},
	{Defined, defined},
	{Started, started},
	{Ready, func(f Facts) Condition { return ReadyWith(f, ReadyCriteria{}) }},
	{PausedCondition, paused},
	{AgentConnected, agentConnected},
	{AgentVersionNotSupported, agentVersionNotSupported},
	{LiveMigratable, liveMigratable},
	{StorageLiveMigratable, storageLiveMigratable},
	{MigrationRequired, migrationRequired},
	{EvictionRequested, evictionRequested},
	{RestartRequired, restartRequired},
	{HotVCPUChange, hotVCPUChange},
	{HotMemoryChange, hotMemoryChange},
	{DataVolumesReady, dataVolumesReady},
	{InterfacesConnected, interfacesConnected},
	{Provisioning, provisioning},
	{StaleDefinition, staleDefinition},
	{Irrecoverable, irrecoverable},
	{TwoCopies, twoCopies},
}

// Types returns the types of all conditions, in the order in which Conditions returns them.
func Types() []string {
	names := make([]string, len(builders))
	for i, m := range builders {
		names[i] = m.name
	}
	return names
}

// Conditions returns all conditions of a VM. If its host doesn't answer, only Connected is known.
func Conditions(f Facts) []Condition {
	all := make([]Condition, len(builders))
	for i, m := range builders {
		all[i] = buildCondition(f, m.name, m.make)
	}
	return all
}

// ConditionOf returns one condition of a VM, whose type must be one of Types.
func ConditionOf(f Facts, name string) Condition {
	for _, m := range builders {
		if m.name == name {
			return buildCondition(f, m.name, m.make)
		}
	}
	return Condition{Type: name, Status: Unknown, Reason: ReasonNotObserved}
}

func buildCondition(f Facts, name string, maker func(Facts) Condition) Condition {
	c := f.unlocatedCondition()
	if f.Host != "" || name == TwoCopies && len(f.RunsOn) > 1 {
		c = maker(f)
	} else if name == Connected && len(f.SilentHosts) > 0 {
		c.Status = False
	}
	c.Type = name
	return c
}

// unlocatedCondition returns every condition of a VM whose host is unknown: a host that may have the VM is unreachable,
// or more than one host runs it.
func (f Facts) unlocatedCondition() Condition {
	if len(f.RunsOn) > 1 {
		c := twoCopies(f)
		c.Status = Unknown
		return c
	}
	if len(f.SilentHosts) == 0 {
		return Condition{
			Status: Unknown, Reason: "Ambiguous", Message: "the hosts don't agree on where the VM is", Layer: LayerFleet,
		}
	}
	return Condition{
		Status: Unknown, Reason: ReasonHostUnreachable, Layer: LayerConnection,
		Message: "these hosts don't answer, and one of them may have the VM: " + strings.Join(f.SilentHosts, ", "),
	}
}

// PrintableStatus returns the status that KubeVirt would print for the VM.
func PrintableStatus(f Facts) string {
	if f.Host == "" {
		return StatusUnknown
	}
	switch f.PostCopy() {
	case PostCopyLost:
		return StatusFailed
	case PostCopySent:
		return StatusMigrating
	case PostCopyUndecided:
		return StatusUnknown
	default:
		return PrintableStatusOf(f.State, f.Reason, f.Migrating)
	}
}

// unobserved returns a condition that depends on a fact that wasn't observed.
func unobserved(why string, layer Layer) Condition {
	return Condition{Status: Unknown, Reason: ReasonNotObserved, Message: why, Layer: layer}
}
