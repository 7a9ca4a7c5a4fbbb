package inventory

import (
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// DefaultGracePeriod is how long a guest may take to shut down when nothing said otherwise. It is the 180 s that
// KubeVirt's templates give a VM.
const DefaultGracePeriod = 180 * time.Second

// GracePeriod is how long a guest may take to shut down whose VM has that metadata.
func GracePeriod(m domain.Metadata) time.Duration {
	if period := m.TerminationGracePeriod; period != nil {
		return *period
	}

	return DefaultGracePeriod
}

// Outcome says how a VM came to be off.
type Outcome string

// Outcomes of stopping a VM.
const (
	OutcomeNotRunning Outcome = "not running"
	OutcomeAgent      Outcome = "shut down by its guest agent"
	OutcomeACPI       Outcome = "shut down by ACPI"
	OutcomeForced     Outcome = "destroyed after the grace period"
	OutcomeUnable     Outcome = "destroyed, since its guest could not be asked"
)

// Forced says that the guest had no chance to write what it held in memory.
func (o Outcome) Forced() bool { return o == OutcomeForced || o == OutcomeUnable }
