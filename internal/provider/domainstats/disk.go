package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// disk is a disk, and how fast it is.
type disk struct {
	stats.Disk
	Rates stats.DiskRates
}

var diskFields = fields[disk]{
	text("target", "Name in the definition, such as `vda`.", func(d disk) string { return d.Target }),
	text("path", "File or device on the host. Null for other sources.", func(d disk) string { return d.Path }),
	whole("read_bytes", "Bytes read.", func(d disk) *uint64 { return d.ReadBytes }),
	whole("write_bytes", "Bytes written.", func(d disk) *uint64 { return d.WriteBytes }),
	whole("read_requests", "Read requests.", func(d disk) *uint64 { return d.ReadRequests }),
	whole("write_requests", "Write requests.", func(d disk) *uint64 { return d.WriteRequests }),
	whole("flush_requests", "Requests to put what was written on stable storage.",
		func(d disk) *uint64 { return d.Flushes }),
	seconds("read_seconds", "Time that read requests took, all added up.",
		func(d disk) *time.Duration { return d.ReadTime }),
	seconds("write_seconds", "Time that write requests took.", func(d disk) *time.Duration { return d.WriteTime }),
	seconds("flush_seconds", "Time that flush requests took.", func(d disk) *time.Duration { return d.FlushTime }),
	whole("errors", "Failed requests, where the hypervisor counts them.", func(d disk) *uint64 { return d.Errors }),
	whole("allocation_bytes", "Highest offset that was written.", func(d disk) *uint64 { return d.Allocation }),
	whole("capacity_bytes", "Size that the guest sees.", func(d disk) *uint64 { return d.Capacity }),
	whole("physical_bytes", "Size of the file or device on the host.", func(d disk) *uint64 { return d.Physical }),
	whole("threshold_bytes", "Offset at which libvirt reports that the disk is about to be full. Null if none is set.",
		func(d disk) *uint64 { return d.Threshold }),
	decimal("read_bytes_per_second", "`read_bytes` over `interval`.", func(d disk) *float64 { return d.Rates.ReadBytes }),
	decimal("write_bytes_per_second", "`write_bytes` over `interval`.",
		func(d disk) *float64 { return d.Rates.WriteBytes }),
	decimal("read_requests_per_second", "`read_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.ReadRequests }),
	decimal("write_requests_per_second", "`write_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.WriteRequests }),
	decimal("flush_requests_per_second", "`flush_requests` over `interval`.",
		func(d disk) *float64 { return d.Rates.Flushes }),
	seconds("read_latency_seconds", "What a read request took over `interval`, on average. Null without any.",
		func(d disk) *time.Duration { return d.Rates.ReadLatency }),
	seconds("write_latency_seconds", "What a write request took over `interval`.",
		func(d disk) *time.Duration { return d.Rates.WriteLatency }),
	seconds("flush_latency_seconds", "What a flush request took over `interval`.",
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
