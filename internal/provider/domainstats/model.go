package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// model is the data source's state.
type model struct {
	onevm.Selection
	VirtualMachines types.List     `tfsdk:"virtual_machines"`
	Selector        *selectorModel `tfsdk:"selector"`
	Interval        value.Duration `tfsdk:"interval"`
	DirtyRatePeriod value.Duration `tfsdk:"dirty_rate_period"`
	DirtyRateMode   types.String   `tfsdk:"dirty_rate_mode"`
	Jobs            types.Bool     `tfsdk:"jobs"`
	Stats           types.Map      `tfsdk:"stats"`
}

// selectorModel selects VMs by their properties.
type selectorModel struct {
	Labels types.Map `tfsdk:"labels"`
}

// facts is everything that was found out about one VM.
type facts struct {
	uuid string
	// vm is nil if its host doesn't answer.
	vm *fleet.VM
	// sample is the last sample, and first the one before it. Either may be nil.
	first, sample *stats.Sample
	dirtyRate     *uint64
	job           *libvirt.Job
	unavailable   map[string]string
}

// knownRates returns the rates between the two samples, and no rates without both.
func (f *facts) knownRates() stats.Rates {
	if r := stats.Between(f.first, f.sample); r != nil {
		return *r
	}
	return stats.Rates{}
}

var factFields = fields[*facts]{
	textField("name", "Name of the VM.", func(f *facts) string { return valueOrZero(f.vm).Name }),
	textField("current_host", "Host that the VM is on.", func(f *facts) string { return valueOrZero(f.vm).Host }),
	textField("state", "State of the domain, such as `Running`, `Paused` or `Shutoff`.", func(f *facts) string {
		if f.sample == nil {
			return ""
		}
		return f.sample.State.String()
	}),
	textField("state_reason", "libvirt's reason for the state.",
		func(f *facts) string { return valueOrZero(f.sample).Reason }),
	textField("time", "When the host was asked (RFC 3339).", func(f *facts) string {
		if f.sample == nil {
			return ""
		}
		return f.sample.At.UTC().Format(time.RFC3339Nano)
	}),
	secondsField("elapsed_seconds", "Time between the two samples.", func(f *facts) *time.Duration {
		if r := f.knownRates(); r.Elapsed > 0 {
			return &r.Elapsed
		}
		return nil
	}),
	wholeField("dirty_rate_bytes_per_second", "Bytes per second that the guest writes to its memory, a multiple of 1 "+
		"MiB. Null without "+
		"`dirty_rate_period`.", func(f *facts) *uint64 { return f.dirtyRate }),
}

// valueOrZero returns the value that p points at, and the zero value for nil.
func valueOrZero[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

// vmType returns the type of one VM's object.
func vmType() types.ObjectType {
	all := map[string]attr.Type{
		"cpu": cpuFields.objectType(), "vcpus": types.MapType{ElemType: vcpuFields.objectType()},
		"memory": memoryFields.objectType(), "disks": types.MapType{ElemType: diskFields.objectType()},
		"interfaces": types.MapType{ElemType: nicFields.objectType()}, "job": jobFields.objectType(),
		"perf": types.MapType{ElemType: types.Int64Type}, "unavailable": types.MapType{ElemType: types.StringType},
	}
	for name, t := range factFields.objectType().AttrTypes {
		all[name] = t
	}
	return types.ObjectType{AttrTypes: all}
}

// object maps one VM.
func (f *facts) object() attr.Value {
	s, rates := f.sample, f.knownRates()
	if s == nil {
		s = &stats.Sample{}
	}
	perf := types.MapNull(types.Int64Type)
	if s.Perf != nil {
		events := map[string]attr.Value{}
		for event, n := range s.Perf {
			events[event] = types.Int64Value(value.Whole(n))
		}
		perf = types.MapValueMust(types.Int64Type, events)
	}
	all := map[string]attr.Value{
		"memory": fromMemory(s, rates), "disks": fromDisks(s, rates), "interfaces": fromInterfaces(s, rates),
		"job": fromJob(f.job), "perf": perf, "unavailable": value.NewStringMap(f.unavailable),
	}
	all["cpu"], all["vcpus"] = fromCPU(s, rates)
	for _, field := range factFields {
		all[field.name] = field.get(f)
	}
	return types.ObjectValueMust(vmType().AttrTypes, all)
}
