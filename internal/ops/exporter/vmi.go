package exporter

import (
	"strconv"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// metricOf is a metric and the function that reads its value.
type metricOf[S any] struct {
	metric
	value func(S) *float64
}

// countValue returns the value of a number or of bytes.
func countValue[S any](get func(S) *uint64) func(S) *float64 {
	return func(s S) *float64 {
		if n := get(s); n != nil {
			return new(float64(*n))
		}
		return nil
	}
}

// durationValue returns the value of a duration, in seconds.
func durationValue[S any](get func(S) *time.Duration) func(S) *float64 {
	return func(s S) *float64 {
		if d := get(s); d != nil {
			return new(d.Seconds())
		}
		return nil
	}
}

type (
	mem  = *stats.Memory
	proc = *stats.CPU
	core = stats.VCPU
	disk = stats.Disk
	nic  = stats.Interface
)

var memoryMetrics = []metricOf[mem]{
	{
		gauge("kubevirt_vmi_memory_resident_bytes", "Resident set size of the process running the domain."),
		countValue(func(m mem) *uint64 { return m.Resident }),
	},
	{
		gauge("kubevirt_vmi_memory_available_bytes", "Amount of usable memory as seen by the domain."),
		countValue(func(m mem) *uint64 { return m.Available }),
	},
	{
		gauge("kubevirt_vmi_memory_unused_bytes", "The amount of memory left completely unused by the system."),
		countValue(func(m mem) *uint64 { return m.Unused }),
	},
	{
		gauge("kubevirt_vmi_memory_cached_bytes", "The amount of memory that is being used to cache I/O."),
		countValue(func(m mem) *uint64 { return m.DiskCaches }),
	},
	{
		gauge("kubevirt_vmi_memory_swap_in_traffic_bytes", "The total amount of data read from swap space of the guest."),
		countValue(func(m mem) *uint64 { return m.SwapIn }),
	},
	{gauge("kubevirt_vmi_memory_swap_out_traffic_bytes", "The total amount of memory written out to swap space of the "+
		"guest."), countValue(func(m mem) *uint64 { return m.SwapOut })},
	{
		counter("kubevirt_vmi_memory_pgmajfault_total", "The number of page faults when disk IO was required."),
		countValue(func(m mem) *uint64 { return m.MajorFaults }),
	},
	{
		counter("kubevirt_vmi_memory_pgminfault_total", "The number of other page faults, when disk IO was not required."),
		countValue(func(m mem) *uint64 { return m.MinorFaults }),
	},
	{
		gauge("kubevirt_vmi_memory_actual_balloon_bytes", "Current balloon size."),
		countValue(func(m mem) *uint64 { return m.Current }),
	},
	{gauge("kubevirt_vmi_memory_usable_bytes", "The amount of memory which can be reclaimed by balloon without pushing "+
		"the guest system to swap."), countValue(func(m mem) *uint64 { return m.Usable })},
	{
		gauge("kubevirt_vmi_memory_domain_bytes", "The amount of memory allocated to the domain."),
		countValue(func(m mem) *uint64 { return m.Current }),
	},
}

var cpuMetrics = []metricOf[proc]{
	{counter("kubevirt_vmi_cpu_usage_seconds_total", "Total CPU time spent in all modes (sum of both vcpu and hypervisor "+
		"usage)."), durationValue(func(c proc) *time.Duration { return c.Total })},
	{
		counter("kubevirt_vmi_cpu_user_usage_seconds_total", "Total CPU time spent in user mode."),
		durationValue(func(c proc) *time.Duration { return c.User }),
	},
	{
		counter("kubevirt_vmi_cpu_system_usage_seconds_total", "Total CPU time spent in system mode."),
		durationValue(func(c proc) *time.Duration { return c.System }),
	},
}

var (
	vcpuSeconds = metricOf[core]{
		counter("kubevirt_vmi_vcpu_seconds_total", "Total amount of time spent in each state by each vcpu."),
		durationValue(func(v core) *time.Duration { return v.Time }),
	}
	vcpuMetrics = []metricOf[core]{
		{
			counter("kubevirt_vmi_vcpu_wait_seconds_total", "Amount of time spent by each vcpu while waiting on I/O."),
			durationValue(func(v core) *time.Duration { return v.Wait }),
		},
		{counter("kubevirt_vmi_vcpu_delay_seconds_total", "Amount of time spent by each vcpu waiting in the queue instead "+
			"of running."), durationValue(func(v core) *time.Duration { return v.Delay })},
	}
)

var diskMetrics = []metricOf[disk]{
	{
		counter("kubevirt_vmi_storage_iops_read_total", "Total number of I/O read operations."),
		countValue(func(d disk) *uint64 { return d.ReadRequests }),
	},
	{
		counter("kubevirt_vmi_storage_iops_write_total", "Total number of I/O write operations."),
		countValue(func(d disk) *uint64 { return d.WriteRequests }),
	},
	{
		counter("kubevirt_vmi_storage_read_traffic_bytes_total", "Total number of bytes read from storage."),
		countValue(func(d disk) *uint64 { return d.ReadBytes }),
	},
	{
		counter("kubevirt_vmi_storage_write_traffic_bytes_total", "Total number of written bytes."),
		countValue(func(d disk) *uint64 { return d.WriteBytes }),
	},
	{
		counter("kubevirt_vmi_storage_read_times_seconds_total", "Total time spent on read operations."),
		durationValue(func(d disk) *time.Duration { return d.ReadTime }),
	},
	{
		counter("kubevirt_vmi_storage_write_times_seconds_total", "Total time spent on write operations."),
		durationValue(func(d disk) *time.Duration { return d.WriteTime }),
	},
	{
		counter("kubevirt_vmi_storage_flush_requests_total", "Total storage flush requests."),
		countValue(func(d disk) *uint64 { return d.Flushes }),
	},
	{
		counter("kubevirt_vmi_storage_flush_times_seconds_total", "Total time spent on cache flushing."),
		durationValue(func(d disk) *time.Duration { return d.FlushTime }),
	},
}

var nicMetrics = []metricOf[nic]{
	{
		counter("kubevirt_vmi_network_receive_bytes_total", "Total network traffic received in bytes."),
		countValue(func(n nic) *uint64 { return n.ReceivedBytes }),
	},
	{
		counter("kubevirt_vmi_network_transmit_bytes_total", "Total network traffic transmitted in bytes."),
		countValue(func(n nic) *uint64 { return n.TransmittedBytes }),
	},
	{
		counter("kubevirt_vmi_network_receive_packets_total", "Total network traffic received packets."),
		countValue(func(n nic) *uint64 { return n.ReceivedPackets }),
	},
	{
		counter("kubevirt_vmi_network_transmit_packets_total", "Total network traffic transmitted packets."),
		countValue(func(n nic) *uint64 { return n.TransmittedPackets }),
	},
	{
		counter("kubevirt_vmi_network_receive_errors_total", "Total network received error packets."),
		countValue(func(n nic) *uint64 { return n.ReceiveErrors }),
	},
	{
		counter("kubevirt_vmi_network_transmit_errors_total", "Total network transmitted error packets."),
		countValue(func(n nic) *uint64 { return n.TransmitErrors }),
	},
	{counter("kubevirt_vmi_network_receive_packets_dropped_total", "The total number of rx packets dropped on vNIC "+
		"interfaces."), countValue(func(n nic) *uint64 { return n.ReceiveDrops })},
	{counter("kubevirt_vmi_network_transmit_packets_dropped_total", "The total number of tx packets dropped on vNIC "+
		"interfaces."), countValue(func(n nic) *uint64 { return n.TransmitDrops })},
}

// networkTraffic is the older form of two of the metrics above, which some dashboards still use.
var networkTraffic = counter("kubevirt_vmi_network_traffic_bytes_total", "[Deprecated] Total number of bytes sent and "+
	"received.")

// addAll adds a series for each metric.
func addAll[S any](f *families, metrics []metricOf[S], s S, l labels) {
	for _, m := range metrics {
		f.add(m.metric, m.value(s), l)
	}
}

// addStats adds the statistics of a VM.
func (f *families) addStats(s *stats.Sample, l labels) {
	if s.Memory != nil {
		addAll(f, memoryMetrics, s.Memory, l)
	}
	if s.CPU != nil {
		addAll(f, cpuMetrics, s.CPU, l)
		for _, v := range s.CPU.VCPUs {
			id := strconv.Itoa(v.ID)
			state := v.State
			if state == "" {
				state = "unknown"
			}
			f.add(vcpuSeconds.metric, vcpuSeconds.value(v), l.with("id", id, "state", state))
			addAll(f, vcpuMetrics, v, l.with("id", id))
		}
	}
	for _, d := range s.Disks {
		addAll(f, diskMetrics, d, l.with("drive", d.Key))
	}
	for _, n := range s.Interfaces {
		addAll(f, nicMetrics, n, l.with("interface", n.Key))
		// The deprecated metric has the same two values.
		f.add(networkTraffic, nicMetrics[0].value(n), l.with("interface", n.Key, "type", "rx"))
		f.add(networkTraffic, nicMetrics[1].value(n), l.with("interface", n.Key, "type", "tx"))
	}
}
