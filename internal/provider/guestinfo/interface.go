package guestinfo

import (
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
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

// counters are what an interface has carried.
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
			"name": text("Name in the guest, such as `eth0`."),
			"mac": text("MAC address, the same as in the VM's `interfaces`. Null if " +
				"it has none."),
			"addresses": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Addresses of the interface, in the agent's order.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":   text("`ipv4` or `ipv6`."),
					"ip":     text("The address."),
					"prefix": number("Length of the network's prefix in bits."),
				}},
			},
			"counters": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Traffic, as the guest counts it. Null without `raw_commands`.",
				Attributes: map[string]schema.Attribute{
					"rx_bytes":   number("Bytes received."),
					"rx_packets": number("Packets received."),
					"rx_errors":  number("Packets that arrived broken."),
					"rx_dropped": number("Packets received and dropped."),
					"tx_bytes":   number("Bytes sent."),
					"tx_packets": number("Packets sent."),
					"tx_errors":  number("Packets that couldn't be sent."),
					"tx_dropped": number("Packets dropped instead of sent."),
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
		m := interfaceModel{Name: orNull(i.Name), MAC: orNull(i.MAC), Addresses: []addressModel{}}
		for _, a := range i.Addresses {
			m.Addresses = append(m.Addresses, addressModel{Type: orNull(a.Type), IP: orNull(a.IP), Prefix: int64(a.Prefix)})
		}
		if c, counted := r.Counters[i.Name]; counted {
			m.Counters = &counters{
				RXBytes: whole(c.RXBytes), RXPackets: whole(c.RXPackets), RXErrors: whole(c.RXErrors),
				RXDropped: whole(c.RXDropped), TXBytes: whole(c.TXBytes), TXPackets: whole(c.TXPackets),
				TXErrors: whole(c.TXErrors), TXDropped: whole(c.TXDropped),
			}
		}
		models = append(models, m)
	}
	return models
}

// orNull is nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// whole fits a count into Terraform's numbers.
func whole(n uint64) *int64 { return new(int64(n)) } //nolint:gosec // Nothing here comes near 8 EiB.

// wholeOrNull is null for what wasn't reported.
func wholeOrNull(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return whole(*n)
}

// text is a computed string.
func text(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

// number is a computed whole number.
func number(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}
