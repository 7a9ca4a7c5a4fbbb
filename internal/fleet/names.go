package fleet

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/hostrecord"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// Names of the packages below that importers use, so that they need one package for most tasks.
type (
	// VM is what the fleet knows of one VM.
	VM = inventory.VM
	// LastKnown is what the caller remembers about where the VM was.
	LastKnown = inventory.LastKnown
	// Listed is one VM of the fleet.
	Listed = inventory.Listed
	// FencedAnswer is inventory.FencedAnswer.
	FencedAnswer = inventory.FencedAnswer
	// FileMark is what tells a file of one host from another host's at the same path.
	FileMark = inventory.FileMark
	// HostConfig configures one host.
	HostConfig = inventory.HostConfig
	// Error is an error about a VM.
	Error = inventory.Error
	// Next is what a user does after the remedy of an error.
	Next = inventory.Next
	// Problem is something that prevents a plan from working.
	Problem = inventory.Problem
	// Event is something that happened on a host.
	Event = inventory.Event
	// HostPoll is what one host reported about the state of its VMs, in one pass.
	HostPoll = inventory.HostPoll
	// Desired is the desired state of a VM.
	Desired = placement.Desired
	// InterruptedDeletion is a deletion of a VM that has deleted a part of the VM's disks.
	InterruptedDeletion = placement.InterruptedDeletion
	// PlannedPower is what a plan shows of a VM's power.
	PlannedPower = placement.PlannedPower
	// HostObject is an object that a VM requires on its host.
	HostObject = status.HostObject
	// PlannedObjects are host objects that hosts will have.
	PlannedObjects = status.PlannedObjects
	// PlannedHosts are the hosts that will have an object.
	PlannedHosts = status.PlannedHosts
	// Placement restricts the hosts for a VM.
	Placement = placement.Placement
	// MoveOrder is an order to move a VM.
	MoveOrder = move.Order
	// MoveCandidate is a host that a VM may move to.
	MoveCandidate = move.Candidate
	// AntiAffinity keeps a VM away from others.
	AntiAffinity = placement.AntiAffinity
	// WaitFor says what to wait for on a VM.
	WaitFor = lifecycle.WaitFor
	// Drain requests that a host be drained.
	Drain = drain.Drain
	// ForcedOff is a VM whose guest was forced off.
	ForcedOff = hostrecord.ForcedOff
	// EvacuationQuery asks how a host would be drained.
	EvacuationQuery = drain.EvacuationQuery
)

// Kinds of errors. Use errors.Is to test for them.
var (
	ErrNotFound      = inventory.ErrNotFound
	ErrUnreachable   = inventory.ErrUnreachable
	ErrExists        = inventory.ErrExists
	ErrUnsupported   = inventory.ErrUnsupported
	ErrComparesNone  = inventory.ErrComparesNone
	ErrInvalid       = inventory.ErrInvalid
	ErrBusy          = inventory.ErrBusy
	ErrUnconfigured  = inventory.ErrUnconfigured
	ErrTwoCopies     = inventory.ErrTwoCopies
	ErrAmbiguous     = inventory.ErrAmbiguous
	ErrDuplicateHost = inventory.ErrDuplicateHost
	ErrLocked        = records.ErrLocked
	ErrMovedAway     = records.ErrMovedAway
	ErrNoHost        = placement.ErrNoHost
	ErrBlocked       = migration.ErrBlocked
	ErrShared        = placement.ErrShared
	// ErrLeaseLost means that another run has taken over the object that this run was changing. ErrLeaseUnconfirmed
	// means that it is unknown whether another run has. This run changed nothing more.
	ErrLeaseLost        = lease.ErrLost
	ErrLeaseUnconfirmed = lease.ErrUnconfirmed
	ErrNotReady         = lifecycle.ErrNotReady
	ErrRestartRequired  = lifecycle.ErrRestartRequired
)

// What a user does after the remedy of an error.
const (
	Retry          = inventory.Retry
	Continue       = inventory.Continue
	Replan         = inventory.Replan
	Review         = inventory.Review
	DeleteFirst    = inventory.DeleteFirst
	InOrder        = inventory.InOrder
	EndMaintenance = inventory.EndMaintenance
)

// What to do if a change requires a restart.
const (
	PolicyLive    = placement.PolicyLive
	PolicyRestart = placement.PolicyRestart
	PolicyStage   = placement.PolicyStage
)

// Grace is how long an operation continues after its time is over, even if its host doesn't answer.
const Grace = lease.Grace

// DefaultGracePeriod is how long a guest may take to shut down if nothing else is set.
const DefaultGracePeriod = inventory.DefaultGracePeriod
