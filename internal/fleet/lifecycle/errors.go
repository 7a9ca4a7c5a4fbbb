package lifecycle

import (
	"errors"
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// Kinds of errors, which errors.Is distinguishes.
var (
	// ErrNotReady means that the VM did not reach the required state before the deadline.
	ErrNotReady = errors.New("not ready in time")
	// ErrRestartRequired means that a change needs a restart that the update policy does not allow.
	ErrRestartRequired = errors.New("a restart is required")
)

// errSeenDisk means that a disk that is marked as being created has data that a guest may have written, so that it is
// not created again.
var errSeenDisk = fmt.Errorf("%w: a guest may have written to the disk", inventory.ErrExists)

// errUndone means that another run was creating the VM, and has removed it.
var errUndone = errors.New("another run was creating the VM, and has removed it")
