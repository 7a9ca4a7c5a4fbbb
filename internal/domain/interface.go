package domain

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// interfaces are the network interfaces.
var interfaces = devices[Interface]{
	kind: interfaceKind, rules: interfaceRules,
	texts:      map[string]func(a, b string) bool{"interfaces.*.mac": strings.EqualFold},
	in:         func(s *Spec) *map[string]Interface { return &s.Interfaces },
	attributes: interfaceRows, values: func(i *Interface) *Values { return &i.Values },

	readOne: readInterface, same: sameInterface, identifies: func(i Interface) bool { return i.MAC != "" },
	sameInLive: func(a, b Interface) bool { return a.MAC != "" && a.MAC == b.MAC && !otherRole(a, b) },
	complement: nameLender, runPath: Interface.runPath, refer: referToPair,
	patch: func(_ *Definition, e *etree.Element, path string, want Interface, _ map[string]bool) error {
		return patchInterface(e, path, want)
	},
	create: func(d *Definition, key string, want Interface, _ map[string]bool) (*etree.Element, error) {
		return d.newInterface(key, want)
	},
	removed: func(c *classifier, nic Interface) string {
		if !nic.conventional(c.have) {
			c.freeSlot()
		}
		return "interfaces.* removed"
	},
	added: func(c *classifier, nic Interface) string {
		switch conventional := nic.conventional(c.have); {
		case conventional && !c.takeConventionalSlot():
			return "interfaces.* conventional"
		case !conventional && !c.takeSlot():
			return "interfaces.* no slot"
		case !c.bootOrderFits(nic.BootOrder):
			return "interfaces.* boot order"
		default:
			return "interfaces.* added"
		}
	},
	compare: compareInterfaces, validate: validateInterfaces,
	normal:   func(i Interface) Interface { i.MAC = strings.ToLower(i.MAC); return i },
	complete: func(i Interface) Interface { i.BootOrder = cmp.Or(i.BootOrder, new(0)); return i },
	order:    func(i Interface) *int { return i.BootOrder },
	update:   updateInterface,
	supplier: forgetSupplied, first: withoutFloor,
	prepare: func(p *stepper, _ string, e *etree.Element) { joinRunningPair(p, e) },
}

// PairInterfaces returns the existing interface of each declared one, by their keys. An interface that isn't among them
// is a new one.
func PairInterfaces(have, want map[string]Interface) map[string]string {
	return interfaces.pairDevices(have, want)
}

var interfaceRules = map[string]rule{
	"interfaces.* added":        {effect: live, step: Attach, why: "The interface is plugged into the running VM."},
	"interfaces.* removed":      {effect: live, step: Detach, why: "The interface is unplugged from the running VM."},
	"interfaces.* renamed":      {effect: live, why: onlyRenamed},
	"interfaces.* no slot":      {effect: restart, why: "The running VM has no free PCI slot for it."},
	"interfaces.* conventional": {effect: restart, why: noConventionalSlot},
	"interfaces.* boot order": {
		effect: restart, why: "A running VM accepts a new interface only with a boot order that is free.",
	},
	"interfaces.*.connection": {
		effect: live, step: Update, why: "The interface of the running VM is connected to the other network.",
	},
	"interfaces.*.connection kind": {
		effect: restart, why: "A running interface moves only between networks and bridges.",
	},
	"interfaces.*.connection virtual port": {
		effect: restart, why: "Before 10.8.0, libvirt can't move ports of Open vSwitch.",
	},
	"interfaces.*.connection port group": {effect: restart, why: keepsPortGroup},
	"interfaces.*.link_up":               {effect: live, step: Update, why: "The link of the running VM is set."},
	"interfaces.*.model":                 {effect: restart, why: "A device of another kind can't replace one in use."},
	"interfaces.*.mac":                   {effect: restart, why: "A running guest keeps the address of its interface."},
	"interfaces.*.boot_order":            {effect: restart, why: "The boot order is read when the VM starts."},
}

func readInterface(e *etree.Element) Interface {
	read := Interface{
		Model:     attr(child(e, "model"), "type"),
		MAC:       interfaceKind.id(e),
		LinkUp:    new(attr(child(e, "link"), "state") != "down"),
		BootOrder: bootOrder(e),
		Target:    attr(child(e, "target"), "dev"),
		Values:    interfaceRows.readValues(e),
	}
	// libvirt generates these names for a running domain, and drops them from a persistent definition.
	for _, prefix := range []string{"vnet", "macvtap", "macvlan", "vif"} {
		if strings.HasPrefix(read.Target, prefix) {
			read.Target = ""
		}
	}
	source := child(e, "source")
	switch kind := attr(e, "type"); {
	// The live definition shows how the network connects the interface, as a bridge or a device of the host. It names
	// the network, unless the network has lent a PCI device: see nameLender.
	case attr(source, "network") != "":
		read.Network = attr(source, "network")
	case kind == "network":
	case kind == "bridge":
		read.Bridge = attr(source, "bridge")
	case kind == "user":
		read.User = true
	case kind == "direct" && attr(source, "dev") != "":
		read.Direct, read.DirectMode = attr(source, "dev"), cmp.Or(attr(source, "mode"), "vepa")
	case kind == "hostdev" && hostAddressPatterns["pci"].MatchString(hostAddress(source)):
		read.HostDevice = hostAddress(source)
	case kind == "vdpa" && attr(source, "dev") != "":
		read.VDPA = attr(source, "dev")
	case kind == "vhostuser" && attr(source, "path") != "":
		read.VHostUser, read.VHostUserMode = attr(source, "path"), attr(source, "mode")
	default:
		read.Other = describe(kind, source)
	}
	return read
}

// conventionalModels are devices that libvirt puts on a conventional PCI bus even if the VM has PCI Express.
var conventionalModels = []string{
	"e1000", "rtl8139", "virtio-transitional", "pcnet", "ne2k_pci", "i82551", "i82557b", "i82559er", "i82801",
}

// conventional reports whether the VM has PCI Express ports, and the interface can't use one.
func (i Interface) conventional(have Spec) bool {
	return expressFamily(have.Machine) && slices.Contains(conventionalModels, i.Model)
}

// sameInterface reports whether an interface declared under another key is the existing one.
func sameInterface(have, want Interface) bool {
	if otherRole(have, want) {
		return false
	}
	if want.MAC != "" {
		return strings.EqualFold(have.MAC, want.MAC)
	}
	return sameConnection(have, want) && (want.Model == "" || want.Model == have.Model)
}

// otherRole reports whether the two have different roles in a pair (teaming), whose interfaces have one address.
func otherRole(a, b Interface) bool {
	role, other := a.Values["teaming.type"], b.Values["teaming.type"]
	return role != other && isDevice(role) && isDevice(other)
}

// patchInterface changes what differs.
func patchInterface(e *etree.Element, path string, want Interface) error {
	have := readInterface(e)
	if want.connected() && !sameConnection(have, want) {
		if want.Other != "" {
			return want.undeclarable(path)
		}
		connect(e, want)
	}
	if want.Model != "" && want.Model != readInterface(e).Model {
		setAttr(ensure(e, "model"), "type", want.Model)
		if !strings.HasPrefix(want.Model, "virtio") {
			dropChildren(e, "driver") // The attributes of <driver> belong to virtio.
		}
	}
	now := readInterface(e) // What another tool defined is kept: no host starts it, but other changes can be made.
	if (now.Model != have.Model || !sameConnection(now, have)) && now.onlyVirtio() &&
		!hasDriver(now.attribute(), now.Model) {
		return Problem{path + ".model", needsVirtio}
	}
	if want.MAC != "" && !strings.EqualFold(want.MAC, have.MAC) {
		setAttr(ensure(e, "mac"), "address", strings.ToLower(want.MAC))
	}
	setLink(e, want.LinkUp)
	setBootOrder(e, want.BootOrder)
	return interfaceRows.apply(e, path, want.Values)
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
		return nil, want.undeclarable(path)
	}
	if !want.connected() {
		return nil, Problem{path, "A new interface needs one of " + interfaceKinds + "."}
	}
	if want.Model == "" && want.HostDevice == "" {
		want.Model = "virtio"
	}
	e := element("interface")
	mac := strings.ToLower(want.MAC)
	if mac == "" {
		mac = d.newMAC(key)
	}
	add(e, "mac", "address", mac)
	connect(e, want)
	if want.Model != "" {
		add(e, "model", "type", want.Model)
	}
	setLink(e, want.LinkUp)
	setBootOrder(e, want.BootOrder)
	if err := interfaceRows.apply(e, path, want.Values); err != nil {
		return nil, err
	}
	interfaceKind.setAlias(e, key)
	d.addDevice(e)
	return e, nil
}

// newMAC derives an address from the VM's UUID and the key, in QEMU's own range. If libvirt chose the address, the
// running domain and its persistent definition would get two different ones. With a derived address, an interface that
// is created again keeps its lease.
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

// compareInterfaces classifies the differences of one interface.
func compareInterfaces(c *classifier, key string, have, want Interface) {
	path := "interfaces." + key
	if want.connected() && !sameConnection(have, want) {
		row := "interfaces.*.connection"
		switch {
		case !have.movable() || !want.movable():
			row = "interfaces.*.connection kind"
		case have.hasPortGroup() || want.hasPortGroup():
			row = "interfaces.*.connection port group"
		case c.have.FixedVirtualPorts && (have.hasVirtualPort() || want.hasVirtualPort()):
			row = "interfaces.*.connection virtual port"
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

// updateInterface changes the connection and the link state of a running VM's interface.
func updateInterface(p *stepper, e *etree.Element, _ string, want Interface) {
	have := readInterface(e)
	fixed := have.hasPortGroup() || want.hasPortGroup() ||
		p.have.FixedVirtualPorts && (have.hasVirtualPort() || want.hasVirtualPort())
	if want.movable() && have.movable() && !fixed && !sameConnection(have, want) {
		connect(e, want)
	}
	if source := child(e, "source"); attr(source, "network") != "" {
		// With the bridge or device that the network chose, the update would take the interface away from the network.
		setAttr(e, "type", "network")
		setAttr(source, "dev", "")
		setAttr(source, "mode", "")
	}
	setLink(e, want.LinkUp)
}
