package guestinfo

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/guest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onevm"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
)

// TypeName is the data source's full name.
const TypeName = "virtfleet_guest_info"

var (
	_ datasource.DataSource              = (*dataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*dataSource)(nil)
)

// dataSource reads what a guest agent reports.
type dataSource struct{ meta.DataSource }

// NewDataSource returns the data source.
func NewDataSource() datasource.DataSource {
	return &dataSource{meta.DataSource{TypeName: TypeName, Verb: "read", Noun: "guest information"}}
}

// Read finds the VM and asks its guest agent. What the agent doesn't answer is unknown.
func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var config model
	failure, ok := d.Begin(ctx, &config, req, resp)
	if !ok {
		return
	}
	fail := func(vm *fleet.VM, err error) {
		f := failure(tfdiag.Failure{VirtualMachine: config.Text(), Err: err})
		if vm != nil {
			f.VirtualMachine, f.Host = vm.Name, vm.Host
		}
		if !d.Keeps(err) {
			resp.Diagnostics.Append(f.Error())
			return
		}
		f.Remedy = "All values are null, because on_unreachable is \"keep\"."
		resp.Diagnostics.Append(f.Warning())
		resp.Diagnostics.Append(resp.State.Set(ctx, config)...)
	}
	vm, err := config.Find(ctx, d.Data.Fleet)
	if err != nil {
		fail(nil, err)
		return
	}
	if vm, err = d.awaitAgent(ctx, vm, config.Wait.Or(0)); err != nil {
		fail(vm, err)
		return
	}
	report, err := d.Data.Fleet.GuestInfo(ctx, vm, guest.Options{
		RawCommands: config.RawCommands.ValueBool(), Probe: config.Probe.toGuest(),
	})
	if err != nil {
		fail(vm, err)
		return
	}
	state, diags := fromReport(ctx, report)
	resp.Diagnostics.Append(diags...)
	state.Selection, state.RawCommands = onevm.Of(vm), config.RawCommands
	state.Wait, state.Probe = config.Wait, config.Probe
	resp.Diagnostics.Append(resp.State.Set(ctx, state)...)
}

// awaitAgent waits for the agent to start, if the user asked for that. The report says whether it did.
func (d *dataSource) awaitAgent(ctx context.Context, vm *fleet.VM, atMost time.Duration) (*fleet.VM, error) {
	if atMost == 0 || !vm.Active {
		return vm, nil
	}
	waiting, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	now, _, err := d.Data.Fleet.Wait(waiting, vm, fleet.WaitFor{GuestAgent: true})
	switch {
	case ctx.Err() != nil:
		return vm, context.Cause(ctx)
	case err != nil && !errors.Is(err, fleet.ErrNotReady):
		return vm, err
	}
	return now, nil
}
