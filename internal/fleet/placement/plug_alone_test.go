package placement

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
)

// A definition that was written, and can't be read again, is put back: the disk must not stay in it.
func TestPlugAlone_takesBackWhatFailedAfterItWasWritten(t *testing.T) {
	t.Parallel()

	errRead, errBack := errors.New("it can't be read"), errors.New("it can't be put back")
	disk := domain.DiskUse{Key: "data", Source: domain.DiskSource{File: "/srv/data.raw"}}

	for _, fails := range []error{nil, errBack} {
		defined := []domain.DiskUse{}
		vm := &inventory.VM{UUID: "a", Name: "a", Host: "kvm1", On: &inventory.Host{Name: "kvm1"}}

		err := (&Claims{}).PlugAlone(t.Context(), vm, Plugging{
			Disks: []domain.DiskUse{disk},
			Define: func(context.Context) error {
				defined = append(defined, disk)

				return errRead
			},
			TakeBack: func(context.Context) error {
				if fails == nil {
					defined = slices.Delete(defined, 0, 1)
				}

				return fails
			},
			Plug: func(context.Context) error {
				t.Error("it was plugged in")

				return nil
			},
		})

		if !errors.Is(err, errRead) || fails != nil && !errors.Is(err, fails) {
			t.Errorf("%v; want both errors", err)
		}

		if left := len(defined); (left == 0) != (fails == nil) {
			t.Errorf("%d disks are left in the definition", left)
		}
	}
}
