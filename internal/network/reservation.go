package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Reservation is the state of one DHCP reservation of a network on a host.
type Reservation struct {
	// Persistent and Live are the reservation in the persistent and in the active definition; nil if it isn't there.
	Persistent, Live *DHCPHost
	// Active says that the network is active.
	Active bool

	specs []Spec // the network's definitions
}

// Complete reports whether the reservation is as wanted in each definition that must have it.
func (r *Reservation) Complete(want DHCPHost) bool {
	is := func(have *DHCPHost) bool { return have != nil && have.normal() == want.normal() }
	return is(r.Persistent) && (!r.Active || is(r.Live))
}

// Taken returns a ReservedError if the network has another reservation with the address or the name of the wanted one,
// nil if it has none. gone, which may be nil, says which ones will be gone.
func (r *Reservation) Taken(network string, want DHCPHost, gone func(DHCPHost) bool) error {
	for _, spec := range r.specs {
		if err := taken(spec, network, want, gone); err != nil {
			return err
		}
	}
	return nil
}

// SharesAddress reports whether another reservation of the network has the address.
func (r *Reservation) SharesAddress(want DHCPHost) bool {
	want.Name = ""
	return r.Taken("", want, nil) != nil
}

// Repeated reports whether a definition has several reservations for the MAC address or DUID.
func (r *Reservation) Repeated(of DHCPHost) bool {
	return slices.ContainsFunc(r.specs, func(spec Spec) bool { return len(reservationsIn(spec, of)) > 1 })
}

// Any returns the reservation from one of the definitions; nil if neither has it.
func (r *Reservation) Any() *DHCPHost {
	if r.Persistent != nil {
		return r.Persistent
	}
	return r.Live
}

// ReadReservation reads the reservation for the same MAC address or DUID. It returns libvirt.ErrNotFound if the host
// answered and has no such network. For a network without the reservation, Any of the result is nil.
func ReadReservation(ctx context.Context, h *libvirt.Host, network string, of DHCPHost) (*Reservation, error) {
	have, err := Read(ctx, h, network)
	if err != nil {
		return nil, err
	}
	r := &Reservation{Active: have.Active, Persistent: reservationIn(have.Spec, of), specs: []Spec{have.Spec}}
	if have.Live != nil {
		r.Live = reservationIn(*have.Live, of)
		r.specs = append(r.specs, *have.Live)
	}
	return r, nil
}

func reservationIn(spec Spec, of DHCPHost) *DHCPHost {
	if all := reservationsIn(spec, of); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// reservationsIn returns the reservations for the MAC address or DUID.
func reservationsIn(spec Spec, of DHCPHost) (found []DHCPHost) {
	for _, ip := range spec.IPs {
		if ip.DHCP == nil {
			continue
		}
		for _, h := range ip.DHCP.Hosts {
			if h.key() == of.normal().key() {
				found = append(found, h)
			}
		}
	}
	return found
}

// PutReservation adds a reservation to a network, or changes the existing reservation for the same MAC address or DUID,
// in the active and in the persistent definition. It returns libvirt.ErrNotFound if the host has no such network. If
// another reservation has the address or the name, it changes nothing, and returns a ReservedError.
//
// Changes of reservations may run at the same time: those of one run may share the lock.
func PutReservation(ctx context.Context, lock LockFunc, h *libvirt.Host, network string, want DHCPHost) error {
	return changeReservation(ctx, lock, h, network, func(spec Spec, _ bool) ([]reservationUpdate, error) {
		if err := taken(spec, network, want, nil); err != nil {
			return nil, err
		}
		return putOne(spec, want), nil
	})
}

// AddReservation is PutReservation for a reservation that is new: it also returns a ReservedError if there is one for
// the MAC address or DUID, which another run may have added since the host was asked.
func AddReservation(ctx context.Context, lock LockFunc, h *libvirt.Host, network string, want DHCPHost) error {
	return changeReservation(ctx, lock, h, network, func(spec Spec, again bool) ([]reservationUpdate, error) {
		if have := reservationIn(spec, want); have != nil && !again {
			return nil, &ReservedError{Network: network, Have: *have}
		}
		if err := taken(spec, network, want, nil); err != nil {
			return nil, err
		}
		return putOne(spec, want), nil
	})
}

// putOne returns the updates that make the wanted reservation the only one for its MAC address or DUID.
func putOne(spec Spec, want DHCPHost) (updates []reservationUpdate) {
	all := reservationsIn(spec, want)
	if len(all) == 0 {
		return put(nil, want)
	}
	stays := max(0, slices.IndexFunc(all, func(have DHCPHost) bool { return have.normal() == want.normal() }))
	for i, have := range all {
		if i != stays {
			updates = append(updates, reservationUpdate{libvirt.NetworkDelete, have})
		}
	}
	have := all[stays]
	if spec.subnetOf(have.IP) != spec.subnetOf(want.IP) {
		return append(updates, reservationUpdate{libvirt.NetworkDelete, have}, reservationUpdate{libvirt.NetworkAdd, want})
	}
	return append(updates, put(&have, want)...)
}

// subnetOf returns the index of the address range that an address is in, -1 if it is in none.
func (s Spec) subnetOf(ip string) int {
	address, _ := netip.ParseAddr(ip)
	return slices.IndexFunc(s.IPs, func(ip IP) bool {
		prefix, err := netip.ParsePrefix(ip.Address)
		return err == nil && prefix.Contains(address)
	})
}

// put returns the updates that make the reservation want of have, the existing one.
func put(have *DHCPHost, want DHCPHost) []reservationUpdate {
	switch {
	case have == nil:
		return []reservationUpdate{{libvirt.NetworkAdd, want}}
	case have.normal() == want.normal():
		return nil
	case !want.modifies(*have):
		return []reservationUpdate{{libvirt.NetworkDelete, *have}, {libvirt.NetworkAdd, want}}
	}
	return []reservationUpdate{{libvirt.NetworkModify, want}}
}

// RemoveReservation removes the reservation for the same MAC address or DUID from a network. It is no error if there is
// no such reservation.
func RemoveReservation(ctx context.Context, lock LockFunc, h *libvirt.Host, network string, of DHCPHost) error {
	return changeReservation(ctx, lock, h, network, func(spec Spec, _ bool) (updates []reservationUpdate, _ error) {
		for _, have := range reservationsIn(spec, of) {
			updates = append(updates, reservationUpdate{libvirt.NetworkDelete, have}) // libvirt compares all of it.
		}
		return updates, nil
	})
}

// reservationUpdate is one update of a network's reservations.
type reservationUpdate struct {
	command libvirt.NetworkCommand
	element DHCPHost
}

// needed returns the updates of a definition's reservations that a change requires. again says that it is the second
// try, before which the first may have changed one of the definitions.
type needed func(spec Spec, again bool) ([]reservationUpdate, error)

// changeReservation makes the necessary change in each definition, in both at once if the change is the same. It
// retries if the network was started or stopped meanwhile. The lock keeps other runs from removing the network; a host
// without a secret driver has none.
func changeReservation(
	ctx context.Context, lock LockFunc, h *libvirt.Host, network string, needed needed,
) error {
	return lock.locked(ctx, h, network, "changing a reservation of", func(ctx context.Context) error {
		// The run shares its lock: another of its changes must not come between the check and the update.
		done, err := turns.wait(ctx, h.Name()+" "+network)
		if err != nil {
			return err
		}
		defer done()
		err = changeReservationOnce(ctx, h, network, needed, false)
		if errors.Is(err, libvirt.ErrOperationInvalid) {
			err = changeReservationOnce(ctx, h, network, needed, true)
		}
		return err
	})
}

func changeReservationOnce(
	ctx context.Context, h *libvirt.Host, network string, needed needed, again bool,
) error {
	have, err := Read(ctx, h, network)
	if err != nil {
		return err
	}
	updatesOf := func(spec Spec) ([]libvirt.NetworkUpdate, error) {
		all, err := needed(spec, again)
		if err != nil {
			return nil, err
		}
		return reservationUpdates(spec, network, all)
	}
	update := func(spec Spec, live, config bool) error {
		updates, err := updatesOf(spec)
		if err != nil {
			return err
		}
		for i, u := range updates {
			if err := h.UpdateNetwork(ctx, network, u, live, config); err != nil {
				return errors.Join(err, restoreReservation(ctx, h, network, updates[:i], live, config))
			}
		}
		return nil
	}
	switch {
	case have.Live == nil:
		return update(have.Spec, false, true)
	case have.Transient:
		return update(*have.Live, true, false)
	}
	// Either definition may refuse the change, before any of them is changed.
	config, err := updatesOf(have.Spec)
	if err != nil {
		return err
	}
	live, err := updatesOf(*have.Live)
	if err != nil {
		return err
	}
	if slices.Equal(config, live) {
		return update(*have.Live, true, true)
	}
	if err := update(have.Spec, false, true); err != nil {
		return err
	}
	return update(*have.Live, true, false)
}

// reservationUpdates returns the updates for libvirt. It returns an error if the network has no place for one of them,
// before any of them is made.
func reservationUpdates(spec Spec, network string, needed []reservationUpdate) ([]libvirt.NetworkUpdate, error) {
	updates := make([]libvirt.NetworkUpdate, len(needed))
	for i, u := range needed {
		parent, err := u.parent(spec, network)
		if err != nil {
			return nil, err
		}
		updates[i] = libvirt.NetworkUpdate{
			Command: u.command, Section: libvirt.NetworkDHCPHost, Parent: parent, XML: dhcpHosts.element(u.element.normal()),
		}
	}
	return updates, nil
}

// restoreReservation adds the reservations again that the updates have deleted, after a later one has failed.
func restoreReservation(
	ctx context.Context, h *libvirt.Host, network string, made []libvirt.NetworkUpdate, live, config bool,
) error {
	ctx, cancel := hostset.CleanupContext(ctx)
	defer cancel()
	var errs []error
	for _, u := range made {
		if u.Command == libvirt.NetworkDelete {
			u.Command = libvirt.NetworkAdd
			errs = append(errs, h.UpdateNetwork(ctx, network, u, live, config))
		}
	}
	return errors.Join(errs...)
}

// parent returns the index of the <ip> that is updated: the one that has a reservation that is deleted, otherwise the
// one whose subnet has the reservation's address.
func (u reservationUpdate) parent(spec Spec, network string) (int, error) {
	if _, err := netip.ParseAddr(u.element.IP); err != nil {
		return 0, fmt.Errorf("%w: %q isn't an address", libvirt.ErrInvalid, u.element.IP)
	}
	at := spec.subnetOf(u.element.IP)
	if u.command == libvirt.NetworkDelete {
		at = slices.IndexFunc(spec.IPs, func(ip IP) bool {
			return ip.DHCP != nil && slices.Contains(ip.DHCP.Hosts, u.element)
		})
	}
	if at < 0 {
		return 0, fmt.Errorf("%w: network %q has no address range that %s is in", libvirt.ErrInvalid, network, u.element.IP)
	}
	return at, nil
}
