package domain

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// VHostUserModes say whether QEMU opens the socket, as server, or connects to it, as client.
var VHostUserModes = []string{"client", "server"}

// interfaceKinds lists the attributes that exclude each other: an interface has one of them.
const interfaceKinds = "network, bridge, direct, user, hostdev, vdpa and vhostuser"

// connection returns the fields that say what an interface is connected to, except User.
func connection(i *Interface) []*string {
	return []*string{
		&i.Network, &i.Bridge, &i.Direct, &i.DirectMode, &i.HostDevice, &i.VDPA, &i.VHostUser, &i.VHostUserMode, &i.Other,
	}
}

// connected reports whether the interface's connection is declared.
func (i Interface) connected() bool { return i.attribute() != "" }

// sameConnection reports whether two interfaces have the same connection.
func sameConnection(a, b Interface) bool {
	return a.User == b.User &&
		slices.EqualFunc(connection(&a), connection(&b), func(x, y *string) bool { return *x == *y })
}

// connectAs gives an interface the connection of another one.
func connectAs(i *Interface, other Interface) {
	i.User = other.User
	for n, field := range connection(&other) {
		*connection(i)[n] = *field
	}
}

// nameLender returns a running VM's interface with the network that has lent it a PCI device of the host (forward mode
// hostdev): libvirt shows only the device. It shows the model that the interface has in the persistent definition, too.
// A device that the interface names itself has none. The network is the one that was recorded before the persistent
// definition got another connection, or else the persistent definition's.
func nameLender(live, persistent Interface, started Values) Interface {
	lender := started[live.lenderPath()]
	if lender == "" && live.Model != "" {
		lender = persistent.Network
	}
	if live.HostDevice != "" && lender != "" {
		connectAs(&live, Interface{Network: lender})
		live.Lent = true
	}
	return live
}

// runPath is the path under which Spec.Started has what a running VM's interface was started with. The guest keeps the
// address, whatever key the interface gets.
func (i Interface) runPath() string { return interfacePrefix + strings.ToLower(i.MAC) }

// lenderPath is where Spec.Started records the network that has lent a running VM the interface's device.
func (i Interface) lenderPath() string { return i.runPath() + ".network" }

const interfacePrefix = "interfaces."

// recordInterfaces records what the interfaces of a running VM were started with, before its persistent definition gets
// the changes: the networks that have lent it devices, and values that could be libvirt's. It forgets those of
// interfaces that the VM no longer has.
func recordInterfaces(started Values, live, persistent Spec, changes []Change) {
	if slices.ContainsFunc(changes, func(c Change) bool { return strings.HasPrefix(c.Path, interfacePrefix) }) {
		for key, nic := range AlignKeys(&live, &persistent).Interfaces {
			if nic.Lent {
				started[nic.lenderPath()] = nic.Network
			}
			if is, defined := persistent.Interfaces[key]; defined && interfaces.sameInLive(nic, is) {
				recordEchoes(interfaceRows, nic.runPath(), started, nic.Values, is.Values)
			}
		}
	}
	there, lent := map[string]bool{}, map[string]bool{}
	for _, nic := range live.Interfaces {
		there[nic.runPath()] = true
		lent[nic.lenderPath()] = nic.HostDevice != "" || nic.Lent || lent[nic.lenderPath()]
	}
	maps.DeleteFunc(started, func(path, _ string) bool {
		mac, name, isInterface := strings.Cut(strings.TrimPrefix(path, interfacePrefix), ".")
		return strings.HasPrefix(path, interfacePrefix) && isInterface &&
			(!there[interfacePrefix+mac] || name == "network" && !lent[path])
	})
}

// movable reports whether the interface is attached to a bridge of the host. libvirt can move it to another bridge
// while the VM runs.
func (i Interface) movable() bool { return i.Network != "" && !i.Lent || i.Bridge != "" }

// hasPortGroup reports whether the interface is connected to a port group that it names.
func (i Interface) hasPortGroup() bool { return i.Values["port_group"] != "" }

// hasVirtualPort reports whether the interface is a port of a virtual switch: one that it declares, or one that its
// network gave it when the VM started.
func (i Interface) hasVirtualPort() bool { return i.Values["virtual_port.type"] != "" }

// attribute returns the name of the attribute that declares the connection, and "" if none does.
func (i Interface) attribute() string {
	for _, declared := range i.attributes() {
		return declared
	}
	return ""
}

// undeclarable returns the problem of an interface that is to get a connection that isn't modelled: a VM that has it
// keeps it.
func (i Interface) undeclarable(path string) Problem {
	return Problem{path, "A connection of the kind " + i.Other + " can be kept, but not declared. For an interface that " +
		"gets a connection, set network, bridge, direct, user or another one in place of other."}
}

// attributes returns the names of all attributes that declare a connection.
func (i Interface) attributes() []string {
	var all []string
	for _, kind := range []struct {
		name string
		set  bool
	}{
		{"network", i.Network != ""},
		{"bridge", i.Bridge != ""},
		{"user", i.User},
		{"direct", i.Direct != ""},
		{"hostdev", i.HostDevice != ""},
		{"vdpa", i.VDPA != ""},
		{"vhostuser", i.VHostUser != ""},
		{"other", i.Other != ""},
	} {
		if kind.set {
			all = append(all, kind.name)
		}
	}
	return all
}

// connect connects an interface to something else. A source of the same kind is patched. A source of another kind is
// replaced, together with everything that belongs to the old kind.
func connect(e *etree.Element, want Interface) {
	kind := want.attribute()
	old := attr(e, "type")
	// A running VM's interface to a network may have the type of what the network uses.
	ofNetwork := attr(child(e, "source"), "network") != "" && old != "network"
	if old != kind || ofNetwork {
		setAttr(e, "type", kind)
		forgetConnection(e, old, kind)
	}
	if kind == "user" {
		return
	}
	source := ensure(e, "source", "mac")
	switch kind {
	case "network", "bridge":
		setAttr(source, kind, want.Network+want.Bridge)
		setAttr(source, "mode", "")
	case "direct":
		setAttr(source, "dev", want.Direct)
		setAttr(source, "mode", want.DirectMode)
	case "hostdev":
		dropChildren(source, "address")
		addPCIAddress(source, want.HostDevice)
	case "vdpa":
		setAttr(source, "dev", want.VDPA)
	case "vhostuser":
		setAttr(source, "type", "unix")
		setAttr(source, "path", want.VHostUser)
		setAttr(source, "mode", want.VHostUserMode)
	}
	// A port group belongs to the old network. libvirt records the other attributes for a running domain.
	stale := []string{"portgroup", "portid"}
	if kind == "network" {
		stale = append(stale, "bridge")
	}
	for _, key := range stale {
		setAttr(source, key, "")
	}
}

// forgetConnection removes what an interface of the new kind can't have.
func forgetConnection(e *etree.Element, old, kind string) {
	managed := ""
	if kind == "hostdev" {
		managed = "yes"
		dropChildren(e, "model", "driver") // The guest uses the driver of the device.
	}
	setAttr(e, "managed", managed)
	if old == "hostdev" {
		dropChildren(e, "driver", "teaming")
		setAttr(ensure(e, "model"), "type", "virtio")
	}
	// Only QEMU's user mode network, or only devices of the host, have these.
	dropFloor(e) // Only a network guarantees bandwidth.
	dropChildren(e, "source", "virtualport", "backend", "ip", "route", "portForward")
	if target := child(e, "target"); attr(target, "managed") == "no" {
		drop(target)
	}
	if kind == "user" {
		dropChildren(e, "target", "coalesce", "bandwidth", "filterref", "vlan", "port", "guest", "mtu")
	}
}

const needsVirtio = "An interface with vdpa or vhostuser has one of the models of virtio."

// onlyVirtio reports whether the interface is connected to a device that only virtio's driver can use.
func (i Interface) onlyVirtio() bool { return i.VDPA != "" || i.VHostUser != "" }

// mayShareMAC reports whether the interface may have the address of another interface.
func (i Interface) mayShareMAC() bool {
	return i.HostDevice != "" || i.Other != "" || i.Values["teaming.type"] != ""
}

// forgetSupplied removes from an interface that is connected to another network what the old one supplied: libvirt
// shows that in a running VM as if it were the interface's own, and would keep it. It returns the network that supplies
// it now; "" if none does, or if the connection stays.
func forgetSupplied(before, e, own *etree.Element) string {
	old, source := child(before, "source"), child(e, "source")
	if !slices.ContainsFunc([]string{"network", "bridge"}, func(key string) bool {
		return attr(old, key) != attr(source, key)
	}) {
		return ""
	}
	for _, part := range []string{"vlan", "bandwidth"} {
		dropChildren(e, part)
		if c := child(own, part); c != nil {
			e.AddChild(c.Copy())
		}
	}
	if child(e, "vlan") != nil {
		return ""
	}
	return attr(source, "network")
}

// Supplied returns an Update with the VLAN that its network, whose definition is xml, supplies for the interface, which
// has no port group of its own.
// libvirt finds it as well, but tells Open vSwitch only a VLAN of the interface's own: without one, the port would get
// the packets of all VLANs.
func (s Step) Supplied(xml string) (Step, error) {
	device, network := etree.NewDocument(), etree.NewDocument()
	if err := errors.Join(device.ReadFromString(s.XML), network.ReadFromString(xml)); err != nil {
		return s, err
	}
	e, from := device.Root(), network.Root()
	vlan := child(from, "vlan")
	for _, group := range children(from, "portgroup") {
		if tagged := child(group, "vlan"); attr(group, "default") == "yes" && tagged != nil {
			vlan = tagged
		}
	}
	if vlan != nil {
		e.AddChild(vlan.Copy())
		s.XML = render(e)
	}
	return s, nil
}
