package guestinfo

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// interfaceModel is a network interface as the guest sees it.
type interfaceModel struct {
	Name      *string        `tfsdk:"name"`
	MAC       *string        `tfsdk:"mac"`
	Addresses []addressModel `tfsdk:"addresses"`
	Counters  *counters      `tfsdk:"counters"`
}

// addressModel is an address of an interface.
type addressModel struct {
	Type   *string `tfsdk:"type"`
	IP     *string `tfsdk:"ip"`
	Prefix int64   `tfsdk:"prefix"`
}

// counters are the traffic counters of an interface.
type counters struct {
	RXBytes   *int64 `tfsdk:"rx_bytes"`
	RXPackets *int64 `tfsdk:"rx_packets"`
	RXErrors  *int64 `tfsdk:"rx_errors"`
	RXDropped *int64 `tfsdk:"rx_dropped"`
	TXBytes   *int64 `tfsdk:"tx_bytes"`
	TXPackets *int64 `tfsdk:"tx_packets"`
	TXErrors  *int64 `tfsdk:"tx_errors"`
	TXDropped *int64 `tfsdk:"tx_dropped"`
}

func interfacesAttribute() schema.ListNestedAttribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: "Network interfaces of the guest, the loopback included, in the agent's order.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name": value.ReportedString("Name in the guest, such as `eth0`."),
			"mac":  value.ReportedString("MAC address, the same as in the VM's `interfaces`. Null if it has none."),
			"addresses": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Addresses of the interface, in the agent's order.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":   value.ReportedString("`ipv4` or `ipv6`."),
					"ip":     value.ReportedString("The address."),
					"prefix": value.ReportedNumber("Length of the network's prefix in bits."),
				}},
			},
			"counters": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Traffic, as the guest counts it. Null without `raw_commands`.",
				Attributes: map[string]schema.Attribute{
					"rx_bytes":   value.ReportedNumber("Bytes received."),
					"rx_packets": value.ReportedNumber("Packets received."),
					"rx_errors":  value.ReportedNumber("Packets that arrived broken."),
					"rx_dropped": value.ReportedNumber("Packets received and dropped."),
					"tx_bytes":   value.ReportedNumber("Bytes sent."),
					"tx_packets": value.ReportedNumber("Packets sent."),
					"tx_errors":  value.ReportedNumber("Packets that couldn't be sent."),
					"tx_dropped": value.ReportedNumber("Packets dropped instead of sent."),
				},
			},
		}},
	}
}

func fromInterfaces(r *guest.Report) []interfaceModel {
	if r.Info.Interfaces == nil {
		return nil
	}
	models := []interfaceModel{}
	for _, i := range r.Info.Interfaces {
		m := interfaceModel{Name: value.TextOrNull(i.Name), MAC: value.TextOrNull(i.MAC), Addresses: []addressModel{}}
		for _, a := range i.Addresses {
			m.Addresses = append(m.Addresses, addressModel{
				Type: value.TextOrNull(a.Type), IP: value.TextOrNull(a.IP), Prefix: int64(a.Prefix),
			})
		}
		if c, counted := r.Counters[i.Name]; counted {
			m.Counters = &counters{
				RXBytes: new(value.Whole(c.RXBytes)), RXPackets: new(value.Whole(c.RXPackets)),
				RXErrors: new(value.Whole(c.RXErrors)), RXDropped: new(value.Whole(c.RXDropped)),
				TXBytes: new(value.Whole(c.TXBytes)), TXPackets: new(value.Whole(c.TXPackets)),
				TXErrors: new(value.Whole(c.TXErrors)), TXDropped: new(value.Whole(c.TXDropped)),
			}
		}
		models = append(models, m)
	}
	return models
}
