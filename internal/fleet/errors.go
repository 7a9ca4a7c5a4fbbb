package fleet

import (
	"errors"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
)

// Kinds of errors of what is done to VMs. Those of reading are the inventory's.
var (
	// ErrLeaseLost means that another run has taken over what this one was
	// changing, and ErrLeaseUnconfirmed that nobody can tell whether one has.
	// Nothing more was changed.
	ErrLeaseLost        = lease.ErrLost
	ErrLeaseUnconfirmed = lease.ErrUnconfirmed
	// ErrNotReady means that the deadline passed before what was awaited came.
	ErrNotReady = errors.New("not ready in time")
	// ErrRestartRequired means that a change needs a restart that the update
	// policy does not allow.
	ErrRestartRequired = errors.New("a restart is required")
)
