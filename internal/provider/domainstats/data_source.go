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
	var silent []error
	keeps := func(err error) bool {
		kept := d.Keeps(err)
		if kept {
			silent = append(silent, err)
		}
		return kept
	}
	all, err := d.findVMs(ctx, config, keeps)
	if err == nil {
		err = d.sampleVMs(ctx, all, config.Interval.Or(0), keeps)
	}
	if err != nil {
		resp.Diagnostics.Append(failure(tfdiag.Failure{VirtualMachine: config.Text(), Err: err}).Error())
		return
	}
	for _, err := range silent {
		resp.Diagnostics.Append(failure(tfdiag.Failure{
			VirtualMachine: config.Text(), Err: err,
			Remedy: "The statistics of VMs on other hosts are there, because on_unreachable is \"keep\".",
		}).Warning())
	}
	d.askEach(ctx, all, config)
	if config.IsSet() && len(all) > 0 && all[0].vm != nil {
		config.Selection = onevm.Of(all[0].vm)
	}
	objects := make(map[string]attr.Value, len(all))
	for _, f := range all {
		objects[f.uuid] = f.object()
	}
	config.Stats = types.MapValueMust(vmType(), objects)
	resp.Diagnostics.Append(resp.State.Set(ctx, config)...)
}

// findVMs returns the VMs that the configuration selects. keeps reports whether to continue after an error: then what
// is known of the VM is only its UUID, if the configuration has that.
func (d *dataSource) findVMs(ctx context.Context, config model, keeps func(error) bool) (all []*facts, err error) {
	var found []*fleet.VM
	if config.Selector != nil {
		found, err = d.Data.Fleet.FindByLabels(ctx, value.StringMap(config.Selector.Labels))
		if err != nil && !keeps(err) {
			return nil, err
		}
	}
	if config.IsSet() && config.ID.IsNull() {
		vm, err := config.Find(ctx, d.Data.Fleet)
		switch {
		case err == nil:
			found = append(found, vm)
		case !keeps(err):
			return nil, err
		}
	}
	for _, vm := range found {
		all = append(all, &facts{uuid: vm.UUID, vm: vm, unavailable: map[string]string{}})
	}
	ids := value.StringList(config.VirtualMachines)
	if !config.ID.IsNull() {
		ids = append(ids, config.ID.ValueString())
	}
	for _, id := range ids {
		f := &facts{uuid: id, unavailable: map[string]string{}}
		vm, err := d.Data.Fleet.Find(ctx, id, fleet.LastKnown{})
		switch {
		case err == nil:
			f.uuid, f.vm = vm.UUID, vm
		case keeps(err):
			f.unavailable["statistics"] = err.Error()
		default:
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// sampleVMs takes one sample of all VMs that were found, and a second one if there is an interval. keeps is as for
// findVMs.
func (d *dataSource) sampleVMs(
	ctx context.Context, all []*facts, interval time.Duration, keeps func(error) bool,
) error {
	var vms []*fleet.VM
	for _, f := range all {
		if f.vm != nil {
			vms = append(vms, f.vm)
		}
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
	if err != nil && !keeps(err) {
		return err
	}
	for _, f := range all {
		if f.vm == nil {
			continue
		}
		f.sample = last[f.uuid]
		if interval > 0 {
			f.first = first[f.uuid]
		}
		f.explainMissing(interval > 0, err)
	}
	return nil
}

// explainMissing records why there are no statistics or no rates. silent says which hosts didn't answer; nil: all did.
func (f *facts) explainMissing(rates bool, silent error) {
	switch {
	case f.sample == nil && silent != nil:
		f.unavailable["statistics"] = silent.Error()
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
