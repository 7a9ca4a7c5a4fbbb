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
}

// Complete reports whether the reservation is as wanted in each definition that must have it.
func (r *Reservation) Complete(want DHCPHost) bool {
	is := func(have *DHCPHost) bool { return have != nil && have.normal() == want.normal() }
	return is(r.Persistent) && (!r.Active || is(r.Live))
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
	r := &Reservation{Active: have.Active, Persistent: reservationIn(have.Spec, of)}
	if have.Live != nil {
		r.Live = reservationIn(*have.Live, of)
	}
	return r, nil
}

func reservationIn(spec Spec, of DHCPHost) *DHCPHost {
	for _, ip := range spec.IPs {
		if ip.DHCP == nil {
			continue
		}
		for _, h := range ip.DHCP.Hosts {
			if h.key() == of.normal().key() {
				return &h
			}
		}
	}
	return nil
}

// PutReservation adds a reservation to a network, or changes the existing reservation for the same MAC address or DUID,
// in the active and in the persistent definition. It returns libvirt.ErrNotFound if the host has no such network.
//
// Changes of reservations may run at the same time: those of one run may share the lock.
func PutReservation(ctx context.Context, lock LockFunc, h *libvirt.Host, network string, want DHCPHost) error {
	return changeReservation(ctx, lock, h, network, want, func(have *DHCPHost) []reservationUpdate {
		return put(have, want)
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
	return changeReservation(ctx, lock, h, network, of, func(have *DHCPHost) []reservationUpdate {
		if have == nil {
			return nil
		}
		return []reservationUpdate{{libvirt.NetworkDelete, *have}} // libvirt compares all of it.
	})
}

// reservationUpdate is one update of a network's reservations.
type reservationUpdate struct {
	command libvirt.NetworkCommand
	element DHCPHost
}

// changeReservation makes the necessary change in each definition, in both at once if the change is the same. It
// retries if the network was started or stopped meanwhile. The lock keeps other runs from removing the network; a host
// without a secret driver has none.
func changeReservation(
	ctx context.Context, lock LockFunc, h *libvirt.Host, network string, of DHCPHost,
	needed func(*DHCPHost) []reservationUpdate,
) error {
	return lock.locked(ctx, h, network, "changing a reservation of", func(ctx context.Context) error {
		err := changeReservationOnce(ctx, h, network, of, needed)
		if errors.Is(err, libvirt.ErrOperationInvalid) {
			err = changeReservationOnce(ctx, h, network, of, needed)
		}
		return err
	})
}

func changeReservationOnce(
	ctx context.Context, h *libvirt.Host, network string, of DHCPHost, needed func(*DHCPHost) []reservationUpdate,
) error {
	have, err := Read(ctx, h, network)
	if err != nil {
		return err
	}
	update := func(spec Spec, live, config bool) error {
		updates, err := reservationUpdates(spec, network, needed(reservationIn(spec, of)))
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
	case equal(reservationIn(have.Spec, of), reservationIn(*have.Live, of)):
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

// parent returns the index of the <ip> that is updated: the one whose subnet has the address of a reservation that is
// added, otherwise the one that has a reservation for the same MAC address or DUID.
func (u reservationUpdate) parent(spec Spec, network string) (int, error) {
	address, err := netip.ParseAddr(u.element.IP)
	if err != nil {
		return 0, fmt.Errorf("%w: %q isn't an address", libvirt.ErrInvalid, u.element.IP)
	}
	at := slices.IndexFunc(spec.IPs, func(ip IP) bool {
		if u.command != libvirt.NetworkAdd {
			return reservationIn(Spec{IPs: []IP{ip}}, u.element) != nil
		}
		prefix, err := netip.ParsePrefix(ip.Address)
		return err == nil && prefix.Contains(address)
	})
	if at < 0 {
		return 0, fmt.Errorf("%w: network %q has no address range that %s is in", libvirt.ErrInvalid, network, u.element.IP)
	}
	return at, nil
}
