package network

import (
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/network"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var networkSchema = schema.Schema{
	MarkdownDescription: "Manages a libvirt network on every host in `hosts`. Attributes that you don't set stay as " +
		"they are on the hosts. A block that you set loses what you don't list in it. Exception: if you don't set " +
		"`dhcp.hosts`, reservations stay. The provider doesn't destroy a network that a VM's definition uses.\n\n" +
		"**Moves:** in a network with `nat`, `route`, `open` or `isolated`, a VM loses its connections when it moves. A " +
		"VM that runs moves only with `allow_network_change`. See [Networks](../guides/networks.md#choose-a-kind).\n\n" +
		"**Changes:** reservations, DNS records, DHCP ranges, port groups and the devices of a macvtap network change " +
		"while the network is active. Other changes require a restart of the network, which disconnects the running VMs " +
		"that use it: see `update_policy`.",
	Attributes: map[string]schema.Attribute{
		"id": value.StableString("Same as `name`."),
		"name": schema.StringAttribute{
			MarkdownDescription: "Name of the network on every host. A change replaces the network.", Required: true,
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators: []validator.String{stringvalidator.RegexMatches(regexp.MustCompile(`^[^/\s]+$`),
				"must be a name without spaces and slashes")},
		},
		onhosts.HostsName: onhosts.HostsAttribute("network"),
		onhosts.StatesName: onhosts.StatesAttribute("network", "`active`, `inactive` or `missing`, and which "+
			"attributes differ from the configuration"),
		"active": schema.BoolAttribute{
			MarkdownDescription: "Whether the network is active. The next apply starts a network that was stopped. " +
				"Default: `true`.",
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		},
		"autostart": schema.BoolAttribute{
			MarkdownDescription: "Whether the network starts with its host. Default for new networks: `true`.",
			Optional:            true, Computed: true,
		},
		"update_policy": schema.StringAttribute{
			MarkdownDescription: "What to do about a change that requires a restart of the network. `Live`: the plan fails if " +
				"running VMs use the network. `Restart`: the network is restarted, which disconnects these VMs until they are " +
				"shut down and started again. Default: `Live`.",
			Optional:   true,
			Validators: []validator.String{value.Among(updateLive, updateRestart)},
		},
		"forward": forwardAttribute,
		"bridge": schema.StringAttribute{
			MarkdownDescription: "Bridge on the host. With the mode `bridge`, it must exist; otherwise libvirt creates it. " +
				"Set it if `interfaces` of VMs name it: one apply can then create the network and the VMs. Default for new " +
				"networks: a free name on each host.",
			Optional: true, Computed: true,
			Validators: []validator.String{
				stringvalidator.LengthBetween(1, 15),
				stringvalidator.RegexMatches(regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`), "must be the name of a network device"),
			},
		},
		"mtu": schema.Int64Attribute{
			MarkdownDescription: "Largest packet in bytes.", Optional: true, Computed: true,
			Validators: []validator.Int64{int64validator.Between(68, 65535)},
		},
		"domain": blockAttribute("DNS domain of the network.", map[string]schema.Attribute{
			"name": requiredString("Name of the domain."),
			"local_only": boolAttribute("Whether names of the domain are never forwarded to other DNS servers. Default: " +
				"`false`."),
		}),
		"dns":         dnsAttribute,
		"ips":         ipsAttribute,
		"routes":      routesAttribute,
		"port_groups": portGroupsAttribute,
		"vlan": blockAttribute("VLAN of all interfaces. It needs Open vSwitch, a `mode` of `hostdev` or `passthrough`, or a "+
			"bridge of the host and libvirt 11.0.0.", vlanAttributes()),
		"virtual_port": blockAttribute("How all interfaces are attached to a switch.", virtualPortAttributes()),
		"bandwidth":    blockAttribute("Limits for the network as a whole.", bandwidthAttributes()),
		"dnsmasq_options": schema.ListAttribute{
			MarkdownDescription: "Lines for the configuration of dnsmasq. libvirt doesn't check them.",
			ElementType:         types.StringType, Optional: true, Computed: true,
		},
		"timeouts": value.TimeoutsOf("network", defaultTimeout),
	},
}

var forwardAttribute = blockAttribute("How the network is connected to the host's networks. Default for new "+
	"networks: `{ mode = \"isolated\" }`.",
	map[string]schema.Attribute{
		"mode": schema.StringAttribute{
			MarkdownDescription: "[Kind of the network](../guides/networks.md#choose-a-kind). `nat`, `route`, `open`: through " +
				"the host. `isolated`: no way out. `bridge`: through the host's `bridge`, or macvtap in bridge mode if " +
				"`devices` is set. `private`, `vepa`, `passthrough`: other modes of macvtap. `hostdev`: PCI devices.",
			Required:   true,
			Validators: []validator.String{value.Among(network.Modes...)},
		},
		"devices": stringsAttribute("Network devices of the host. For `nat` and `route`: the only one through which " +
			"traffic may leave. For macvtap: several, among which libvirt spreads the VMs."),
		"physical_function": stringAttribute(
			"Network device of the host whose virtual functions are handed out, for `hostdev`."),
		"pci_addresses": stringsAttribute("PCI addresses that are handed out, for `hostdev`, such as `0000:03:10.1`."),
		"managed": boolAttribute("Whether libvirt detaches the PCI devices from the host's drivers, and reattaches " +
			"them after use."),
		"nat": schema.SingleNestedAttribute{
			MarkdownDescription: "Addresses and ports to translate to, for `nat`.", Optional: true,
			Attributes: map[string]schema.Attribute{
				"start": stringAttribute("First address. Every host translates to the same addresses, and replies reach only the " +
					"host to which they are routed. For several hosts on one LAN, leave it out, or declare a network per host with " +
					"addresses of its own. Default: the host's own address."),
				"end":        stringAttribute("Last address."),
				"port_start": int64Attribute("First port. Default: `1024`.", 1, 65535),
				"port_end":   int64Attribute("Last port. Default: `65535`.", 1, 65535),
				"ipv6":       boolAttribute("Whether IPv6 is translated too. Default: `false`."),
			},
		},
	})

var dnsAttribute = blockAttribute("DNS server of the network.", map[string]schema.Attribute{
	"enabled": boolAttribute("Whether the network has a DNS server. Default: `true`."),
	"forward_plain_names": boolAttribute(
		"Whether names without a domain are forwarded to other DNS servers. Default: `true`."),
	"forwarders": objectsAttribute("DNS servers to forward to, instead of the host's.", map[string]schema.Attribute{
		"address": stringAttribute("Address of the server. Default: none, names of this entry's `domain` aren't forwarded."),
		"domain":  stringAttribute("Domain that the server is for. Default: all domains."),
	}),
	"hosts": objectsAttribute("Addresses with their names.", map[string]schema.Attribute{
		"ip": requiredString("Address that the names have."),
		"names": schema.ListAttribute{
			MarkdownDescription: "Host names that have the address.", ElementType: types.StringType, Required: true,
		},
	}),
	"srv": objectsAttribute("SRV records.", map[string]schema.Attribute{
		"service": requiredString("Service, such as `ldap`."), "protocol": requiredString("Protocol, such as `tcp`."),
		"domain":   stringAttribute("Domain of the service."),
		"target":   stringAttribute("Name of the host that provides the service."),
		"port":     int64Attribute("Port of the service.", 1, 65535),
		"priority": int64Attribute("Priority: clients try lower numbers first.", 0, 65535),
		"weight":   int64Attribute("Weight among records of one priority.", 0, 65535),
	}),
	"txt": objectsAttribute("TXT records.", map[string]schema.Attribute{
		"name": requiredString("Name of the record."), "value": requiredString("Text of the record."),
	}),
})

var reservationsAttribute = schema.ListNestedAttribute{
	MarkdownDescription: "All reservations; `[]` removes them. Without it they stay as they are, for " +
		"`virtfleet_network_dhcp_host` to manage.", Optional: true, Computed: true,
	NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"mac":  stringAttribute("MAC address, for IPv4."),
		"duid": stringAttribute("DHCP unique identifier, for IPv6."),
		"ip":   requiredString("Address that is reserved."),
		"name": stringAttribute("Host name, which the DNS server of the network also resolves."),
	}},
}

var ipsAttribute = schema.ListNestedAttribute{
	MarkdownDescription: "Addresses that the host has on the network, the same on every host.", Optional: true,
	Computed: true,
	NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"address": requiredString("IPv4 or IPv6 address with its prefix length, such as `192.168.10.1/24`."),
		"dhcp": schema.SingleNestedAttribute{
			MarkdownDescription: "DHCP server of the network. With `{}`, reservations stay. Default: none, without " +
				"reservations.",
			Optional: true,
			Attributes: map[string]schema.Attribute{
				"ranges": objectsAttribute("Ranges of addresses to hand out, both ends included.", map[string]schema.Attribute{
					"start": requiredString("First address."), "end": requiredString("Last address."),
				}),
				"hosts": reservationsAttribute,
			},
		},
	}},
}

var routesAttribute = schema.ListNestedAttribute{
	MarkdownDescription: "Static routes of the hosts into the network.", Optional: true, Computed: true,
	NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"destination": requiredString("Network with its prefix length, such as `10.9.0.0/16`."),
		"gateway":     requiredString("Address of the gateway on the network."),
		"metric":      int64Attribute("Metric of the route: lower numbers are preferred.", 1, 1<<31-1),
	}},
}

var portGroupsAttribute = schema.MapNestedAttribute{
	MarkdownDescription: "Sets of properties that interfaces choose by name.", Optional: true, Computed: true,
	NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"default":      boolAttribute("Whether this port group is for interfaces that choose none. Default: `false`."),
		"vlan":         partAttribute("VLAN, on the networks that can have `vlan`.", vlanAttributes()),
		"virtual_port": partAttribute("How interfaces are attached to a switch.", virtualPortAttributes()),
		"bandwidth":    partAttribute("Limits for each interface.", bandwidthAttributes()),
	}},
}

func vlanAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"tags": schema.ListAttribute{
			MarkdownDescription: "VLAN tags, 0 to 4095. Several form a trunk.", ElementType: types.Int64Type, Required: true,
		},
		"trunk":      boolAttribute("Whether a VLAN with one tag is a trunk. Several always are. Default: `false`."),
		"native_tag": int64Attribute("Tag of untagged traffic.", 1, 4095),
		"native_mode": schema.StringAttribute{
			MarkdownDescription: "How packets of `native_tag` reach guests: `tagged` or `untagged`.", Optional: true,
			Validators: []validator.String{value.Among("tagged", "untagged")},
		},
	}
}

func virtualPortAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"type": schema.StringAttribute{
			MarkdownDescription: "Kind of the virtual switch: `openvswitch`, `802.1Qbg`, `802.1Qbh` or `midonet`.",
			Required:            true,
			Validators:          []validator.String{value.Among("openvswitch", "802.1Qbg", "802.1Qbh", "midonet")},
		},
		"interface_id":    uuidAttribute("UUID by which Open vSwitch or MidoNet know the interface."),
		"profile_id":      stringAttribute("Port profile of Open vSwitch or 802.1Qbh."),
		"manager_id":      int64Attribute("VSI manager id of 802.1Qbg.", 0, 1<<8-1),
		"type_id":         int64Attribute("VSI type id of 802.1Qbg.", 0, 1<<24-1),
		"type_id_version": int64Attribute("VSI type id version of 802.1Qbg.", 0, 1<<8-1),
		"instance_id":     uuidAttribute("VSI instance id of 802.1Qbg, a UUID."),
	}
}

func bandwidthAttributes() map[string]schema.Attribute {
	rate := func(description string) schema.Attribute {
		return schema.SingleNestedAttribute{
			MarkdownDescription: description, Optional: true,
			Attributes: map[string]schema.Attribute{
				"average": int64Attribute("kB (1000 bytes) per second on average.", 1, 1<<31-1),
				"peak":    int64Attribute("kB (1000 bytes) per second at most.", 1, 1<<31-1),
				"burst":   int64Attribute("KiB that may be sent at the speed of `peak`.", 1, 1<<31-1),
			},
		}
	}
	return map[string]schema.Attribute{"inbound": rate("Traffic to the VMs."), "outbound": rate("Traffic from the VMs.")}
}
