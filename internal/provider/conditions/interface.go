package conditions

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
)

// networkInterface is what all sources together know of one interface.
type networkInterface struct {
	Name          *string  `tfsdk:"name"`
	MAC           *string  `tfsdk:"mac"`
	IPAddress     *string  `tfsdk:"ip_address"`
	IPAddresses   []string `tfsdk:"ip_addresses"`
	InterfaceName *string  `tfsdk:"interface_name"`
	HostDevice    *string  `tfsdk:"host_device"`
	InfoSource    string   `tfsdk:"info_source"`
	LinkState     *string  `tfsdk:"link_state"`
	QueueCount    *int64   `tfsdk:"queue_count"`
}

func interfacesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed: true,
		MarkdownDescription: "Network interfaces, merged by MAC from all that know them: first those of the definition, in " +
			"its order, then up to ten that only the guest knows.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":       text("Key of the interface in the virtual machine's `interfaces`; null for one of the guest's own."),
			"mac":        text("Hardware address."),
			"ip_address": text("First of the addresses."),
			"ip_addresses": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Addresses, IPv4 first. The guest agent's count where it reported the interface, else " +
					"those of DHCP leases and ARP.",
			},
			"interface_name": text("Name in the guest, such as `eth0`; only the guest agent knows it."),
			"host_device":    text("The host's end, such as `vnet3`."),
			"info_source": text("Who knows the interface, joined with \", \": `domain`, `guest-agent`, `lease` (libvirt's " +
				"DHCP server), `arp` (the host's neighbours)."),
			"link_state":  text("`up` or `down`, as the definition says."),
			"queue_count": number("Number of its queues."),
		}},
	}
}

func fromInterfaces(all []status.Interface) []networkInterface {
	models := []networkInterface{}
	for _, i := range all {
		m := networkInterface{
			Name: orNull(i.Name), MAC: orNull(i.MAC), InterfaceName: orNull(i.GuestName), HostDevice: orNull(i.Device),
			InfoSource: i.InfoSource, IPAddresses: []string{},
		}
		for _, a := range i.Addresses {
			m.IPAddresses = append(m.IPAddresses, a.String())
		}
		if len(m.IPAddresses) > 0 {
			m.IPAddress = &m.IPAddresses[0]
		}
		if i.Queues != nil {
			m.QueueCount = new(int64(*i.Queues))
		}
		switch {
		case i.LinkUp == nil:
		case *i.LinkUp:
			m.LinkState = new("up")
		default:
			m.LinkState = new("down")
		}
		models = append(models, m)
	}
	return models
}
