package network

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ReservedError says that a network has another reservation, with which the wanted one can't be. It is
// libvirt.ErrExists.
type ReservedError struct {
	Network string
	// Have is the reservation that is there.
	Have DHCPHost
}

func (e *ReservedError) Error() string {
	return fmt.Sprintf("network %q has another reservation: %s", e.Network, e.Have)
}

// Is says that the error is libvirt.ErrExists.
func (*ReservedError) Is(target error) bool { return target == libvirt.ErrExists }

// String returns the reservation for messages.
func (h DHCPHost) String() string {
	text := h.IP
	for _, part := range []struct{ word, value string }{{"mac", h.MAC}, {"duid", h.DUID}, {"name", h.Name}} {
		if part.value != "" {
			text += fmt.Sprintf(", %s %q", part.word, part.value)
		}
	}
	return text
}

// Key returns the MAC address or DUID, or else the name, that the reservation is for.
func (h DHCPHost) Key() string { return h.key() }

// Shares returns what two reservations of a network both have and only one can have: "mac", "duid", "ip" or "name", or
// "" if the network can have both. One computer may have the same name with IPv4 and with IPv6. "" as address is one
// that isn't known yet, and may be of either family.
func (h DHCPHost) Shares(other DHCPHost) string {
	h, other = h.normal(), other.normal()
	switch {
	case h.MAC+h.DUID != "" && h.key() == other.key():
		if h.MAC == "" {
			return "duid"
		}
		return "mac"
	case h.IP != "" && h.IP == other.IP:
		return "ip"
	case h.Name != "" && h.Name == other.Name && h.IP != "" && other.IP != "" &&
		strings.Contains(h.IP, ":") == strings.Contains(other.IP, ":"):
		return "name"
	}
	return ""
}

// taken returns a ReservedError if another reservation has the address of the wanted one, or its name with an address
// of the same family, IPv4 or IPv6, in any subnet. libvirt refuses to add such a reservation. But its modify command
// changes the first one that it finds by the address, the name or the MAC address: then the other computer would lose
// its reservation. gone, which may be nil, says which ones will be gone.
func taken(spec Spec, network string, want DHCPHost, gone func(DHCPHost) bool) error {
	for _, ip := range spec.IPs {
		if ip.DHCP == nil {
			continue
		}
		for _, have := range ip.DHCP.Hosts {
			if gone != nil && gone(have) {
				continue
			}
			switch want.Shares(have) {
			case "ip", "name":
				return &ReservedError{Network: network, Have: have}
			}
		}
	}
	return nil
}

// turns are those of changes of one network's reservations on one host.
var turns turnsByName

// turnsByName lets one caller at a time have a name.
type turnsByName struct{ all sync.Map }

// wait waits for the caller's turn. The caller calls done once to end it.
func (t *turnsByName) wait(ctx context.Context, name string) (done func(), _ error) {
	made, _ := t.all.LoadOrStore(name, make(chan struct{}, 1))
	turn, _ := made.(chan struct{})
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
