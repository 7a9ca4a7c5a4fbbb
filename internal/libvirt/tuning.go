package libvirt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	golibvirt "libvirt.org/go/libvirt"
)

// Values in this file are texts as in a definition.

// SetBlockIOTune sets the limits of a disk, by target, named as in a definition (virDomainSetBlockIoTune).
func (h *Host) SetBlockIOTune(
	ctx context.Context, uuid, target string, limits map[string]string, affect Affect,
) error {
	params, err := ioTune(limits)
	if err != nil {
		return err
	}
	return h.runOnDomain(ctx, changeCall("setting the I/O limits of disk "+target+" of domain "+uuid), uuid,
		"virDomainSetBlockIoTune",
		func(d *golibvirt.Domain) error { return d.SetBlockIoTune(target, params, affect.impactFlags()) })
}

func ioTune(limits map[string]string) (*golibvirt.DomainBlockIoTuneParameters, error) {
	var p golibvirt.DomainBlockIoTuneParameters
	places := map[string]struct {
		set *bool
		to  *uint64
	}{
		"total_bytes_sec": {&p.TotalBytesSecSet, &p.TotalBytesSec},
		"read_bytes_sec":  {&p.ReadBytesSecSet, &p.ReadBytesSec},
		"write_bytes_sec": {&p.WriteBytesSecSet, &p.WriteBytesSec},
		"total_iops_sec":  {&p.TotalIopsSecSet, &p.TotalIopsSec},
		"read_iops_sec":   {&p.ReadIopsSecSet, &p.ReadIopsSec},
		"write_iops_sec":  {&p.WriteIopsSecSet, &p.WriteIopsSec},
		"size_iops_sec":   {&p.SizeIopsSecSet, &p.SizeIopsSec},

		"total_bytes_sec_max": {&p.TotalBytesSecMaxSet, &p.TotalBytesSecMax},
		"read_bytes_sec_max":  {&p.ReadBytesSecMaxSet, &p.ReadBytesSecMax},
		"write_bytes_sec_max": {&p.WriteBytesSecMaxSet, &p.WriteBytesSecMax},
		"total_iops_sec_max":  {&p.TotalIopsSecMaxSet, &p.TotalIopsSecMax},
		"read_iops_sec_max":   {&p.ReadIopsSecMaxSet, &p.ReadIopsSecMax},
		"write_iops_sec_max":  {&p.WriteIopsSecMaxSet, &p.WriteIopsSecMax},

		"total_bytes_sec_max_length": {&p.TotalBytesSecMaxLengthSet, &p.TotalBytesSecMaxLength},
		"read_bytes_sec_max_length":  {&p.ReadBytesSecMaxLengthSet, &p.ReadBytesSecMaxLength},
		"write_bytes_sec_max_length": {&p.WriteBytesSecMaxLengthSet, &p.WriteBytesSecMaxLength},
		"total_iops_sec_max_length":  {&p.TotalIopsSecMaxLengthSet, &p.TotalIopsSecMaxLength},
		"read_iops_sec_max_length":   {&p.ReadIopsSecMaxLengthSet, &p.ReadIopsSecMaxLength},
		"write_iops_sec_max_length":  {&p.WriteIopsSecMaxLengthSet, &p.WriteIopsSecMaxLength},
	}
	for name, limit := range limits {
		if name == "group_name" {
			p.GroupNameSet, p.GroupName = true, limit
			continue
		}
		place, known := places[name]
		n, err := strconv.ParseUint(limit, 10, 64)
		if !known || err != nil {
			return nil, fmt.Errorf("%w: limit %s = %q", ErrInvalid, name, limit)
		}
		*place.set, *place.to = true, n
	}
	return &p, nil
}

// SetScheduler sets the shares of the virtual CPUs, or the quota or period of the virtual CPUs, the emulator, the I/O
// threads or all of these, according to the name (virDomainSetSchedulerParametersFlags). The quota -1 means no limit.
func (h *Host) SetScheduler(ctx context.Context, uuid, name, value string, affect Affect) error {
	var p golibvirt.DomainSchedulerParameters
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s = %q", ErrInvalid, name, value)
	}
	amount := uint64(max(n, 0))
	switch name {
	case "shares":
		p.CpuSharesSet, p.CpuShares = true, amount
	case "period":
		p.VcpuPeriodSet, p.VcpuPeriod = true, amount
	case "quota":
		p.VcpuQuotaSet, p.VcpuQuota = true, n
	case "global_period":
		p.GlobalPeriodSet, p.GlobalPeriod = true, amount
	case "global_quota":
		p.GlobalQuotaSet, p.GlobalQuota = true, n
	case "emulator_period":
		p.EmulatorPeriodSet, p.EmulatorPeriod = true, amount
	case "emulator_quota":
		p.EmulatorQuotaSet, p.EmulatorQuota = true, n
	case "iothread_period":
		p.IothreadPeriodSet, p.IothreadPeriod = true, amount
	case "iothread_quota":
		p.IothreadQuotaSet, p.IothreadQuota = true, n
	default:
		return fmt.Errorf("%w: scheduler parameter %s", ErrUnsupported, name)
	}
	return h.runOnDomain(ctx, changeCall("setting "+name+" of domain "+uuid), uuid, "virDomainSetSchedulerParametersFlags",
		func(d *golibvirt.Domain) error { return d.SetSchedulerParametersFlags(&p, affect.impactFlags()) })
}

// PinVcpus restricts virtual CPUs to CPUs of the host, each to a set such as "0-3,6" (virDomainPinVcpuFlags).
func (h *Host) PinVcpus(ctx context.Context, uuid string, pins map[string]string, affect Affect) error {
	return h.pin(ctx, uuid, "virtual CPU", "virDomainPinVcpuFlags", pins,
		func(d *golibvirt.Domain, thread uint, cpus []bool) error {
			return d.PinVcpuFlags(thread, cpus, affect.impactFlags())
		})
}

// PinIOThreads restricts I/O threads to CPUs of the host (virDomainPinIOThread).
func (h *Host) PinIOThreads(ctx context.Context, uuid string, pins map[string]string, affect Affect) error {
	return h.pin(ctx, uuid, "I/O thread", "virDomainPinIOThread", pins,
		func(d *golibvirt.Domain, thread uint, cpus []bool) error {
			return d.PinIOThread(thread, cpus, affect.impactFlags())
		})
}

// SetIOThreads makes the I/O threads those with the numbers in want; have are the ones that the domain has
// (virDomainAddIOThread, virDomainDelIOThread).
func (h *Host) SetIOThreads(ctx context.Context, uuid string, want, have []int64, affect Affect) error {
	change := func(name string, threads, others []int64, one func(d *golibvirt.Domain, thread uint) error) error {
		for _, n := range threads {
			if slices.Contains(others, n) {
				continue
			}
			err := h.runOnDomain(ctx, changeCall(fmt.Sprintf("changing I/O thread %d of domain %s", n, uuid)), uuid, name,
				func(d *golibvirt.Domain) error { return one(d, uint(n)) })
			if err != nil {
				return err
			}
		}
		return nil
	}
	err := change("virDomainAddIOThread", want, have, func(d *golibvirt.Domain, thread uint) error {
		return d.AddIOThread(thread, affect.impactFlags())
	})
	if err != nil {
		return err
	}
	return change("virDomainDelIOThread", have, want, func(d *golibvirt.Domain, thread uint) error {
		return d.DelIOThread(thread, affect.impactFlags())
	})
}

// pin pins the threads of one kind, which pins has by number.
func (h *Host) pin(ctx context.Context, uuid, kind, name string, pins map[string]string,
	one func(d *golibvirt.Domain, thread uint, cpus []bool) error,
) error {
	for thread, set := range pins {
		n, err := strconv.ParseUint(thread, 10, 16)
		if err != nil {
			return fmt.Errorf("%w: %s %q", ErrInvalid, kind, thread)
		}
		cpus, err := cpuMap(set)
		if err != nil {
			return err
		}
		err = h.runOnDomain(ctx, changeCall("pinning "+kind+" "+thread+" of domain "+uuid), uuid, name,
			func(d *golibvirt.Domain) error { return one(d, uint(n), cpus) })
		if err != nil {
			return err
		}
	}
	return nil
}

// PinEmulator restricts QEMU's own threads to CPUs of the host (virDomainPinEmulator).
func (h *Host) PinEmulator(ctx context.Context, uuid, set string, affect Affect) error {
	cpus, err := cpuMap(set)
	if err != nil {
		return err
	}
	return h.runOnDomain(ctx, changeCall("pinning the emulator of domain "+uuid), uuid, "virDomainPinEmulator",
		func(d *golibvirt.Domain) error { return d.PinEmulator(cpus, affect.impactFlags()) })
}

// maxHostCPU is above the CPU numbers of any host.
const maxHostCPU = 1 << 14

// cpuMap parses a set of CPUs as libvirt formats it: "0-3,6".
func cpuMap(set string) ([]bool, error) {
	var cpus []bool
	for part := range strings.SplitSeq(set, ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first || last > maxHostCPU {
			return nil, fmt.Errorf("%w: set of CPUs %q", ErrInvalid, set)
		}
		for uint64(len(cpus)) <= last {
			cpus = append(cpus, false)
		}
		for n := first; n <= last; n++ {
			cpus[n] = true
		}
	}
	return cpus, nil
}

// SetBlkioWeight sets the weight of the domain's disk I/O (virDomainSetBlkioParameters).
func (h *Host) SetBlkioWeight(ctx context.Context, uuid, value string, affect Affect) error {
	weight, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%w: blkio_weight = %q", ErrInvalid, value)
	}
	p := golibvirt.DomainBlkioParameters{WeightSet: true, Weight: uint(weight)}
	return h.runOnDomain(ctx, changeCall("setting the I/O weight of domain "+uuid), uuid, "virDomainSetBlkioParameters",
		func(d *golibvirt.Domain) error { return d.SetBlkioParameters(&p, affect.impactFlags()) })
}

// SetBlkioDevices sets the domain's weight and limits on block devices of the host, by path and by name as in a
// definition: weight, read_bytes_sec (virDomainSetBlkioParameters). have is what the domain has. What want lacks of it
// is removed.
func (h *Host) SetBlkioDevices(
	ctx context.Context, uuid string, want, have map[string]map[string]string, affect Affect,
) error {
	var p golibvirt.DomainBlkioParameters
	for name, to := range map[string]struct {
		set  *bool
		text *string
	}{
		"weight":          {&p.DeviceWeightSet, &p.DeviceWeight},
		"read_bytes_sec":  {&p.DeviceReadBpsSet, &p.DeviceReadBps},
		"write_bytes_sec": {&p.DeviceWriteBpsSet, &p.DeviceWriteBps},
		"read_iops_sec":   {&p.DeviceReadIopsSet, &p.DeviceReadIops},
		"write_iops_sec":  {&p.DeviceWriteIopsSet, &p.DeviceWriteIops},
	} {
		values := map[string]string{}
		for path := range have {
			if have[path][name] != "" {
				values[path] = "0" // This removes it.
			}
		}
		for path := range want {
			if want[path][name] != "" {
				values[path] = want[path][name]
			}
		}
		var all []string
		for _, path := range slices.Sorted(maps.Keys(values)) {
			if values[path] != have[path][name] {
				all = append(all, path, values[path])
			}
		}
		*to.set, *to.text = len(all) > 0, strings.Join(all, ",")
	}
	return h.runOnDomain(ctx, changeCall("setting the I/O limits on devices of domain "+uuid), uuid,
		"virDomainSetBlkioParameters",
		func(d *golibvirt.Domain) error { return d.SetBlkioParameters(&p, affect.impactFlags()) })
}

// SetMemoryLimits sets limits of the domain's process, by name and in bytes: hard_limit, soft_limit and swap_hard_limit
// (virDomainSetMemoryParameters). libvirt counts in KiB.
func (h *Host) SetMemoryLimits(ctx context.Context, uuid string, limits map[string]string, affect Affect) error {
	var p golibvirt.DomainMemoryParameters
	for name, bytes := range limits {
		n, err := strconv.ParseUint(bytes, 10, 64)
		kib := (n + 1023) / 1024
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s = %q", ErrInvalid, name, bytes)
		case name == "hard_limit":
			p.HardLimitSet, p.HardLimit = true, kib
		case name == "soft_limit":
			p.SoftLimitSet, p.SoftLimit = true, kib
		case name == "swap_hard_limit":
			p.SwapHardLimitSet, p.SwapHardLimit = true, kib
		default:
			return fmt.Errorf("%w: memory parameter %s", ErrUnsupported, name)
		}
	}
	return h.runOnDomain(ctx, changeCall("setting memory limits of domain "+uuid), uuid, "virDomainSetMemoryParameters",
		func(d *golibvirt.Domain) error { return d.SetMemoryParameters(&p, affect.impactFlags()) })
}

// SetStatsPeriod sets the interval in seconds at which the guest reports its memory statistics; 0 turns the reports off
// (virDomainSetMemoryStatsPeriod).
func (h *Host) SetStatsPeriod(ctx context.Context, uuid, seconds string, affect Affect) error {
	n, err := strconv.Atoi(seconds)
	if err != nil {
		return fmt.Errorf("%w: period %q", ErrInvalid, seconds)
	}
	return h.runOnDomain(ctx, changeCall("setting the period of memory statistics of domain "+uuid), uuid,
		"virDomainSetMemoryStatsPeriod",
		func(d *golibvirt.Domain) error {
			return d.SetMemoryStatsPeriod(n, golibvirt.DomainMemoryModFlags(affect.impactFlags()))
		})
}
