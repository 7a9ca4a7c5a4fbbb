package conditions

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/status"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// networkInterface is what all sources together report about one interface.
type networkInterface struct {
	Name          *string  `tfsdk:"name"`
	MAC           *string  `tfsdk:"mac"`
	IPAddress     *string  `tfsdk:"ip_address"`
	IPAddresses   []string `tfsdk:"ip_addresses"`
	InterfaceName *string  `tfsdk:"interface_name"`
	HostDevice    *string  `tfsdk:"host_device"`
	InfoSource    string   `tfsdk:"info_source"`
	LinkUp        *bool    `tfsdk:"link_up"`
	QueueCount    *int64   `tfsdk:"queue_count"`
}

func interfacesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed: true,
		MarkdownDescription: "Network interfaces, merged by MAC address from all sources: first those of the definition, " +
			"in its order, then up to ten that only the guest knows.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name": value.ReportedString(
				"Key of the interface in the VM's `interfaces`. Null for one that only the guest knows."),
			"mac":        value.ReportedString("MAC address."),
			"ip_address": value.ReportedString("First of `ip_addresses`."),
			"ip_addresses": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Addresses, IPv4 first, from the guest agent if it reported the interface, otherwise from " +
					"DHCP leases and ARP.",
			},
			"interface_name": value.ReportedString("Name in the guest, such as `eth0`. Only the guest agent reports it."),
			"host_device":    value.ReportedString("Device on the host, such as `vnet3`."),
			"info_source": value.ReportedString(
				"Sources that reported the interface, joined with \", \": `domain`, `guest-agent`, `lease` " +
					"(libvirt's DHCP server), `arp` (the host's neighbours)."),
			"link_up": schema.BoolAttribute{
				Computed: true, MarkdownDescription: "Whether the link is up, by the definition. Null if unknown.",
			},
			"queue_count": value.ReportedNumber("Number of queues."),
		}},
	}
}

func fromInterfaces(all []status.Interface) []networkInterface {
	models := []networkInterface{}
	for _, i := range all {
		m := networkInterface{
			Name: value.TextOrNull(i.Name), MAC: value.TextOrNull(i.MAC), InterfaceName: value.TextOrNull(i.GuestName),
			HostDevice: value.TextOrNull(i.Device),
			InfoSource: i.InfoSource, LinkUp: i.LinkUp, IPAddresses: []string{},
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
		models = append(models, m)
	}
	return models
}
