package domainstats

import (
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// cpu is the time that the host's processors spent on the VM, with its rates.
type cpu struct {
	stats.CPU
	stats.Rates
}

var cpuFields = fields[cpu]{
	secondsField("time_seconds", "Time that the host's processors spent on the VM since it started there.",
		func(c cpu) *time.Duration { return c.Total }),
	secondsField("user_seconds", "Part of `time_seconds` that QEMU spent outside the kernel, including the guest.",
		func(c cpu) *time.Duration { return c.User }),
	secondsField("system_seconds", "Part of `time_seconds` that was spent in the host's kernel.",
		func(c cpu) *time.Duration { return c.System }),
	wholeField("vcpus_online", "Virtual CPUs that are online.", func(c cpu) *uint64 { return c.Online }),
	wholeField("vcpus_maximum", "Virtual CPUs that could be online.", func(c cpu) *uint64 { return c.Maximum }),
	decimalField("usage_percent", "Increase of `time_seconds` during `interval`, in percent: 100 is one processor of "+
		"the host, fully used.",
		func(c cpu) *float64 { return c.CPUPercent }),
	decimalField("user_percent", "`user_seconds` over `interval`.", func(c cpu) *float64 { return c.UserPercent }),
	decimalField("system_percent", "`system_seconds` over `interval`.", func(c cpu) *float64 { return c.SystemPercent }),
	decimalField("vcpus_percent", "How busy the online virtual CPUs were over `interval`. 100 is all of them.",
		func(c cpu) *float64 { return c.GuestPercent }),
}

// vcpu is one virtual CPU.
type vcpu struct {
	stats.VCPU
	stats.VCPURates
}

var vcpuFields = fields[vcpu]{
	textField("state", "`running`, `blocked` or `offline`.", func(v vcpu) string { return v.State }),
	boolField("halted", "Whether the guest halted the virtual CPU until the next interrupt.",
		func(v vcpu) *bool { return v.Halted }),
	secondsField("time_seconds", "Time that the virtual CPU ran.", func(v vcpu) *time.Duration { return v.Time }),
	secondsField("wait_seconds", "Time that the virtual CPU waited for I/O.",
		func(v vcpu) *time.Duration { return v.Wait }),
	secondsField("delay_seconds", "Time that the virtual CPU was ready to run, and no processor of the host was free.",
		func(v vcpu) *time.Duration { return v.Delay }),
	decimalField("usage_percent", "Increase of `time_seconds` during `interval`, in "+
		"percent.", func(v vcpu) *float64 { return v.Percent }),
	decimalField("wait_percent", "`wait_seconds` over `interval`.", func(v vcpu) *float64 { return v.WaitPercent }),
	decimalField("delay_percent", "`delay_seconds` over `interval`.",
		func(v vcpu) *float64 { return v.DelayPercent }),
}

func fromCPU(s *stats.Sample, r stats.Rates) (all, each attr.Value) {
	if s.CPU == nil {
		return types.ObjectNull(cpuFields.objectType().AttrTypes), vcpuFields.objects(nil)
	}
	vcpus := map[string]vcpu{}
	for _, v := range s.CPU.VCPUs {
		vcpus[strconv.Itoa(v.ID)] = vcpu{v, r.VCPUs[v.ID]}
	}
	return cpuFields.object(cpu{*s.CPU, r}), vcpuFields.objects(vcpus)
}
