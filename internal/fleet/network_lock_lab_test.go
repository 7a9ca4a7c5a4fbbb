package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/lease"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
)

func noRestart(context.Context) (bool, error) { return false, nil }

// Two runs don't change the reservations of a network and remove the network at the same time: libvirt would write the
// network's file again, and have the network again once it is restarted. Whichever begins, the other one waits, and no
// file is left. A network that a VM uses by then isn't removed. Nor do they lose each other's changes.
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
	// seen lets the test see when a lock is taken and released.
	type seen func(network.LockFunc) network.LockFunc

	unseen := func(lock network.LockFunc) network.LockFunc { return lock }
	add := func(lock seen, f *Fleet) error {
		return network.PutReservation(t.Context(), lock(f.LockShared), conn(f), name, mine)
	}
	withdraw := func(lock seen, f *Fleet) error {
		return network.RemoveReservation(t.Context(), lock(f.LockShared), conn(f), name, mine)
	}
	remove := func(lock seen, f *Fleet) error {
		return network.Delete(t.Context(), lock(f.LockOn), conn(f), name)
	}
	change := func(lock seen, f *Fleet) error {
		want := network.Wanted{Spec: network.Spec{Domain: &network.Domain{Name: "changed.test"}}}

		return network.Update(t.Context(), lock(f.LockOn), conn(f), name, want, noRestart)
	}
	use := func() {
		l.Define(t, "kvm1", fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
			<os><type>hvm</type></os><devices><interface type='network'><source network='%[1]s'/></interface></devices>
			</domain>`, name))
	}

	// both expects that no change was lost.
	both := func() {
		is, err := network.Read(t.Context(), conn(one), name)
		if err != nil {
			t.Error(err)

			return
		}

		r, err := network.ReadReservation(t.Context(), conn(one), name, mine)
		if err != nil || is.Spec.Domain == nil || is.Spec.Domain.Name != "changed.test" || !r.Complete(mine) {
			t.Errorf("%+v, %+v, %v; want both changes", is.Spec, r, err)
		}
	}
	unused := func() { l.Virsh(t, "kvm1", "undefine", name) }

	for order, do := range map[string]struct {
		first, then func(seen, *Fleet) error
		// removed says that first removes the network.
		removed bool
		// err is that of then.
		err error
		// meanwhile is done before first releases the lock.
		meanwhile func()
		// stays is done afterwards if the network isn't removed.
		stays func()
	}{
		"added, removed":       {add, remove, false, nil, nil, nil},
		"withdrawn, removed":   {withdraw, remove, false, nil, nil, nil},
		"removed, added":       {remove, add, true, libvirt.ErrNotFound, nil, nil},
		"removed, withdrawn":   {remove, withdraw, true, libvirt.ErrNotFound, nil, nil},
		"added, used, removed": {add, remove, false, network.ErrInUse, use, unused},
		"added, changed":       {add, change, false, nil, nil, both},
		"changed, added":       {change, add, false, nil, nil, both},
	} {
		want := network.Wanted{Spec: network.Spec{IPs: []network.IP{{Address: "10.213.177.1/24", DHCP: &network.DHCP{
			Hosts: []network.DHCPHost{{MAC: "52:54:00:77:a1:02", IP: "10.213.177.8"}},
		}}}}}
		if err := network.Update(t.Context(), one.LockOn, conn(one), name, want, noRestart); err != nil {
			t.Fatal(err)
		}

		ended, waits, locked := make(chan error, 1), make(chan struct{}), false

		listen(other, &onLog{Message: "waiting for another run's lease", Do: func() { close(waits) }})

		// The other run comes once the first one has the lock, and must wait until that has ended.
		first := func(lock network.LockFunc) network.LockFunc {
			return func(ctx context.Context, host, what, purpose string) (context.Context, func(), error) {
				held, release, err := lock(ctx, host, what, purpose)
				if err != nil {
					return nil, nil, err
				}

				locked = true

				go func() { ended <- do.then(unseen, other) }()

				select {
				case <-waits:
				case err := <-ended:
					t.Errorf("%s: the other run didn't wait: %v", order, err)

					ended <- err
				case <-time.After(fleettest.Patience):
					fleettest.Hung(t, "the other run to wait")
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
		}

		if err := do.first(first, one); err != nil {
			t.Errorf("%s: %v", order, err)
		}

		if !locked {
			t.Fatalf("%s: the first run takes no lock", order)
		}

		if err := fleettest.Await(t, ended); !errors.Is(err, do.err) {
			t.Errorf("%s: the other run: %v, want %v", order, err, do.err)
		}

		if do.stays != nil {
			if !slices.Contains(networks(), name) {
				t.Errorf("%s: the network was removed", order)
			}

			do.stays()

			if err := remove(unseen, one); err != nil {
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

// A run that changes several reservations of a network takes the network's lock once, however many it changes at the
// same time.
func TestLab_reservationsShareALock(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f, name := labFleet(t, l, t.Name(), nil), lab.Name(t)
	conn := f.Host("kvm1").Conn
	want := network.Wanted{Spec: network.Spec{IPs: []network.IP{{Address: "10.213.178.1/24", DHCP: &network.DHCP{
		Hosts: []network.DHCPHost{{MAC: "52:54:00:77:a2:01", IP: "10.213.178.2"}},
	}}}}}

	if err := network.Update(t.Context(), f.LockOn, conn, name, want, noRestart); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	_, release, err := f.LockShared(ctx, "kvm1", "network:"+name, "testing")
	if err != nil {
		t.Fatal(err)
	}

	lock := func() *libvirt.OwnSecret {
		t.Helper()

		is, err := lease.Current(ctx, conn, "network:"+name)
		if err != nil {
			t.Fatal(err)
		}

		return is
	}
	before := lock()

	var changes sync.WaitGroup

	reservations := make([]network.DHCPHost, 8)
	for i := range reservations {
		reservations[i] = network.DHCPHost{MAC: fmt.Sprintf("52:54:00:77:a2:1%d", i), IP: fmt.Sprintf("10.213.178.1%d", i)}

		changes.Go(func() {
			if err := network.PutReservation(ctx, f.LockShared, conn, name, reservations[i]); err != nil {
				t.Error(err)
			}
		})
	}

	fleettest.AwaitAll(t, &changes)

	if now := lock(); before == nil || now == nil || now.UUID != before.UUID {
		t.Errorf("the lock is %v, it was %v", now, before)
	}

	for _, r := range reservations {
		if is, err := network.ReadReservation(ctx, conn, name, r); err != nil || !is.Complete(r) {
			t.Errorf("%+v: %+v, %v", r, is, err)
		}
	}

	release()

	if now := lock(); now != nil {
		t.Errorf("the lock is left: %v", now)
	}

	if err := network.Delete(ctx, f.LockOn, conn, name); err != nil {
		t.Error(err)
	}
}
