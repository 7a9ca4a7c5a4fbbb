package move

import (
	"fmt"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// leftText says why something that is left on a host stays there.
func leftText(left domain.LeftVolume, host, stays string) string {
	volume := " (volume " + left.Name() + ")"
	if left.IsOriginal() {
		volume = ""
	}

	return fmt.Sprintf("%s on host %q%s, %s: %s", left.Path, host, volume, LeftBy(left), stays)
}

// LeftBy says who left something on a host.
func LeftBy(left domain.LeftVolume) string {
	if left.Creating {
		return "which an interrupted run began to create"
	}

	return "which an earlier run left"
}
