package domain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// DirectModes are the ways in which an interface shares a device of the host.
var DirectModes = []string{"bridge", "vepa", "private", "passthrough"}

const (
	whenPlugged  = "The guest's network card is made with it when it is plugged in."
	setInRunning = "They are set in the running VM."
	connectedTo  = "The interface is connected to it when it is plugged in."
	// libvirt refuses it since 10.6.0. Before, it changed the name of the port group only.
	keepsPortGroup = "An interface is connected to a port group when the VM starts."
)

// InterfaceRows are the attributes of an interface that each have one place in its element.
var InterfaceRows = onlyVirtio(slices.Concat([]Attribute{
	{
		Name: "mtu", Place: "mtu@size", Kind: Count, Zero: true, Echo: true, Since: "3.1.0", Why: whenPlugged,
		Check: between(68, 65535),
		Doc:   "Largest packet in bytes, for the guest and for the host's end; `0`: that of the network.",
	},
	{
		Name: "queues", Place: "driver@queues", Kind: Count, Zero: true, Why: whenPlugged,
		Check: between(2, 256), // libvirt treats 1 as 0.
		Doc:   "Number of queues, usually the number of virtual CPUs; `0`: one. For the model `virtio`.",
	},
	{
		Name: "vlan.tags", Place: "vlan/tag@id", Kind: Numbers, Live: Update, Echo: true, Why: setInRunning,
		Check: vlanTags, RestartRequired: vlanCold,
		Write: func(e *etree.Element, value string) error {
			if value == "" {
				dropChildren(e, "vlan") // libvirt refuses a <vlan> without tags.
				return nil
			}
			if err := (Attribute{Place: "vlan/tag@id", Kind: Numbers}).put(e, "", value); err != nil {
				return err
			}
			sortTags(child(e, "vlan"), ParseNumbers(value))
			return nil
		},
		Doc: "VLAN tags, from 0 to 4095. Several form a trunk. `[]` removes them.",
	},
	{
		Name: "vlan.trunk", Place: "vlan@trunk", Kind: Switch, Unset: "no", Echo: true, Why: connectedTo,
		DefaultDoc: "`false` with one tag",
		Doc: "Whether the guest tags its packets itself, with any of `tags`. Set it only for one tag: several always " +
			"form a trunk.",
	},
	{
		Name: "vlan.native_tag", Kind: Count, Echo: true, Why: connectedTo, Check: vlanTags,
		Read: func(e *etree.Element) string { return attr(nativeTag(e), "id") },
		Write: func(e *etree.Element, value string) error {
			mode := attr(nativeTag(e), "nativeMode")
			for _, tag := range children(child(e, "vlan"), "tag") {
				setAttr(tag, "nativeMode", "")
				if attr(tag, "id") == value {
					setAttr(tag, "nativeMode", cmp.Or(mode, "untagged"))
				}
			}
			if value != "" && nativeTag(e) == nil {
				return errors.New("the native tag isn't one of tags")
			}
			return nil
		},
		Doc: "The tag, one of `tags`, that packets without a tag belong to. For Open vSwitch.",
	},
	{
		Name: "vlan.native_mode", Values: []string{"tagged", "untagged"}, Echo: true, Why: connectedTo,
		Read: func(e *etree.Element) string { return attr(nativeTag(e), "nativeMode") },
		Write: func(e *etree.Element, value string) error {
			if nativeTag(e) == nil && value != "" {
				return errors.New("it requires native_tag")
			}
			if value != "" {
				setAttr(nativeTag(e), "nativeMode", value)
			}
			return nil
		},
		DefaultDoc: "`untagged`",
		Doc:        "Whether packets of `native_tag` reach the guest tagged.",
	},
	{
		Name: "port_group", Place: "source@portgroup", Why: keepsPortGroup,
		Doc: "Port group of `network`; `\"\"`: the network's default.",
	},
	{
		Name: "virtual_port.type", Echo: true, Unset: None, Why: connectedTo,
		Read: func(e *etree.Element) string { return attr(child(e, "virtualport"), "type") },
		Write: func(e *etree.Element, value string) error {
			dropChildren(e, "virtualport") // The parameters belong to the old type.
			if value != "" {
				add(e, "virtualport", "type", value)
			}
			return nil
		},
		Values: []string{"openvswitch", "802.1Qbg", "802.1Qbh", "midonet"},
		Doc:    "Kind of the virtual switch.",
	},
	{
		Name: "virtual_port.interface_id", Place: "virtualport/parameters@interfaceid", Echo: true, Why: connectedTo,
		Normal: strings.ToLower, Check: matches(uuidPattern, "It isn't a UUID."),
		DefaultDoc: "libvirt chooses one",
		Doc:        "UUID by which Open vSwitch or MidoNet know the interface.",
	},
	{
		Name: "virtual_port.profile_id", Place: "virtualport/parameters@profileid", Echo: true, Why: connectedTo,
		Doc: "Port profile of Open vSwitch or 802.1Qbh.",
	},
	{
		Name: "virtual_port.manager_id", Place: "virtualport/parameters@managerid", Kind: Count, Echo: true,
		Why: connectedTo, Doc: "VSI manager id of 802.1Qbg.",
	},
	{
		Name: "virtual_port.type_id", Place: "virtualport/parameters@typeid", Kind: Count, Echo: true, Why: connectedTo,
		Doc: "VSI type id of 802.1Qbg.",
	},
	{
		Name: "virtual_port.type_id_version", Place: "virtualport/parameters@typeidversion", Kind: Count, Echo: true,
		Why: connectedTo, Doc: "VSI type id version of 802.1Qbg.",
	},
	{
		Name: "virtual_port.instance_id", Place: "virtualport/parameters@instanceid", Echo: true, Why: connectedTo,
		Normal: strings.ToLower, Check: matches(uuidPattern, "It isn't a UUID."),
		Doc: "VSI instance id of 802.1Qbg, a UUID.",
	},
	{
		Name: "filter.name", Live: Update, Why: "The filter of the running VM is replaced.",
		Read: func(e *etree.Element) string { return attr(child(e, "filterref"), "filter") },
		Write: func(e *etree.Element, value string) error {
			if value == "" {
				dropChildren(e, "filterref")
				return nil
			}
			if !keepsFilter(attr(e, "type")) {
				return errors.New("only an interface with network or bridge has a filter")
			}
			setAttr(ensure(e, "filterref"), "filter", value)
			return nil
		},
		Doc: "Name of a `virtfleet_network_filter`, or of a filter that libvirt has, such as `clean-traffic`. The " +
			"host must have the filter. For interfaces with `network` or `bridge`. `\"\"` removes it.",
	},
	{
		Name: "filter.parameters", Kind: Texts, Live: Update,
		Why:  "The filter of the running VM gets the other parameters.",
		Read: readFilterParameters, Write: writeFilterParameters,
		Doc: "Variables of the filter, such as `IP`. A comma separates several values of one: `10.0.0.1,10.0.0.2`.",
	},
	{
		Name: "isolated", Place: "port@isolated", Kind: Switch, Live: Update, Echo: true, Since: "6.1.0",
		Why:        "The isolation is changed in the running VM.",
		DefaultDoc: "`false`",
		Doc:        "Whether traffic with other isolated ports of the bridge is blocked.",
	},
}, driverRows, offloadRows, backendRows, portRows, teamingRows, bandwidthRows()))

var interfaceRows rows = InterfaceRows

const uuidPattern = `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`

func init() {
	for path, doc := range map[string]string{
		"interfaces.*.vlan": "VLAN of the interface, for Open vSwitch and SR-IOV, and for bridges with libvirt " +
			"11.0.",
		"interfaces.*.driver":             "Tuning of the network card. For the model `virtio`.",
		"interfaces.*.backend":            "Backend of an interface with `user = true`.",
		"interfaces.*.teaming":            "Pair of two interfaces. `type = \"none\"` ends it.",
		"interfaces.*.virtual_port":       "Port of a virtual switch. `type = \"none\"` removes it.",
		"interfaces.*.filter":             "Network filter. It is changed while the VM runs.",
		"interfaces.*.bandwidth":          "Limits of the interface's traffic. They are changed while the VM runs.",
		"interfaces.*.bandwidth.inbound":  "Traffic to the guest.",
		"interfaces.*.bandwidth.outbound": "Traffic from the guest.",
	} {
		NestedDocs[path] = doc
	}
}

func between(least, most int) func(string) string {
	return func(value string) string {
		if n, ok := number(value); ok && n >= least && n <= most {
			return ""
		}
		return fmt.Sprintf("It isn't a number from %d to %d.", least, most)
	}
}

func vlanTags(value string) string {
	for _, tag := range ParseNumbers(value) {
		if tag < 0 || tag > 4095 {
			return fmt.Sprintf("%d isn't a VLAN tag from 0 to 4095.", tag)
		}
	}
	return ""
}

func vlanCold(_ Spec, have, want string) string {
	if have == "" || want == "" {
		return "An interface gets or loses tags only when it is plugged in."
	}
	return ""
}

// keepsFilter reports whether libvirt keeps the filter of an interface with that connection. It drops others without an
// error.
func keepsFilter(connection string) bool {
	return slices.Contains([]string{"network", "bridge", "ethernet"}, connection)
}

// sortTags gives the tags the order in which they are declared: new ones come after those that were kept.
func sortTags(vlan *etree.Element, order []int64) {
	tags := children(vlan, "tag")
	place := func(tag *etree.Element) int {
		return slices.IndexFunc(order, func(n int64) bool { return attr(tag, "id") == strconv.FormatInt(n, 10) })
	}
	less := func(a, b *etree.Element) int { return cmp.Compare(place(a), place(b)) }
	if slices.IsSortedFunc(tags, less) {
		return
	}
	for _, tag := range tags {
		drop(tag)
	}
	slices.SortStableFunc(tags, less)
	for _, tag := range tags {
		insert(vlan, tag, "tag")
	}
}

// nativeTag returns the tag for packets that have no tag.
func nativeTag(e *etree.Element) *etree.Element {
	for _, tag := range children(child(e, "vlan"), "tag") {
		if attr(tag, "nativeMode") != "" {
			return tag
		}
	}
	return nil
}

// checkRows checks which attributes of an interface don't fit together.
func (i Interface) checkRows(c *checker, path string) {
	interfaceRows.validate(c, path, i.Values, func(string, string) bool { return false })
	says := func(name string) bool { return i.Values[name] != "" && i.Values[name] != "0" }
	c.require(!says("port_group") || i.Network != "" || i.Other != "", path+".port_group",
		"A port group requires network.")
	tags := ParseNumbers(i.Values["vlan.tags"])
	if _, declared := i.Values["vlan.tags"]; declared {
		c.require(len(tags) < 2 || i.Values["vlan.trunk"] != "no", path+".vlan.trunk", "Several tags require trunk.")
		native := ParseNumbers(i.Values["vlan.native_tag"])
		c.require(len(native) == 0 || slices.Contains(tags, native[0]), path+".vlan.native_tag", "It isn't one of tags.")
	}
	for _, way := range []string{"inbound", "outbound"} {
		at := "bandwidth." + way
		for _, limit := range []string{".peak", ".burst"} {
			c.require(!says(at+limit) || says(at+".average"), join(path, at+limit), "It requires average.")
		}
	}
	c.require(!says(inboundFloor) || i.Network != "" || i.Other != "", join(path, inboundFloor), "It requires network.")
	c.require(i.Values["virtual_port.type"] != "midonet" || says("virtual_port.interface_id"),
		path+".virtual_port.interface_id", "A port of the type midonet requires it.")
	i.checkFilter(c, path)
	for name := range i.Values {
		ofBackend := strings.HasPrefix(name, "backend.")
		c.require(!says(name) || ofDriver(name) || ofBackend || !i.User, join(path, name),
			"QEMU's user mode network has no "+name+".")
		c.require(!says(name) || !ofDriver(name) || hasDriver(i.attribute(), i.Model), join(path, name),
			"Only the models of virtio have it.")
		c.require(!says(name) || !ofBackend || i.User || i.Other != "", join(path, name),
			"Only an interface with user has a backend.")
	}
	for name := range i.Values {
		ofPasst := strings.HasPrefix(name, "backend.") && name != "backend.type"
		c.require(!says(name) || !ofPasst || i.Values["backend.type"] == "passt", join(path, name),
			`It requires type = "passt".`)
	}
	c.require((i.Values["teaming.persistent"] != "") == (i.Values["teaming.type"] == "transient"),
		path+".teaming.persistent",
		`It is for the transient interface of a pair, which requires it.`)
}
