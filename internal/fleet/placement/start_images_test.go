package placement

import (
	"fmt"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestImageProblem: only what Ceph says about an image is a reason to put that back or to give it up.
func TestImageProblem(t *testing.T) {
	t.Parallel()

	for of, want := range map[error]struct{ lost, remedy bool }{
		libvirt.ErrNotFound:     {false, true},
		libvirt.ErrInternal:     {true, true},
		libvirt.ErrUnreachable:  {false, false},
		libvirt.ErrPoolInactive: {false, false},
		libvirt.ErrDenied:       {false, false},
	} {
		p, lost := imageProblem(&inventory.VM{}, "data", domain.OwnDisk{}, "h", fmt.Errorf("reading: %w", of))
		if lost != want.lost || p.Warning == lost || (p.Remedy != "") != want.remedy || p.Warning && p.Summary == "" {
			t.Errorf("%v: %+v, lost: %t", of, p, lost)
		}
	}
}
