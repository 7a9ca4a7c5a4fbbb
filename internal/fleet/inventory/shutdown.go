package inventory

import (
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// DefaultGracePeriod is how long a guest may take to shut down by default. KubeVirt's templates give a VM the same 180
// s.
const DefaultGracePeriod = 180 * time.Second

// GracePeriod returns how long the guest of a VM with that metadata may take to shut down.
func GracePeriod(m domain.Metadata) time.Duration {
	if period := m.TerminationGracePeriod; period != nil {
		return *period
	}

	return DefaultGracePeriod
}

// Outcome is how a VM came to be off.
type Outcome string

// Outcomes of stopping a VM.
const (
	OutcomeNotRunning Outcome = "not running"
	OutcomeAgent      Outcome = "shut down by its guest agent"
	OutcomeACPI       Outcome = "shut down by ACPI"
	OutcomeForced     Outcome = "destroyed after the grace period"
	OutcomeUnable     Outcome = "destroyed, since its guest could not be asked"
)

// Forced reports whether the guest was ended without a chance to write what it held in memory.
func (o Outcome) Forced() bool { return o == OutcomeForced || o == OutcomeUnable }
