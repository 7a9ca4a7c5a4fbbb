package domain

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// readInterfaces reads all <interface> elements, whatever they are.
func (d *Definition) readInterfaces() map[string]Interface {
	found := map[string]Interface{}
	for _, have := range d.keyed(interfaceKind, d.Metadata().Devices) {
		found[have.key] = readInterface(have.element)
	}
	return found
}

func readInterface(e *etree.Element) Interface {
	read := Interface{
		Model:     attr(child(e, "model"), "type"),
		MAC:       interfaceKind.id(e),
		LinkUp:    new(attr(child(e, "link"), "state") != "down"),
		BootOrder: bootOrder(e),
		Target:    attr(child(e, "target"), "dev"),
	}
	// libvirt makes these names up for a running domain, and drops them from a persistent definition.
	for _, prefix := range []string{"vnet", "macvtap", "macvlan", "vif"} {
		if strings.HasPrefix(read.Target, prefix) {
			read.Target = ""
		}
	}
	source := child(e, "source")
	switch kind := attr(e, "type"); kind {
	case "network":
		read.Network = attr(source, "network")
	case "bridge":
		read.Bridge = attr(source, "bridge")
	case "user":
		read.User = true
	default:
		read.Other = describe(kind, source)
	}
	return read
}

// connected says whether the interface's source is declared at all.
func (i Interface) connected() bool {
	return i.Network != "" || i.Bridge != "" || i.User || i.Other != ""
}

// sameConnection compares where two interfaces lead.
func sameConnection(a, b Interface) bool {
	return a.Network == b.Network && a.Bridge == b.Bridge && a.User == b.User && a.Other == b.Other
}

// sameInterface says whether an interface declared under another key is the one that is there.
func sameInterface(have, want Interface) bool {
	if want.MAC != "" {
		return strings.EqualFold(have.MAC, want.MAC)
	}
	return sameConnection(have, want) && (want.Model == "" || want.Model == have.Model)
}

// applyInterfaces makes the interfaces the declared ones; nil leaves them alone.
func (d *Definition) applyInterfaces(want map[string]Interface) error {
	if want == nil {
		return nil
	}
	have := d.keyed(interfaceKind, d.Metadata().Devices)
	pairs := pair(d.readInterfaces(), want, sameInterface)
	keys := inverse(pairs)
	wanted := map[*etree.Element]string{}
	var problems []error
	for _, nic := range have {
		key, stays := keys[nic.key]
		if !stays {
			drop(nic.element)
			continue
		}
		wanted[nic.element] = key
		problems = append(problems, patchInterface(nic.element, interfaceKind.path+"."+key, want[key]))
	}
	for _, key := range sortedKeys(want) {
		if _, ok := pairs[key]; ok {
			continue
		}
		e, err := d.newInterface(key, want[key])
		problems = append(problems, err)
		if err == nil {
			wanted[e] = key
		}
	}
	return errors.Join(append(problems, d.applyKeys(interfaceKind, wanted))...)
}

// patchInterface changes what differs.
func patchInterface(e *etree.Element, path string, want Interface) error {
	have := readInterface(e)
	if want.connected() && !sameConnection(have, want) {
		if want.Other != "" {
			return Problem{path, "A connection of the kind " + want.Other + " can be kept, but not declared."}
		}
		connect(e, want)
	}
	if want.Model != "" && want.Model != have.Model {
		setAttr(ensure(e, "model"), "type", want.Model)
		if !strings.HasPrefix(want.Model, "virtio") {
			dropChildren(e, "driver") // Its attributes are those of virtio.
		}
	}
	if want.MAC != "" && !strings.EqualFold(want.MAC, have.MAC) {
		setAttr(ensure(e, "mac"), "address", strings.ToLower(want.MAC))
	}
	setLink(e, want.LinkUp)
	setBootOrder(e, want.BootOrder)
	return nil
}

// connect leads an interface elsewhere. A source of the same kind is patched, one of another kind replaced, and with it
// what belongs to the old kind.
func connect(e *etree.Element, want Interface) {
	kind, key, value := "user", "", ""
	switch {
	case want.Network != "":
		kind, key, value = "network", "network", want.Network
	case want.Bridge != "":
		kind, key, value = "bridge", "bridge", want.Bridge
	}
	if attr(e, "type") != kind {
		setAttr(e, "type", kind)
		// What only QEMU's own network has, and what only devices of the host have.
		dropChildren(e, "source", "virtualport", "backend", "ip", "route", "portForward")
		if target := child(e, "target"); attr(target, "managed") == "no" {
			drop(target)
		}
		if kind == "user" {
			dropChildren(e, "target", "coalesce", "bandwidth", "filterref", "vlan", "port", "guest", "mtu")
		}
	}
	if key == "" {
		return
	}
	source := ensure(e, "source", "mac")
	setAttr(source, key, value)
	// A port group is the old network's, the rest is libvirt's note of what a running domain uses.
	stale := []string{"portgroup", "portid"}
	if kind == "network" {
		stale = append(stale, "bridge")
	}
	for _, key := range stale {
		setAttr(source, key, "")
	}
}

func setLink(e *etree.Element, up *bool) {
	if up == nil || *up == (attr(child(e, "link"), "state") != "down") {
		return
	}
	state := "down"
	if *up {
		state = "up"
	}
	setAttr(ensure(e, "link"), "state", state)
}

// newInterface adds an interface.
func (d *Definition) newInterface(key string, want Interface) (*etree.Element, error) {
	path := interfaceKind.path + "." + key
	if want.Other != "" {
		return nil, Problem{path, "A connection of the kind " + want.Other + " can be kept, but not declared."}
	}
	if !want.connected() {
		return nil, Problem{path, "A new interface needs a network, a bridge or user."}
	}
	if want.Model == "" {
		want.Model = "virtio"
	}
	e := element("interface")
	mac := strings.ToLower(want.MAC)
	if mac == "" {
		mac = d.newMAC(key)
	}
	add(e, "mac", "address", mac)
	connect(e, want)
	add(e, "model", "type", want.Model)
	setLink(e, want.LinkUp)
	setBootOrder(e, want.BootOrder)
	interfaceKind.setAlias(e, key)
	d.addDevice(e)
	return e, nil
}

// newMAC derives an address from the VM's UUID and the key, in QEMU's own range. Drawn by libvirt, the running domain
// and its persistent definition would get two different ones; derived, an interface that is made again keeps its
// lease.
func (d *Definition) newMAC(key string) string {
	taken := d.devices("interface")
	for n := 0; ; n++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", strings.ToLower(d.UUID()), key, n))
		mac := fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
		if !slices.ContainsFunc(taken, func(e *etree.Element) bool { return interfaceKind.id(e) == mac }) {
			return mac
		}
	}
}

// interfaces classifies interfaces that go, stay and come.
func (c *classifier) interfaces() {
	if c.want.Interfaces == nil {
		return
	}
	pairs := pair(c.have.Interfaces, c.want.Interfaces, sameInterface)
	stay := inverse(pairs)
	for _, key := range sortedKeys(c.have.Interfaces) {
		if _, ok := stay[key]; !ok {
			c.freeSlot()
			c.add("interfaces."+key, "interfaces.* removed", key)
		}
	}
	for _, key := range sortedKeys(c.want.Interfaces) {
		if old, ok := pairs[key]; ok {
			if old != key {
				c.add("interfaces."+key, "interfaces.* renamed", key)
			}
			c.nic(key, c.have.Interfaces[old], c.want.Interfaces[key])
		}
	}
	for _, key := range sortedKeys(c.want.Interfaces) {
		if _, ok := pairs[key]; ok {
			continue
		}
		row := "interfaces.* added"
		switch {
		case !c.takeSlot():
			row = "interfaces.* no slot"
		case !c.bootOrderFits(c.want.Interfaces[key].BootOrder):
			row = "interfaces.* boot order"
		}
		c.add("interfaces."+key, row, key)
	}
}

// nic classifies the differences of one interface.
func (c *classifier) nic(key string, have, want Interface) {
	path := "interfaces." + key
	if want.connected() && !sameConnection(have, want) {
		row := "interfaces.*.connection"
		if !have.movable() || !want.movable() {
			row = "interfaces.*.connection kind"
		}
		c.add(path+"."+want.attribute(), row, key)
	}
	if want.Model != "" && want.Model != have.Model {
		c.add(path+".model", "interfaces.*.model", key)
	}
	if want.MAC != "" && !strings.EqualFold(want.MAC, have.MAC) {
		c.add(path+".mac", "interfaces.*.mac", key)
	}
	if differs(have.LinkUp, want.LinkUp) {
		c.add(path+".link_up", "interfaces.*.link_up", key)
	}
	if bootOrderDiffers(have.BootOrder, want.BootOrder) {
		c.add(path+".boot_order", "interfaces.*.boot_order", key)
	}
}

// movable says whether the interface hangs on a bridge of the host, from which libvirt can move it to another.
func (i Interface) movable() bool {
	return i.Network != "" || i.Bridge != ""
}

// attribute names the attribute that declares the connection.
func (i Interface) attribute() string {
	switch {
	case i.Network != "":
		return "network"
	case i.Bridge != "":
		return "bridge"
	case i.User:
		return "user"
	default:
		return "other"
	}
}
