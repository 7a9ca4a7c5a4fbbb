package volume

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// warnWritten warns if a running VM writes to the volume that is copied. The VM may be off by the apply.
func (r *volumeResource) warnWritten(
	ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse, host types.String,
) {
	var source types.String
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("copy_of"), &source)...)
	ref := refOf(source)
	if ref == nil || resp.Diagnostics.HasError() {
		return
	}
	s, hosts := r.Data.Storage(), r.Data.Fleet.Connections()
	if host.ValueString() != "" {
		hosts = hosts.Named(host.ValueString())
	}
	for _, a := range hostset.Found(s.Volume(ctx, hosts, *ref)) {
		if writer, err := s.Writer(ctx, a.Host, *a.Value); err == nil && writer != nil {
			resp.Diagnostics.AddAttributeWarning(path.Root("copy_of"), "Volume to copy is in use", fmt.Sprintf(
				"%s and runs, so it may write to %q while that is copied. The apply fails unless the VM is off by then.", writer,
				source.ValueString()))
			return
		}
	}
}

// refusesEncryptedGrowth returns an error for a larger size of an encrypted volume that libvirt can't grow now: a VM
// that uses it starts after it has grown. A secret that is planned may let libvirt grow it.
func (r *volumeResource) refusesEncryptedGrowth(
	ctx context.Context, state *model, resp *resource.ModifyPlanResponse,
) bool {
	// What libvirt takes for encryption in another volume may be what its guest has written there, also in an imported
	// one whose secret is unknown: there only the apply finds out.
	if state.Encryption == nil || !attributes(resp.Plan.Raw)["encryption"].IsFullyKnown() {
		return false
	}
	host := state.CurrentHost.ValueString()
	err := r.Data.Storage().CheckEncryptedGrowth(ctx, host, state.ref())
	if err != nil {
		f := state.failure("grow", host, err)
		f.Remedy = "Start a VM that uses it first. Or set size back."
		resp.Diagnostics.Append(f.AttributeError(path.Root("size")))
	}
	return err != nil
}

// refusesGrowthUnderJob returns an error for a larger size if a job runs on the disk of a VM that uses the volume.
func (r *volumeResource) refusesGrowthUnderJob(
	ctx context.Context, state *model, resp *resource.ModifyPlanResponse,
) bool {
	host := state.CurrentHost.ValueString()
	err := r.Data.Storage().CheckJobs(ctx, host, state.ref())
	if err != nil {
		resp.Diagnostics.Append(state.growthError(host, err))
	}
	return err != nil
}

// growthError says why the volume can't grow.
func (m *model) growthError(host string, err error) diag.Diagnostic {
	if job, ok := errors.AsType[*storage.JobError](err); ok {
		return tfdiag.Problems([]fleet.Problem{{
			Attribute: "size", Summary: job.Title(), Detail: job.Error(), Remedy: job.Remedy(), Next: fleet.Replan,
		}})[0]
	}
	return m.failure("grow", host, err).AttributeError(path.Root("size"))
}

// refusesGrowth returns an error for a larger size than that of the volume on its host, if libvirt can't grow it.
func (r *volumeResource) refusesGrowth(
	ctx context.Context, state *model, bytes uint64, resp *resource.ModifyPlanResponse,
) bool {
	s, host, ref := r.Data.Storage(), state.CurrentHost.ValueString(), state.ref()
	for _, a := range hostset.Found(storage.PoolOn(ctx, s.Hosts.Named(host), ref.Pool)) {
		err := a.Value.CheckGrowth()
		if err == nil {
			continue
		}
		for _, v := range hostset.Found(s.Volume(ctx, s.Hosts.Named(host), ref)) {
			if v.Value.CapacityBytes >= bytes {
				return false // Another tool has grown it. A VM that runs on it learns that in the apply.
			}
		}
		f := state.failure("grow", host, err)
		f.Remedy = fmt.Sprintf("Grow %s there with the tools of its storage, such as lvextend, and run \"virsh pool-refresh "+
			"%s\". If a VM runs on it, run \"virsh blockresize <vm> %[1]s %[3]dB\". Then set size to what it has.",
			state.Path.ValueString(), ref.Pool, bytes)
		resp.Diagnostics.Append(f.AttributeError(path.Root("size")))
		return true
	}
	return false
}
