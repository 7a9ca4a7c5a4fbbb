package fleet

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/move"
)

// The time that an update or a migration takes by default allows for the disks that are copied, not for the memory
// alone, whether the target is known or not.
func TestMoveBudget_countsCopiedDisks(t *testing.T) {
	t.Parallel()

	const (
		uuid   = "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10"
		memory = 4 << 30
		vm     = `<domain type="test"><name>web</name><uuid>` + uuid + `</uuid><memory unit="GiB">4</memory>
  <os><type>hvm</type></os><devices><disk type="file"><driver name="qemu" type="qcow2"/><source file="/srv/web"/>
  <target dev="vda"/></disk></devices></domain>`
	)

	f := openFleet(t, Config{Hosts: map[string]inventory.HostConfig{
		"kvm1": {URI: fleettest.BuiltInURI(t, vm)}, "kvm2": {URI: fleettest.BuiltInURI(t)},
	}})

	disks, err := f.Host("kvm1").Conn.BlockInfos(t.Context(), uuid, []string{"vda"})
	if err != nil || disks["vda"].Capacity < memory {
		t.Fatalf("%+v, %v", disks, err)
	}

	for mode, bytes := range map[string]uint64{
		migration.CopyNone: memory, migration.CopyFull: memory + disks["vda"].Capacity,
	} {
		for _, target := range []string{"kvm2", ""} {
			o := migration.Options{CopyStorage: mode}

			got, err := f.MoveBudget(t.Context(), move.Order{UUID: uuid, Target: target, Options: o})
			if want := o.Budget(bytes); err != nil || got != want {
				t.Errorf("%s, to %q: %s, %v; want %s", mode, target, got, err, want)
			}
		}
	}
}
