package network

import (
	"errors"
	"slices"
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

// TestPut: libvirt modifies the first reservation with the MAC address or the name. With a new name, this may be that
// of another computer, which would lose it.
func TestPut(t *testing.T) {
	t.Parallel()
	have := DHCPHost{MAC: "52:54:00:00:00:01", IP: "10.0.0.5", Name: "web"}
	changed := func(ip, name string) DHCPHost { return DHCPHost{MAC: have.MAC, IP: ip, Name: name} }
	for want, commands := range map[DHCPHost][]libvirt.NetworkCommand{
		changed("10.0.0.5", "web"): nil,
		changed("10.0.0.6", "web"): {libvirt.NetworkModify},
		changed("10.0.0.5", ""):    {libvirt.NetworkModify},
		changed("10.0.0.5", "www"): {libvirt.NetworkDelete, libvirt.NetworkAdd},
	} {
		var got []libvirt.NetworkCommand
		for _, u := range put(&have, want) {
			got = append(got, u.command)
		}
		if !slices.Equal(got, commands) {
			t.Errorf("%+v: %v, want %v", want, got, commands)
		}
	}
}
