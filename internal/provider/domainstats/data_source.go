package domainstats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"golang.org/x/sync/semaphore"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_domain_stats"

// callsAtOnce is how many VMs are asked individually at a time. Each of them takes a connection.
const callsAtOnce = 8

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource reads the statistics that libvirt keeps of VMs.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "statistics"}}
}

// Read finds the VMs and samples them, twice if there is an interval.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config model
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	all, err := d.findVMs(ctx, config)
	if err == nil {
		err = d.sampleVMs(ctx, all, config.Interval.Or(0))
	}
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{VirtualMachine: config.Text(), Err: err}).Error())
		return
	}
	d.askEach(ctx, all, config)
	if config.IsSet() {
		config.Selection = onevm.Of(all[0].vm)
	}
	objects := make(map[string]attr.Value, len(all))
	for _, f := range all {
		objects[f.vm.UUID] = f.object()
	}
	config.Stats = types.MapValueMust(vmType(), objects)
	resp.Diagnostics.Append(resp.State.Set(ctx, config)...)
}

// findVMs returns the VMs that the configuration selects.
func (d *dataSource) findVMs(ctx context.Context, config model) ([]*facts, error) {
	var found []*fleet.VM
	if config.Selector != nil {
		var err error
		if found, err = d.Data.Fleet.FindByLabels(ctx, value.StringMap(config.Selector.Labels)); err != nil {
			return nil, err
		}
	}
	if config.IsSet() {
		vm, err := config.Find(ctx, d.Data.Fleet)
		if err != nil {
			return nil, err
		}
		found = append(found, vm)
	}
	for _, id := range value.StringList(config.VirtualMachines) {
		vm, err := d.Data.Fleet.Find(ctx, id, fleet.LastKnown{})
		if err != nil {
			return nil, err
		}
		found = append(found, vm)
	}
	all := make([]*facts, len(found))
	for i, vm := range found {
		all[i] = &facts{vm: vm, unavailable: map[string]string{}}
	}
	return all, nil
}

// sampleVMs takes one sample of all VMs, and a second one if there is an interval.
func (d *dataSource) sampleVMs(ctx context.Context, all []*facts, interval time.Duration) error {
	vms := make([]*fleet.VM, len(all))
	for i, f := range all {
		vms[i] = f.vm
	}
	first, err := d.Data.Fleet.Sample(ctx, vms)
	last := first
	if err == nil && interval > 0 {
		wait := time.NewTimer(interval)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		last, err = d.Data.Fleet.Sample(ctx, vms)
	}
	if err != nil {
		return err
	}
	for _, f := range all {
		f.sample = last[f.vm.UUID]
		if interval > 0 {
			f.first = first[f.vm.UUID]
		}
		f.explainMissing(interval > 0)
	}
	return nil
}

// explainMissing records why there are no statistics or no rates.
func (f *facts) explainMissing(rates bool) {
	switch {
	case f.sample == nil:
		f.unavailable["statistics"] = fmt.Sprintf("the virtual machine left host %s", f.vm.Host)
	case f.sample.Busy:
		f.unavailable["statistics"] = "the virtual machine is being started, or migrated to or from this host"
	case !f.sample.State.Active():
		f.unavailable["statistics"] = fmt.Sprintf("the virtual machine is %s (%s)", f.sample.State, f.sample.Reason)
	case rates && (f.first == nil || f.first.CPU == nil || f.sample.CPU == nil):
		f.unavailable["rates"] = "there is only one sample with statistics"
	}
}

// askEach makes the calls that libvirt has only for single VMs. Failures are reported in unavailable.
func (d *dataSource) askEach(ctx context.Context, all []*facts, config model) {
	jobs, period := config.Jobs.ValueBool(), config.DirtyRatePeriod.Or(0)
	places := semaphore.NewWeighted(callsAtOnce)
	var wg sync.WaitGroup
	for _, f := range all {
		if f.unavailable["statistics"] != "" && !jobs || !jobs && period == 0 {
			continue
		}
		if places.Acquire(ctx, 1) != nil {
			break
		}
		wg.Go(func() {
			defer places.Release(1)
			if f.sample == nil || !f.sample.State.Active() {
				return
			}
			if jobs {
				d.askJob(ctx, f)
			}
			f.askDirtyRate(ctx, period, libvirt.DirtyRateMode(config.DirtyRateMode.ValueString()))
		})
	}
	wg.Wait()
}

func (d *dataSource) askJob(ctx context.Context, f *facts) {
	job, err := d.Data.Fleet.Job(ctx, f.vm)
	if err != nil {
		f.unavailable["job"] = err.Error()
	}
	f.job = job
}

func (f *facts) askDirtyRate(ctx context.Context, period time.Duration, mode libvirt.DirtyRateMode) {
	switch {
	case period == 0:
	case mode == libvirt.DirtyRateBitmap && (f.vm.LiveSpec == nil || f.vm.LiveSpec.Type != "kvm"):
		f.unavailable["dirty_rate"] = "QEMU would crash: dirty-bitmap is for virtual machines of type kvm"
	default:
		rate, err := stats.DirtyRate(ctx, f.vm.Conn(), f.vm.UUID, period, mode)
		if err != nil {
			f.unavailable["dirty_rate"] = err.Error()
			return
		}
		f.dirtyRate = &rate
	}
}
