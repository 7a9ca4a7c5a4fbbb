package domain

import (
	"slices"

	"github.com/beevik/etree"
)

// VHostUserModes say which end of a socket opens it: as server QEMU does.
var VHostUserModes = []string{"client", "server"}

// interfaceKinds are the attributes of which an interface has one.
const interfaceKinds = "network, bridge, direct, user, hostdev, vdpa and vhostuser"

// connection are the fields that say where an interface leads, besides User.
func connection(i *Interface) []*string {
	return []*string{
		&i.Network, &i.Bridge, &i.Direct, &i.DirectMode, &i.HostDevice, &i.VDPA, &i.VHostUser, &i.VHostUserMode, &i.Other,
	}
}

// connected says whether the interface's source is declared at all.
func (i Interface) connected() bool { return i.attribute() != "" }

// sameConnection compares where two interfaces lead.
func sameConnection(a, b Interface) bool {
	return a.User == b.User &&
		slices.EqualFunc(connection(&a), connection(&b), func(x, y *string) bool { return *x == *y })
}

// connectAs makes an interface lead where another one does.
func connectAs(i *Interface, other Interface) {
	i.User = other.User
	for n, field := range connection(&other) {
		*connection(i)[n] = *field
	}
}

// movable says whether the interface hangs on a bridge of the host, from which libvirt can move it to another.
func (i Interface) movable() bool { return i.Network != "" || i.Bridge != "" }

// attribute names the attribute that declares the connection, "" where none does.
func (i Interface) attribute() string {
	for _, declared := range i.attributes() {
		return declared
	}
	return ""
}

// attributes names all attributes that declare a connection.
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

// connect leads an interface elsewhere. A source of the same kind is patched, one of another kind replaced, and with it
// what belongs to the old kind.
func connect(e *etree.Element, want Interface) {
	kind := want.attribute()
	if old := attr(e, "type"); old != kind {
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
	// A port group is the old network's, the rest is libvirt's note of what a running domain uses.
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
		dropChildren(e, "model", "driver") // The guest has the driver of the device.
	}
	setAttr(e, "managed", managed)
	if old == "hostdev" {
		dropChildren(e, "driver", "teaming")
		setAttr(ensure(e, "model"), "type", "virtio")
	}
	// What only QEMU's own network has, and what only devices of the host have.
	dropChildren(e, "source", "virtualport", "backend", "ip", "route", "portForward")
	if target := child(e, "target"); attr(target, "managed") == "no" {
		drop(target)
	}
	if kind == "user" {
		dropChildren(e, "target", "coalesce", "bandwidth", "filterref", "vlan", "port", "guest", "mtu")
	}
}

const needsVirtio = "An interface with vdpa or vhostuser has one of the models of virtio."

// onlyVirtio says that the interface leads to a device which only virtio's driver can use.
func (i Interface) onlyVirtio() bool { return i.VDPA != "" || i.VHostUser != "" }

// mayShareMAC says that the interface may have the address of another one.
func (i Interface) mayShareMAC() bool {
	return i.HostDevice != "" || i.Other != "" || i.Values["teaming.type"] != ""
}
