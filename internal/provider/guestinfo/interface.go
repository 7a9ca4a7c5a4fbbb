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
			"name": computedString("Name in the guest, such as `eth0`."),
			"mac": computedString("MAC address, the same as in the VM's `interfaces`. Null if " +
				"it has none."),
			"addresses": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Addresses of the interface, in the agent's order.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"type":   computedString("`ipv4` or `ipv6`."),
					"ip":     computedString("The address."),
					"prefix": computedNumber("Length of the network's prefix in bits."),
				}},
			},
			"counters": schema.SingleNestedAttribute{
				Computed:            true,
				MarkdownDescription: "Traffic, as the guest counts it. Null without `raw_commands`.",
				Attributes: map[string]schema.Attribute{
					"rx_bytes":   computedNumber("Bytes received."),
					"rx_packets": computedNumber("Packets received."),
					"rx_errors":  computedNumber("Packets that arrived broken."),
					"rx_dropped": computedNumber("Packets received and dropped."),
					"tx_bytes":   computedNumber("Bytes sent."),
					"tx_packets": computedNumber("Packets sent."),
					"tx_errors":  computedNumber("Packets that couldn't be sent."),
					"tx_dropped": computedNumber("Packets dropped instead of sent."),
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
				RXBytes: wholeNumber(c.RXBytes), RXPackets: wholeNumber(c.RXPackets), RXErrors: wholeNumber(c.RXErrors),
				RXDropped: wholeNumber(c.RXDropped), TXBytes: wholeNumber(c.TXBytes), TXPackets: wholeNumber(c.TXPackets),
				TXErrors: wholeNumber(c.TXErrors), TXDropped: wholeNumber(c.TXDropped),
			}
		}
		models = append(models, m)
	}
	return models
}

// orNull returns nil for "".
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// wholeNumber converts a count to Terraform's numbers.
func wholeNumber(n uint64) *int64 { return new(int64(n)) } //nolint:gosec // Nothing here comes near 8 EiB.

// wholeOrNull returns null for a number that wasn't reported.
func wholeOrNull(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return wholeNumber(*n)
}

// computedString returns a computed string attribute.
func computedString(description string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

// computedNumber returns a computed attribute for a whole number.
func computedNumber(description string) schema.Int64Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}
