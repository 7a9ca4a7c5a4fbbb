package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

// Two runs don't change the reservations of a network and remove the network at the same time: libvirt would write the
// network's file again, and have the network again once it is restarted. Whichever begins, the other one waits, and no
// file is left. A network that a VM uses by then isn't removed.
func TestLab_networkIsRemovedWhileAReservationChanges(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	one, other := labFleet(t, l, "one run", nil), labFleet(t, l, "another run", nil)
	name := lab.Name(t)
	conn := func(f *Fleet) *libvirt.Host { return f.Host("kvm1").Conn }
	mine := network.DHCPHost{MAC: "52:54:00:77:a1:01", IP: "10.213.177.7"}
	networks := func() []string {
		t.Helper()

		all, err := conn(other).Networks(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		var names []string
		for _, n := range all {
			names = append(names, n.Name)
		}

		return names
	}
	add := func(lock network.LockFunc, f *Fleet) error {
		return network.PutReservation(t.Context(), lock, conn(f), name, mine)
	}
	withdraw := func(lock network.LockFunc, f *Fleet) error {
		return network.RemoveReservation(t.Context(), lock, conn(f), name, mine)
	}
	remove := func(lock network.LockFunc, f *Fleet) error {
		return network.Delete(t.Context(), lock, conn(f), name)
	}
	use := func() {
		l.Define(t, "kvm1", fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
			<os><type>hvm</type></os><devices><interface type='network'><source network='%[1]s'/></interface></devices>
			</domain>`, name))
	}

	for order, do := range map[string]struct {
		first, then func(network.LockFunc, *Fleet) error
		// meanwhile is done before first releases the lock.
		meanwhile func()
		// removed says that first removes the network.
		removed bool
		// err is that of then.
		err error
	}{
		"added, removed":       {add, remove, nil, false, nil},
		"withdrawn, removed":   {withdraw, remove, nil, false, nil},
		"removed, added":       {remove, add, nil, true, libvirt.ErrNotFound},
		"removed, withdrawn":   {remove, withdraw, nil, true, libvirt.ErrNotFound},
		"added, used, removed": {add, remove, use, false, network.ErrInUse},
	} {
		want := network.Wanted{Spec: network.Spec{IPs: []network.IP{{Address: "10.213.177.1/24", DHCP: &network.DHCP{
			Hosts: []network.DHCPHost{{MAC: "52:54:00:77:a1:02", IP: "10.213.177.8"}},
		}}}}}
		if err := network.Update(t.Context(), conn(one), name, want, false); err != nil {
			t.Fatal(err)
		}

		ended, waits, locked := make(chan error, 1), make(chan struct{}), false

		listen(other, &onLog{Message: "waiting for another run's lease", Do: func() { close(waits) }})

		// lock is the first run's. The other run comes once it has the lock, and must wait until it has ended.
		lock := func(ctx context.Context, host, what, purpose string) (context.Context, func(), error) {
			held, release, err := one.LockOn(ctx, host, what, purpose)
			if err != nil {
				return nil, nil, err
			}

			locked = true

			go func() { ended <- do.then(other.LockOn, other) }()

			select {
			case <-waits:
			case err := <-ended:
				t.Errorf("%s: the other run didn't wait: %v", order, err)

				ended <- err
			}

			return held, func() {
				if there := slices.Contains(networks(), name); there == do.removed {
					t.Errorf("%s: the network is there: %v", order, there)
				}

				if do.meanwhile != nil {
					do.meanwhile()
				}

				release()
			}, nil
		}

		if err := do.first(lock, one); err != nil {
			t.Errorf("%s: %v", order, err)
		}

		if !locked {
			t.Fatalf("%s: the first run takes no lock", order)
		}

		if err := <-ended; !errors.Is(err, do.err) {
			t.Errorf("%s: the other run: %v, want %v", order, err, do.err)
		}

		if do.meanwhile != nil {
			if !slices.Contains(networks(), name) {
				t.Errorf("%s: the network of a VM was removed", order)
			}

			l.Virsh(t, "kvm1", "undefine", name)

			if err := remove(one.LockOn, one); err != nil {
				t.Errorf("%s: %v", order, err)
			}
		}

		if slices.Contains(networks(), name) {
			t.Errorf("%s: the host still has the network", order)
		}

		if _, err := os.Stat(l.Host("kvm1").Path("/etc/libvirt/qemu/networks/" + name + ".xml")); !os.IsNotExist(err) {
			t.Errorf("%s: the network's file: %v", order, err)
		}
	}
}
