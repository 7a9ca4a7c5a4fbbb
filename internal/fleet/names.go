package fleet

import (
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/drain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lifecycle"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// What importers name of the packages below, so that they need one package for most of what they do.
type (
	// VM is what the fleet knows of one VM.
	VM = inventory.VM
	// LastKnown is what the reader remembers of where the VM was.
	LastKnown = inventory.LastKnown
	// Listed is one VM of the fleet.
	Listed = inventory.Listed
	// HostConfig is one host.
	HostConfig = inventory.HostConfig
	// Error is an error about a VM.
	Error = inventory.Error
	// Problem is something that keeps a plan from working.
	Problem = inventory.Problem
	// Event is something that happened on a host.
	Event = inventory.Event
	// HostPoll is what one host said, in one pass, of how its VMs stand.
	HostPoll = inventory.HostPoll
	// Outcome says how a VM came to be off.
	Outcome = inventory.Outcome
	// Desired is what a VM is to be.
	Desired = placement.Desired
	// HostObject is something that a VM needs on its host.
	HostObject = status.HostObject
	// PlannedObjects are such objects that hosts will have.
	PlannedObjects = status.PlannedObjects
	// PlannedHosts are the hosts that will have one.
	PlannedHosts = status.PlannedHosts
	// Placement restricts the hosts for a VM.
	Placement = placement.Placement
	// MoveOrder asks for a migration.
	MoveOrder = move.Order
	// MoveCandidate is a host that a VM may move to.
	MoveCandidate = move.Candidate
	// AntiAffinity keeps a VM away from others.
	AntiAffinity = placement.AntiAffinity
	// WaitFor is what is awaited of a VM.
	WaitFor = lifecycle.WaitFor
	// Drain asks for a host without VMs.
	Drain = drain.Drain
	// EvacuationQuery asks how a host would be drained.
	EvacuationQuery = drain.EvacuationQuery
)

// Kinds of errors, told apart with errors.Is.
var (
	ErrNotFound      = inventory.ErrNotFound
	ErrUnreachable   = inventory.ErrUnreachable
	ErrExists        = inventory.ErrExists
	ErrUnsupported   = inventory.ErrUnsupported
	ErrInvalid       = inventory.ErrInvalid
	ErrBusy          = inventory.ErrBusy
	ErrUnconfigured  = inventory.ErrUnconfigured
	ErrTwoCopies     = inventory.ErrTwoCopies
	ErrAmbiguous     = inventory.ErrAmbiguous
	ErrDuplicateHost = inventory.ErrDuplicateHost
	ErrLocked        = records.ErrLocked
	ErrNoHost        = placement.ErrNoHost
	ErrBlocked       = migration.ErrBlocked
	ErrShared        = placement.ErrShared
	// ErrLeaseLost means that another run has taken over what this one was changing, and ErrLeaseUnconfirmed that it is
	// unknown whether one has. Nothing more was changed.
	ErrLeaseLost        = lease.ErrLost
	ErrLeaseUnconfirmed = lease.ErrUnconfirmed
	ErrNotReady         = lifecycle.ErrNotReady
	ErrRestartRequired  = lifecycle.ErrRestartRequired
)

// What is done if a change needs a restart.
const (
	PolicyLive    = placement.PolicyLive
	PolicyRestart = placement.PolicyRestart
	PolicyStage   = placement.PolicyStage
)

// Grace is how long an operation goes on after its time is over, also if its host is silent.
const Grace = lease.Grace

// DefaultGracePeriod is how long a guest may take to shut down when nothing else is said.
const DefaultGracePeriod = inventory.DefaultGracePeriod
