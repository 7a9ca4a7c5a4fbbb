package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A new VM leaves room for a disk that is on its way to the storage pool with another VM: the move isn't undone once
// its disk has been copied.
func TestLab_newDisksLeaveRoomForThoseOnTheirWay(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, lab.Name(t), func(_ string, hc *inventory.HostConfig) { hc.StorageOverprovisioningFactor = 1.5 })
	pool := lab.Name(t)
	dir := directory(t, l, "kvm1", "kvm2")

	for _, host := range []string{"kvm1", "kvm2"} {
		diskPool(t, l, host, pool, dir)
	}

	whole := poolCapacity(t, l, "kvm2", pool)
	wish := func(name, host string) placement.Desired {
		d := owner(t, l, "Halted", pool)
		d.Spec.Name, d.Metadata.Host = pool+"-"+name, host
		d.OwnDisks["disk0"] = domain.OwnDisk{Pool: pool, Bytes: whole * 8 / 10 >> 20 << 20}

		return d
	}

	vm := create(t, f, l, wish("moves", "kvm1"))

	listen(f, &onLog{Message: "moving definition", Do: func() { // Nothing is copied yet.
		other, err := f.Create(t.Context(), wish("new", "kvm2"))
		if !errors.Is(err, placement.ErrNoHost) || !strings.Contains(err.Error(), "storage_overprovisioning_factor") {
			t.Errorf("creating another: %v", err)
		}

		if other != nil {
			if err := f.FinishCreate(t.Context(), other); err != nil {
				t.Error(err)
			}
		}
	}})

	now, _, err := f.Move(t.Context(), vm.UUID, lastOf(vm), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" {
		t.Errorf("%+v, %v", now, err)
	}
}
