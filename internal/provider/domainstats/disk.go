package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// disk is a disk and its rates.
type disk struct {
	stats.Disk
	Rates stats.DiskRates
}

var diskFields = fields[disk]{
	textField("target", "Name in the definition, such as `vda`.", func(d disk) string { return d.Target }),
	textField("path", "File or device on the host. Null for other sources.", func(d disk) string { return d.Path }),
	wholeField("read_bytes", "Bytes read.", func(d disk) *uint64 { return d.ReadBytes }),
	wholeField("write_bytes", "Bytes written.", func(d disk) *uint64 { return d.WriteBytes }),
	wholeField("read_requests", "Read requests.", func(d disk) *uint64 { return d.ReadRequests }),
	wholeField("write_requests", "Write requests.", func(d disk) *uint64 { return d.WriteRequests }),
	wholeField("flush_requests", "Requests to write cached data to stable storage.",
		func(d disk) *uint64 { return d.Flushes }),
	secondsField("read_seconds", "Total time of all read requests.",
		func(d disk) *time.Duration { return d.ReadTime }),
	secondsField("write_seconds", "Total time of all write requests.", func(d disk) *time.Duration { return d.WriteTime }),
	secondsField("flush_seconds", "Total time of all flush requests.", func(d disk) *time.Duration { return d.FlushTime }),
	wholeField("errors", "Failed requests, where the hypervisor counts them.", func(d disk) *uint64 { return d.Errors }),
	wholeField("allocation_bytes", "Highest offset that was written.", func(d disk) *uint64 { return d.Allocation }),
	wholeField("capacity_bytes", "Size that the guest sees.", func(d disk) *uint64 { return d.Capacity }),
	wholeField("physical_bytes", "Size of the file or device on the host.", func(d disk) *uint64 { return d.Physical }),
	wholeField("threshold_bytes",
		"Offset at which libvirt reports that the disk is about to be full. Null if none is set.",
		func(d disk) *uint64 { return d.Threshold }),
	decimalField("read_bytes_per_second", "`read_bytes` over `interval`.",
		func(d disk) *float64 { return d.Rates.ReadBytes }),
	decimalField("write_bytes_per_second", "`write_bytes` over `interval`.",
		func(d disk) *float64 { return d.Rates.WriteBytes }),
	decimalField("read_requests_per_second", "`read_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.ReadRequests }),
	decimalField("write_requests_per_second", "`write_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.WriteRequests }),
	decimalField("flush_requests_per_second", "`flush_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.Flushes }),
	secondsField("read_latency_seconds", "Average time of a read request over `interval`. Null without any.",
		func(d disk) *time.Duration { return d.Rates.ReadLatency }),
	secondsField("write_latency_seconds", "Average time of a write request over `interval`. Null without any.",
		func(d disk) *time.Duration { return d.Rates.WriteLatency }),
	secondsField("flush_latency_seconds", "Average time of a flush request over `interval`. Null without any.",
		func(d disk) *time.Duration { return d.Rates.FlushLatency }),
}

func fromDisks(s *stats.Sample, r stats.Rates) attr.Value {
	var all map[string]disk
	for _, d := range s.Disks {
		if all == nil {
			all = map[string]disk{}
		}
		all[d.Key] = disk{d, r.Disks[d.Target]}
	}
	return diskFields.objects(all)
}
