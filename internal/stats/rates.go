package stats

import "time"

// Rates are the changes between two samples, per second, or in percent of the time. Unknown rates are nil, including
// the rate of a counter that was reset in between.
type Rates struct {
	Elapsed time.Duration
	// CPUPercent is in percent of one processor: 200 means two fully used processors. GuestPercent is in percent of the
	// virtual CPUs that are online.
	CPUPercent, UserPercent, SystemPercent, GuestPercent *float64
	// VCPUs are by their ids.
	VCPUs map[int]VCPURates
	// SwapIn and SwapOut are in bytes, the faults in pages.
	SwapIn, SwapOut, MajorFaults, MinorFaults *float64
	// Disks are by their targets, Interfaces by their devices.
	Disks      map[string]DiskRates
	Interfaces map[string]InterfaceRates
}

// VCPURates are in percent of the time.
type VCPURates struct{ Percent, WaitPercent, DelayPercent *float64 }

// DiskRates are per second. The latencies are the average of one request; nil if there was none.
type DiskRates struct {
	ReadBytes, WriteBytes, ReadRequests, WriteRequests, Flushes *float64
	ReadLatency, WriteLatency, FlushLatency                     *time.Duration
}

// InterfaceRates are per second.
type InterfaceRates struct {
	ReceivedBytes, ReceivedPackets, ReceiveErrors, ReceiveDrops         *float64
	TransmittedBytes, TransmittedPackets, TransmitErrors, TransmitDrops *float64
}

// Between returns the rates between two samples of one VM. It returns nil if the samples are of different VMs or in the
// wrong order.
func Between(before, after *Sample) *Rates {
	if before == nil || after == nil || before.UUID != after.UUID || !after.At.After(before.At) {
		return nil
	}
	r := &Rates{
		Elapsed: after.At.Sub(before.At), VCPUs: map[int]VCPURates{},
		Disks: map[string]DiskRates{}, Interfaces: map[string]InterfaceRates{},
	}
	if b, a := before.CPU, after.CPU; b != nil && a != nil {
		r.cpuRates(b, a)
	}
	if b, a := before.Memory, after.Memory; b != nil && a != nil {
		r.SwapIn, r.SwapOut = r.perSecond(b.SwapIn, a.SwapIn), r.perSecond(b.SwapOut, a.SwapOut)
		r.MajorFaults = r.perSecond(b.MajorFaults, a.MajorFaults)
		r.MinorFaults = r.perSecond(b.MinorFaults, a.MinorFaults)
	}
	for _, a := range after.Disks {
		for _, b := range before.Disks {
			// The counters of another medium in the same drive begin at zero or at any other value.
			if b.Target == a.Target && b.Path == a.Path {
				r.Disks[a.Target] = r.diskRates(b, a)
			}
		}
	}
	for _, a := range after.Interfaces {
		for _, b := range before.Interfaces {
			if b.Device == a.Device {
				r.Interfaces[a.Device] = r.interfaceRates(b, a)
			}
		}
	}
	return r
}

func (r *Rates) cpuRates(b, a *CPU) {
	r.CPUPercent, r.UserPercent = r.percentOfTime(b.Total, a.Total), r.percentOfTime(b.User, a.User)
	r.SystemPercent = r.percentOfTime(b.System, a.System)
	var ran float64
	known := len(a.VCPUs) > 0
	for _, now := range a.VCPUs {
		for _, then := range b.VCPUs {
			if then.ID != now.ID {
				continue
			}
			r.VCPUs[now.ID] = VCPURates{
				Percent: r.percentOfTime(then.Time, now.Time), WaitPercent: r.percentOfTime(then.Wait, now.Wait),
				DelayPercent: r.percentOfTime(then.Delay, now.Delay),
			}
		}
		p := r.VCPUs[now.ID].Percent
		if p == nil {
			known = false
			continue
		}
		ran += *p
	}
	if known {
		r.GuestPercent = new(ran / float64(len(a.VCPUs)))
	}
}

func (r *Rates) diskRates(b, a Disk) DiskRates {
	return DiskRates{
		ReadBytes: r.perSecond(b.ReadBytes, a.ReadBytes), WriteBytes: r.perSecond(b.WriteBytes, a.WriteBytes),
		ReadRequests:  r.perSecond(b.ReadRequests, a.ReadRequests),
		WriteRequests: r.perSecond(b.WriteRequests, a.WriteRequests), Flushes: r.perSecond(b.Flushes, a.Flushes),
		ReadLatency:  latency(b.ReadTime, a.ReadTime, b.ReadRequests, a.ReadRequests),
		WriteLatency: latency(b.WriteTime, a.WriteTime, b.WriteRequests, a.WriteRequests),
		FlushLatency: latency(b.FlushTime, a.FlushTime, b.Flushes, a.Flushes),
	}
}

func (r *Rates) interfaceRates(b, a Interface) InterfaceRates {
	return InterfaceRates{
		ReceivedBytes:      r.perSecond(b.ReceivedBytes, a.ReceivedBytes),
		ReceivedPackets:    r.perSecond(b.ReceivedPackets, a.ReceivedPackets),
		ReceiveErrors:      r.perSecond(b.ReceiveErrors, a.ReceiveErrors),
		ReceiveDrops:       r.perSecond(b.ReceiveDrops, a.ReceiveDrops),
		TransmittedBytes:   r.perSecond(b.TransmittedBytes, a.TransmittedBytes),
		TransmittedPackets: r.perSecond(b.TransmittedPackets, a.TransmittedPackets),
		TransmitErrors:     r.perSecond(b.TransmitErrors, a.TransmitErrors),
		TransmitDrops:      r.perSecond(b.TransmitDrops, a.TransmitDrops),
	}
}

// increase returns by how much a counter grew; nil if either value is missing or the counter was reset.
func increase[T uint64 | time.Duration](before, after *T) *T {
	if before == nil || after == nil || *after < *before {
		return nil
	}
	return new(*after - *before)
}

// perSecond returns by how much a counter grew per second.
func (r *Rates) perSecond(before, after *uint64) *float64 {
	n := increase(before, after)
	if n == nil {
		return nil
	}
	return new(float64(*n) / r.Elapsed.Seconds())
}

// percentOfTime returns the growth of a counter of time in percent of the time between the samples.
func (r *Rates) percentOfTime(before, after *time.Duration) *float64 {
	d := increase(before, after)
	if d == nil {
		return nil
	}
	return new(100 * d.Seconds() / r.Elapsed.Seconds())
}

// latency returns the average time of one request.
func latency(timeBefore, timeAfter *time.Duration, before, after *uint64) *time.Duration {
	spent, n := increase(timeBefore, timeAfter), increase(before, after)
	if spent == nil || n == nil || *n == 0 {
		return nil
	}
	return new(time.Duration(float64(*spent) / float64(*n)))
}
