package domainstats

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// nic is a network interface and its rates.
type nic struct {
	stats.Interface
	Rates stats.InterfaceRates
}

var nicFields = fields[nic]{
	textField("device", "Device on the host, such as `vnet3`.", func(n nic) string { return n.Device }),
	wholeField("receive_bytes", "Bytes that the guest received.", func(n nic) *uint64 { return n.ReceivedBytes }),
	wholeField("receive_packets", "Packets that the guest received.", func(n nic) *uint64 { return n.ReceivedPackets }),
	wholeField("receive_errors", "Receive errors.", func(n nic) *uint64 { return n.ReceiveErrors }),
	wholeField("receive_drops", "Received packets that were dropped.", func(n nic) *uint64 { return n.ReceiveDrops }),
	wholeField("transmit_bytes", "Bytes that the guest sent.", func(n nic) *uint64 { return n.TransmittedBytes }),
	wholeField("transmit_packets", "Packets that the guest sent.", func(n nic) *uint64 { return n.TransmittedPackets }),
	wholeField("transmit_errors", "Transmit errors.", func(n nic) *uint64 { return n.TransmitErrors }),
	wholeField("transmit_drops", "Sent packets that were dropped.", func(n nic) *uint64 { return n.TransmitDrops }),
	decimalField("receive_bytes_per_second", "`receive_bytes` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceivedBytes }),
	decimalField("receive_packets_per_second", "`receive_packets` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceivedPackets }),
	decimalField("receive_errors_per_second", "`receive_errors` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceiveErrors }),
	decimalField("receive_drops_per_second", "`receive_drops` over `interval`.",
		func(n nic) *float64 { return n.Rates.ReceiveDrops }),
	decimalField("transmit_bytes_per_second", "`transmit_bytes` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmittedBytes }),
	decimalField("transmit_packets_per_second", "`transmit_packets` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmittedPackets }),
	decimalField("transmit_errors_per_second", "`transmit_errors` over `interval`.",
		func(n nic) *float64 { return n.Rates.TransmitErrors }),
	decimalField("transmit_drops_per_second", "`transmit_drops` over `interval`.",
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
