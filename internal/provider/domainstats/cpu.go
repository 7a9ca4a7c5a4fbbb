package domainstats

import (
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// cpu is what the processors did, and how fast.
type cpu struct {
	stats.CPU
	stats.Rates
}

var cpuFields = fields[cpu]{
	seconds("time_seconds", "Time that the host's processors spent on the VM since it started there.",
		func(c cpu) *time.Duration { return c.Total }),
	seconds("user_seconds", "Part of `time_seconds` that QEMU spent outside the kernel, including the guest.",
		func(c cpu) *time.Duration { return c.User }),
	seconds("system_seconds", "Part of `time_seconds` that was spent in the host's kernel.",
		func(c cpu) *time.Duration { return c.System }),
	whole("vcpus_online", "Virtual CPUs that are online.", func(c cpu) *uint64 { return c.Online }),
	whole("vcpus_maximum", "Virtual CPUs that could be online.", func(c cpu) *uint64 { return c.Maximum }),
	decimal("usage_percent", "`time_seconds` over `interval`: 100 is one processor of the host, fully used.",
		func(c cpu) *float64 { return c.CPUPercent }),
	decimal("user_percent", "`user_seconds` over `interval`.", func(c cpu) *float64 { return c.UserPercent }),
	decimal("system_percent", "`system_seconds` over `interval`.", func(c cpu) *float64 { return c.SystemPercent }),
	decimal("vcpus_percent", "How busy the online virtual CPUs were over `interval`. 100 is all of them.",
		func(c cpu) *float64 { return c.GuestPercent }),
}

// vcpu is one virtual CPU.
type vcpu struct {
	stats.VCPU
	stats.VCPURates
}

var vcpuFields = fields[vcpu]{
	text("state", "`running`, `blocked` or `offline`.", func(v vcpu) string { return v.State }),
	flag("halted", "Whether the guest halted it until the next interrupt.", func(v vcpu) *bool { return v.Halted }),
	seconds("time_seconds", "Time that it ran.", func(v vcpu) *time.Duration { return v.Time }),
	seconds("wait_seconds", "Time that it waited for I/O.", func(v vcpu) *time.Duration { return v.Wait }),
	seconds("delay_seconds", "Time that it was ready to run and no processor of the host was free for it.",
		func(v vcpu) *time.Duration { return v.Delay }),
	decimal("usage_percent", "`time_seconds` over `interval`.", func(v vcpu) *float64 { return v.Percent }),
	decimal("wait_percent", "`wait_seconds` over `interval`.", func(v vcpu) *float64 { return v.WaitPercent }),
	decimal("delay_percent", "`delay_seconds` over `interval`.",
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
