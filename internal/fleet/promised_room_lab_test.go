package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A move counts what is promised in the target's storage pool and isn't written yet: what another run is copying there,
// and the disks of a VM that another run is creating there.
func TestLab_movesLeaveRoomForWhatIsPromised(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	alice := labFleet(t, l, "alice", nil)
	pool := lab.Name(t)
	dir := directory(t, l, "kvm1", "kvm2")

	for _, host := range []string{"kvm1", "kvm2"} {
		diskPool(t, l, host, pool, dir)
	}

	l.Run(t, "kvm2", "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir+"/"+pool)
	l.Virsh(t, "kvm2", "pool-refresh", pool)

	wish := func(name, host string) placement.Desired {
		d := owner(t, l, "Halted", pool)
		d.Spec.Name, d.Metadata.Host = pool+"-"+name, host
		d.OwnDisks["disk0"] = domain.OwnDisk{Pool: pool, Bytes: 40 << 20}

		return d
	}
	full := func(name string) *inventory.VM {
		vm := create(t, alice, l, wish(name, "kvm1"))
		l.Run(t, "kvm1", "sh", "-c", "dd if=/dev/urandom bs=1M count=40 conv=notrunc status=none of="+
			vm.Metadata.OwnDisks["disk0"].Path)

		return vm
	}
	first, second := full("first"), full("second")

	l.Virsh(t, "kvm1", "pool-refresh", pool)

	refused := func(when string) func() {
		return func() {
			bob := labFleet(t, l, "bob", nil)

			now, _, err := bob.Move(t.Context(), second.UUID, lastOf(second), "kvm2", migration.Options{})
			if !errors.Is(err, migration.ErrBlocked) || !strings.Contains(err.Error(), "are free") {
				t.Errorf("moving another one while %s: %+v, %v", when, now, err)
			}
		}
	}

	listen(alice, &onLog{Message: "moving definition", Do: refused("a disk is copied")}) // It is recorded, and not begun.

	now, _, err := alice.Move(t.Context(), first.UUID, lastOf(first), "kvm2", migration.Options{})
	if err != nil || now.Host != "kvm2" {
		t.Fatalf("%+v, %v", now, err)
	}

	if _, err := alice.Delete(t.Context(), first.UUID, lastOf(now), 0); err != nil {
		t.Fatal(err)
	}

	thick := wish("thick", "kvm2")
	thick.OwnDisks["disk0"] = domain.OwnDisk{Pool: pool, Bytes: 40 << 20, Preallocation: storage.PreallocationFull}

	listen(alice, &onLog{Message: "creating a disk", Do: refused("a disk is created")})

	made := create(t, alice, l, thick)

	if _, err := alice.Delete(t.Context(), made.UUID, lastOf(made), 0); err != nil {
		t.Fatal(err)
	}

	// Once there is room, it moves.
	alice.ForgetAll()
	l.Virsh(t, "kvm2", "pool-refresh", pool)

	if now, _, err := alice.Move(t.Context(), second.UUID, lastOf(second), "kvm2", migration.Options{}); err != nil ||
		now.Host != "kvm2" {
		t.Error(fmt.Errorf("%+v: %w", now, err))
	}
}
