package network

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// ErrInUse means that a network or a network filter can't be removed, because something uses it.
var ErrInUse = fmt.Errorf("%w: it is in use", libvirt.ErrOperationInvalid)

// User is a VM of a host whose definition uses a network or a network filter.
type User struct {
	Name   string
	Active bool
	// Live says that the live definition uses it.
	Live bool
}

// Users returns the VMs of a host whose persistent or live definition has an interface in a network, or on the bridge
// that libvirt creates for it, by their names.
func Users(ctx context.Context, h *libvirt.Host, network string) ([]User, error) {
	bridges, err := ownBridges(ctx, h, network)
	if err != nil {
		return nil, err
	}
	return usersOf(ctx, h, connects(network, bridges))
}

// PortGroupUsers returns the VMs of a host whose definitions have an interface with a port group of a network.
func PortGroupUsers(ctx context.Context, h *libvirt.Host, network, group string) ([]User, error) {
	return usersOf(ctx, h, func(e *etree.Element) bool {
		source := child(e, "source")
		return attr(source, "network") == network && attr(source, "portgroup") == group
	})
}

// connects returns whether an interface is in a network, or on one of the bridges.
func connects(network string, bridges []string) func(*etree.Element) bool {
	return func(e *etree.Element) bool {
		// While a VM runs, its interface has the network's name and the type of what the network is connected to.
		source := child(e, "source")
		return attr(source, "network") == network ||
			attr(e, "type") == "bridge" && slices.Contains(bridges, attr(source, "bridge"))
	}
}

// CutOff returns the VMs of a host that run with an interface in a network that isn't active: it was stopped under
// them. libvirt doesn't connect them to the bridge that it creates when the network is started. If the network has a
// bridge of the host, stopping it cuts off nothing.
func CutOff(ctx context.Context, h *libvirt.Host, network string) ([]User, error) {
	is, err := Read(ctx, h, network)
	switch {
	case errors.Is(err, libvirt.ErrNotFound):
		is = &State{}
	case err != nil:
		return nil, err
	case is.Active || is.Spec.Forward != nil && !slices.Contains(BridgeModes, is.Spec.Forward.Mode):
		return nil, nil
	}
	var bridges []string
	if is.Spec.Bridge != nil {
		bridges = append(bridges, *is.Spec.Bridge)
	}
	users, err := usersOf(ctx, h, connects(network, bridges))
	return slices.DeleteFunc(users, func(u User) bool { return !u.Live }), err
}

// losing returns the names of the VMs of a host that run with an interface in a network, and lose their connection when
// it is stopped. If the network has a bridge of the host, there are none.
func losing(ctx context.Context, h *libvirt.Host, network string) (names []string, _ error) {
	bridges, err := ownBridges(ctx, h, network)
	if err != nil || len(bridges) == 0 {
		return nil, err
	}
	users, err := usersOf(ctx, h, connects(network, bridges))
	for _, u := range users {
		if u.Live {
			names = append(names, u.Name)
		}
	}
	return names, err
}

// ownBridges returns the bridges that a network has in its persistent and its active definition, and that are gone when
// it is stopped. A host without the network has none.
func ownBridges(ctx context.Context, h *libvirt.Host, network string) (bridges []string, _ error) {
	is, err := Read(ctx, h, network)
	if errors.Is(err, libvirt.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range []*Spec{&is.Spec, is.Live} {
		if s != nil && s.Bridge != nil && slices.Contains(BridgeModes, s.Forward.Mode) {
			bridges = append(bridges, *s.Bridge)
		}
	}
	return bridges, nil
}

// String returns the user's name for messages.
func (u User) String() string { return "virtual machine " + u.Name }

// filterUsers returns the VMs that have an interface with a network filter.
func filterUsers(ctx context.Context, h *libvirt.Host, filter string) ([]User, error) {
	return usersOf(ctx, h, func(e *etree.Element) bool { return attr(child(e, "filterref"), "filter") == filter })
}

func usersOf(ctx context.Context, h *libvirt.Host, uses func(*etree.Element) bool) ([]User, error) {
	domains, err := h.Domains(ctx)
	if err != nil {
		return nil, err
	}
	var users []User
	for _, d := range domains {
		used, err := anyInterface([]string{d.PersistentXML, d.LiveXML}, uses)
		if err != nil {
			return nil, err
		}
		if used {
			live, err := anyInterface([]string{d.LiveXML}, uses)
			if err != nil {
				return nil, err
			}
			users = append(users, User{Name: d.Name, Active: d.LiveXML != "", Live: live})
		}
	}
	slices.SortFunc(users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	return users, nil
}

func anyInterface(definitions []string, uses func(*etree.Element) bool) (bool, error) {
	for _, xml := range definitions {
		// Most definitions needn't be parsed.
		if !strings.Contains(xml, "<interface") {
			continue
		}
		document := etree.NewDocument()
		if err := document.ReadFromString(xml); err != nil {
			return false, errors.Join(libvirt.ErrInternal, err)
		}
		if slices.ContainsFunc(document.FindElements("/domain/devices/interface"), uses) {
			return true, nil
		}
	}
	return false, nil
}
