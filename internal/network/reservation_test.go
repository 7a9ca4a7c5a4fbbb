package network

import (
	"errors"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestReservationUpdates: if the network has no place for a reservation that is added, the one that it replaces isn't
// deleted either.
func TestReservationUpdates(t *testing.T) {
	t.Parallel()
	have := DHCPHost{DUID: "00:03:00:01:52:54:00:00:00:01", IP: "fd00::5"}
	spec := Spec{IPs: []IP{{Address: "10.0.0.1/24"}, {Address: "fd00::1/64", DHCP: &DHCP{Hosts: []DHCPHost{have}}}}}
	for ip, fits := range map[string]bool{"fd00::6": true, "fd01::6": false} {
		updates, err := reservationUpdates(spec, "lan", []reservationUpdate{
			{libvirt.NetworkDelete, have}, {libvirt.NetworkAdd, DHCPHost{DUID: have.DUID, IP: ip}},
		})
		switch {
		case fits && (err != nil || len(updates) != 2 || updates[0].Parent != 1 || updates[1].Parent != 1):
			t.Errorf("%s: %+v, %v", ip, updates, err)
		case !fits && (!errors.Is(err, libvirt.ErrInvalid) || len(updates) > 0):
			t.Errorf("%s: %+v, %v; want no update", ip, updates, err)
		}
	}
}
