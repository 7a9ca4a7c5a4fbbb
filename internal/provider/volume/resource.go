package volume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// TypeName is the resource's full name.
const TypeName = "virtfleet_volume"

const (
	noun = "volume"
	// defaultTimeout is for copying a volume, and for allocating all of it.
	defaultTimeout       = time.Hour
	defaultDeleteTimeout = 20 * time.Minute
)

var (
	_ resource.ResourceWithConfigure   = (*volumeResource)(nil)
	_ resource.ResourceWithImportState = (*volumeResource)(nil)
	_ resource.ResourceWithModifyPlan  = (*volumeResource)(nil)
)

type volumeResource struct{ meta.Resource }

// NewResource is the constructor that the provider registers.
func NewResource() resource.Resource {
	return &volumeResource{Resource: meta.Resource{TypeName: TypeName}}
}

// Create creates the volume.
func (r *volumeResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() || !r.Asks("create", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "create", plan.Timeouts.Create, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	s := r.Data.Storage()
	host, d := r.chooseHost(ctx, s, &plan)
	if d != nil {
		resp.Diagnostics.Append(d)
		return
	}
	if err := s.EnsureActive(ctx, host, plan.Pool.ValueString()); err != nil {
		resp.Diagnostics.Append(plan.failure("create", host, err).Error())
		return
	}
	made, err := s.CreateVolume(ctx, host, plan.disk())
	if err != nil {
		f := plan.failure("create", host, err)
		switch {
		case errors.Is(err, libvirt.ErrExists):
			f = r.existsFailure(ctx, host, &plan, err)
		case errors.Is(err, storage.ErrInUse):
			f.Remedy = "Shut that VM down, and apply again."
		}
		resp.Diagnostics.Append(f.Error())
		return
	}
	r.Data.Volumes.Made(made.Path, made.Changed)
	pool := plan.Pool.ValueString()
	if sharing, err := s.Sharing(ctx, host, pool); err == nil { // Otherwise the other hosts find the volume later.
		s.RefreshElsewhere(ctx, sharing, host, pool)
	}
	// It may replace one that was imported, or that another tool had changed.
	for _, key := range []string{privateImported, privateDrifted, privateUsers} {
		resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, key, nil)...)
	}
	is := made.UsedAs(plan.usedFormat(nil)) // A copy may begin like something else.
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, roundedKey, plan.rounded(is))...)
	resp.Diagnostics.Append(recordHost(ctx, s, host, resp.Private)...)
	resp.Diagnostics.Append(recordMount(ctx, s, host, is, nil, resp.Private)...)
	plan.setFromVolume(host, is, false, is.CapacityBytes)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// existsFailure is the failure of a creation on a host that has a volume of the name already.
func (r *volumeResource) existsFailure(ctx context.Context, host string, plan *model, err error) tfdiag.Failure {
	s := r.Data.Storage()
	for _, a := range hostset.Found(s.Volume(ctx, s.Hosts.Named(host), plan.ref())) {
		if half := r.verifyNoHalfCopy(ctx, host, *a.Value); half != nil {
			return plan.failure("create", host, half)
		}
	}
	f := plan.failure("create", host, err)
	f.Remedy = onhosts.ImportRemedy(TypeName, plan.id())
	return f
}

// chooseHost returns the host on which to create the volume. Other hosts than the declared one aren't asked.
func (r *volumeResource) chooseHost(
	ctx context.Context, s *storage.Storage, plan *model,
) (host string, d diag.Diagnostic) {
	if !plan.Host.IsNull() {
		return plan.Host.ValueString(), nil
	}
	answers := storage.PoolOn(ctx, s.Hosts, plan.Pool.ValueString())
	var with []string
	allShare := true
	for _, a := range hostset.Found(answers) {
		with = append(with, a.Host)
		allShare = allShare && a.Value.Shared
	}
	switch {
	case len(with) == 1 || len(with) > 0 && allShare:
		return with[0], nil
	case len(with) == 0:
		err := fmt.Errorf("%w: no host has a storage pool %q", libvirt.ErrNotFound, plan.Pool.ValueString())
		for _, silence := range hostset.Silent(answers) {
			err = errors.Join(err, silence)
		}
		return "", plan.failure("create", "", err).AttributeError(path.Root("pool"))
	default:
		return "", diag.NewAttributeErrorDiagnostic(path.Root("host"), "Unable to create "+plan.noun(), fmt.Sprintf(
			"Storage pool %q is on hosts %s, which don't share it. Set host to the one that is to have the volume.",
			plan.Pool.ValueString(), strings.Join(with, ", ")))
	}
}

// Update grows the volume. Of the other attributes, only what describes a volume changes in place, in the state alone.
func (r *volumeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("update", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "update", plan.Timeouts.Update, defaultTimeout, &resp.Diagnostics)
	defer cancel()
	s := r.Data.Storage()
	located := state.locate(ctx, s, req.Private)
	host := state.CurrentHost.ValueString()
	if errors.Is(located, hostset.ErrOtherHost) {
		resp.Diagnostics.Append(state.failure("update", host, located).Error())
		return
	}
	s.EndCreation(ctx, host, state.ref()) // One that was imported may have an interrupted creation's record.
	as, diags := readImported(ctx, req.Private)
	resp.Diagnostics.Append(diags...)
	format := state.usedFormat(as)
	if bytes := plan.Size.Bytes(); bytes != nil && !plan.Size.Same(state.Size) {
		hosts, err := s.UserHosts(ctx, host, state.Pool.ValueString())
		if err = cmp.Or(located, err); err == nil {
			g := storage.Growth{
				Host: host, Ref: state.ref(), Bytes: *bytes, Format: format, Preallocation: plan.Preallocation.ValueString(),
				Hosts: hosts,
			}
			if was := state.Size.Bytes(); was != nil {
				g.Was = *was
			}
			err = s.Grow(ctx, g)
		}
		if err != nil {
			resp.Diagnostics.Append(plan.growthError(host, err))
			return
		}
		for _, a := range hostset.Found(s.Volume(ctx, s.Hosts.Named(host), state.ref())) {
			resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, roundedKey, plan.rounded(a.Value.UsedAs(format)))...)
		}
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// Delete removes the volume, unless something uses it.
func (r *volumeResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("delete", noun, &resp.Diagnostics) {
		return
	}
	ctx, cancel := tfdiag.LimitedBy(ctx, "delete", state.Timeouts.Delete, defaultDeleteTimeout, &resp.Diagnostics)
	defer cancel()
	s := r.Data.Storage()
	if err := state.locate(ctx, s, req.Private); err != nil {
		resp.Diagnostics.Append(state.removalFailure(state.CurrentHost.ValueString(), err).Error())
		return
	}
	host := state.CurrentHost.ValueString()
	hosts, err := s.UserHosts(ctx, host, state.Pool.ValueString())
	if err == nil {
		err = state.checkMounted(ctx, s, req.Private)
	}
	if err == nil {
		err = s.DeleteUnused(ctx, hosts, host, state.ref(), state.Path.ValueString())
	}
	if err != nil {
		resp.Diagnostics.Append(state.removalFailure(host, err).Error())
		return
	}
	if len(hosts) > 1 {
		s.RefreshElsewhere(ctx, hosts, host, state.Pool.ValueString())
	}
}

// ImportState accepts "<pool>/<name>" or a path, on any host, and "<host>/<pool>/<name>".
func (r *volumeResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", noun, &resp.Diagnostics) {
		return
	}
	host, ref := r.importedRef(req.ID)
	if filepath.IsAbs(req.ID) {
		answers := hostset.Ask(ctx, r.Data.Fleet.Connections(),
			func(ctx context.Context, h *libvirt.Host) (*libvirt.Volume, error) {
				return h.VolumeByPath(ctx, req.ID)
			})
		found, diags := onhosts.Imported(answers, noun, req.ID)
		resp.Diagnostics.Append(diags...)
		if diags.HasError() {
			return
		}
		ref = &storage.Ref{Pool: found[0].Value.Pool, Name: found[0].Value.Name}
	}
	if ref == nil {
		resp.Diagnostics.AddError("Unable to import volume", fmt.Sprintf(
			"%q is neither <pool>/<name> nor <host>/<pool>/<name> nor a path.", req.ID))
		return
	}
	attributes := map[string]string{"id": ref.String(), "pool": ref.Pool, "name": ref.Name}
	if host != "" {
		attributes["current_host"] = host
	}
	for attribute, v := range attributes {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), v)...)
	}
}

// importedRef parses the id of a volume to import. The host is "" if the id doesn't begin with one.
func (r *volumeResource) importedRef(id string) (host string, ref *storage.Ref) {
	ref = storage.ParseRef(id)
	if ref == nil {
		return "", nil
	}
	if _, ok := r.Data.Fleet.Connections().Host(ref.Pool); ok {
		if onHost := storage.ParseRef(ref.Name); onHost != nil {
			return ref.Pool, onHost
		}
	}
	return "", ref
}
