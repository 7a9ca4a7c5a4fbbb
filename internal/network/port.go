package network

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// namedPortGroup is a port group with its name.
type namedPortGroup struct {
	name string
	PortGroup
}

var portGroups = list[namedPortGroup]{
	tag: "portgroup", key: func(g namedPortGroup) string { return g.name },
	read: func(e *etree.Element) namedPortGroup {
		return namedPortGroup{attr(e, "name"), PortGroup{
			Default: attr(e, "default") == "yes", VLAN: readVLAN(e), VirtualPort: readVirtualPort(e),
			Bandwidth: readBandwidth(e),
		}}
	},
	write: func(e *etree.Element, g namedPortGroup) {
		set(e, "name", g.name)
		setSwitch(e, "default", g.Default)
		applyVLAN(e, g.VLAN)
		applyVirtualPort(e, g.VirtualPort)
		applyBandwidth(e, g.Bandwidth)
	},
	same: func(a, b namedPortGroup) bool { return equal(a.normal(), b.normal()) },
}

func (g PortGroup) normal() PortGroup {
	return PortGroup{
		Default: g.Default, VLAN: g.VLAN.normal(), VirtualPort: g.VirtualPort.normal(), Bandwidth: g.Bandwidth.normal(),
	}
}

func listOf(groups map[string]*PortGroup) []namedPortGroup {
	var all []namedPortGroup
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, namedPortGroup{name, *groups[name]})
	}
	return all
}

func mapOf(groups []namedPortGroup) map[string]*PortGroup {
	var all map[string]*PortGroup
	for _, g := range groups {
		if all == nil {
			all = map[string]*PortGroup{}
		}
		all[g.name] = &g.PortGroup
	}
	return all
}

func readVLAN(parent *etree.Element) *VLAN {
	e := child(parent, "vlan")
	if e == nil {
		return nil
	}
	v := &VLAN{Trunk: attr(e, "trunk") == "yes"}
	for _, tag := range children(e, "tag") {
		v.Tags = append(v.Tags, number(tag, "id"))
		if mode := attr(tag, "nativeMode"); mode != "" {
			v.NativeTag, v.NativeMode = number(tag, "id"), mode
		}
	}
	return v
}

func applyVLAN(parent *etree.Element, want *VLAN) {
	drop(parent, "vlan")
	if want == nil || len(want.Tags) == 0 {
		return
	}
	e := parent.CreateElement("vlan")
	setSwitch(e, "trunk", want.normal().Trunk)
	for _, id := range want.Tags {
		tag := e.CreateElement("tag")
		tag.CreateAttr("id", strconv.Itoa(id))
		if id == want.NativeTag && want.NativeMode != "" {
			set(tag, "nativeMode", want.NativeMode)
		}
	}
}

func (v *VLAN) normal() *VLAN {
	if v == nil || len(v.Tags) == 0 {
		return nil
	}
	n := *v
	n.Tags = slices.Sorted(slices.Values(v.Tags))
	n.Trunk = v.Trunk || len(v.Tags) > 1 || v.NativeMode != ""
	return &n
}

func readVirtualPort(parent *etree.Element) *VirtualPort {
	e := child(parent, "virtualport")
	if e == nil {
		return nil
	}
	p := child(e, "parameters")
	optional := func(key string) *int {
		if attr(p, key) == "" {
			return nil
		}
		return new(number(p, key))
	}
	return &VirtualPort{
		Type: attr(e, "type"), InterfaceID: attr(p, "interfaceid"), ProfileID: attr(p, "profileid"),
		ManagerID: optional("managerid"), TypeID: optional("typeid"), TypeIDVersion: optional("typeidversion"),
		InstanceID: attr(p, "instanceid"),
	}
}

func applyVirtualPort(parent *etree.Element, want *VirtualPort) {
	if equal(readVirtualPort(parent).normal(), want.normal()) {
		return
	}
	drop(parent, "virtualport")
	if want == nil {
		return
	}
	e := parent.CreateElement("virtualport")
	set(e, "type", want.Type)
	if equal(want.normal(), &VirtualPort{Type: want.Type}) {
		return
	}
	p := e.CreateElement("parameters")
	set(p, "interfaceid", want.InterfaceID)
	set(p, "profileid", want.ProfileID)
	setOptional(p, "managerid", want.ManagerID)
	setOptional(p, "typeid", want.TypeID)
	setOptional(p, "typeidversion", want.TypeIDVersion)
	set(p, "instanceid", want.InstanceID)
}

func (v *VirtualPort) normal() *VirtualPort {
	if v == nil {
		return nil
	}
	n := *v
	n.InterfaceID, n.InstanceID = strings.ToLower(v.InterfaceID), strings.ToLower(v.InstanceID) // UUIDs
	return &n
}

func readBandwidth(parent *etree.Element) *Bandwidth {
	e := child(parent, "bandwidth")
	rate := func(tag string) *Rate {
		r := child(e, tag)
		if r == nil {
			return nil
		}
		return &Rate{
			Average: number(r, "average"), Peak: number(r, "peak"), Burst: number(r, "burst"),
		}
	}
	return (&Bandwidth{Inbound: rate("inbound"), Outbound: rate("outbound")}).normal()
}

func applyBandwidth(parent *etree.Element, want *Bandwidth) {
	want = want.normal()
	if want == nil {
		drop(parent, "bandwidth")
		return
	}
	e := ensure(parent, "bandwidth")
	for tag, rate := range map[string]*Rate{"inbound": want.Inbound, "outbound": want.Outbound} {
		if rate == nil {
			drop(e, tag)
			continue
		}
		r := ensure(e, tag)
		setNumber(r, "average", rate.Average)
		setNumber(r, "peak", rate.Peak)
		setNumber(r, "burst", rate.Burst)
	}
}

func (b *Bandwidth) normal() *Bandwidth {
	if b == nil || b.Inbound == nil && b.Outbound == nil {
		return nil
	}
	return b
}
