package domainstats

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// nic is a network interface, and how fast it is.
type nic struct {
	stats.Interface
	Rates stats.InterfaceRates
}

var nicFields = fields[nic]{
	text("device", "Device on the host, such as `vnet3`.", func(n nic) string { return n.Device }),
	whole("receive_bytes", "Bytes that the guest received.", func(n nic) *uint64 { return n.ReceivedBytes }),
	whole("receive_packets", "Packets that the guest received.", func(n nic) *uint64 { return n.ReceivedPackets }),
	whole("receive_errors", "Receive errors.", func(n nic) *uint64 { return n.ReceiveErrors }),
	whole("receive_drops", "Received packets that were dropped.", func(n nic) *uint64 { return n.ReceiveDrops }),
	whole("transmit_bytes", "Bytes that the guest sent.", func(n nic) *uint64 { return n.TransmittedBytes }),
	whole("transmit_packets", "Packets that the guest sent.", func(n nic) *uint64 { return n.TransmittedPackets }),
	whole("transmit_errors", "Transmit errors.", func(n nic) *uint64 { return n.TransmitErrors }),
	whole("transmit_drops", "Sent packets that were dropped.", func(n nic) *uint64 { return n.TransmitDrops }),
	decimal("receive_bytes_per_second", "`receive_bytes` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceivedBytes }),
	decimal("receive_packets_per_second", "`receive_packets` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceivedPackets }),
	decimal("receive_errors_per_second", "`receive_errors` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceiveErrors }),
	decimal("receive_drops_per_second", "`receive_drops` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceiveDrops }),
	decimal("transmit_bytes_per_second", "`transmit_bytes` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmittedBytes }),
	decimal("transmit_packets_per_second", "`transmit_packets` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmittedPackets }),
	decimal("transmit_errors_per_second", "`transmit_errors` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmitErrors }),
	decimal("transmit_drops_per_second", "`transmit_drops` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmitDrops }),
}

func fromInterfaces(s *stats.Sample, r stats.Rates) attr.Value {
	var all map[string]nic
	for _, i := range s.Interfaces {
		if all == nil {
			all = map[string]nic{}
		}
		all[i.Key] = nic{i, r.Interfaces[i.Device]}
	}
	return nicFields.objects(all)
}
