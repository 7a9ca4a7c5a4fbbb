package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

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

const noun = "volume"

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
	s := r.Data.Storage()
	host, sharing, d := r.chooseHost(ctx, s, &plan)
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
		if errors.Is(err, libvirt.ErrExists) {
			f.Remedy = onhosts.ImportRemedy(TypeName, plan.id())
		}
		resp.Diagnostics.Append(f.Error())
		return
	}
	s.RefreshElsewhere(ctx, sharing, host, plan.Pool.ValueString())
	// It may replace an imported one.
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, nil)...)
	resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, roundedKey, plan.rounded(*made))...)
	plan.setFromVolume(host, *made, false, made.CapacityBytes)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// chooseHost returns the host on which to create the volume, and the hosts that will see the volume.
func (r *volumeResource) chooseHost(
	ctx context.Context, s *storage.Storage, plan *model,
) (host string, sharing hostset.Set, d diag.Diagnostic) {
	answers := s.Pool(ctx, s.Hosts, plan.Pool.ValueString())
	var with []string
	shared := false
	for _, a := range hostset.Found(answers) {
		with = append(with, a.Host)
		shared = shared || a.Value.Shared
	}
	if shared {
		sharing = s.Hosts.Named(with...)
	}
	switch {
	case !plan.Host.IsNull():
		return plan.Host.ValueString(), sharing, nil
	case len(with) == 1 || len(with) > 0 && shared:
		return with[0], sharing, nil
	case len(with) == 0:
		err := fmt.Errorf("%w: no host has a storage pool %q", libvirt.ErrNotFound, plan.Pool.ValueString())
		for _, silence := range hostset.Silent(answers) {
			err = errors.Join(err, silence)
		}
		return "", nil, plan.failure("create", "", err).AttributeError(path.Root("pool"))
	default:
		return "", nil, diag.NewAttributeErrorDiagnostic(path.Root("host"), "Unable to create "+plan.noun(), fmt.Sprintf(
			"Storage pool %q is on hosts %s, which don't share it. Set host to the one that is to have the volume.",
			plan.Pool.ValueString(), strings.Join(with, ", ")))
	}
}

// Read finds the volume, first on the host that had it last.
func (r *volumeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	s := r.Data.Storage()
	imported := state.Path.IsNull()
	found, diags := r.findVolume(ctx, s, &state)
	resp.Diagnostics.Append(diags...)
	switch {
	case resp.Diagnostics.HasError():
	case found != nil && imported && r.refusesImport(ctx, s, *found, &state, &resp.Diagnostics):
	case found != nil:
		var rounded uint64
		_, diags := meta.ReadPrivate(ctx, req.Private, roundedKey, &rounded)
		resp.Diagnostics.Append(diags...)
		state.setFromVolume(found.Host, *found.Value, imported, rounded)
		if imported {
			as := importedAs{Encrypted: found.Value.Encrypted}
			resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, as)...)
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	case len(diags) > 0:
		// Unknown, so the state stays as it was.
	case imported:
		resp.Diagnostics.Append(tfdiag.Failure{
			Verb: "import", Noun: noun, Err: onhosts.NotFound(noun, state.id()),
		}.Error())
	default:
		resp.State.RemoveResource(ctx)
	}
}

// refusesImport returns an error for the import of a volume that may lack a part of its content. Such a volume must not
// get into the state: the next creation would remove it if it left the state again.
func (r *volumeResource) refusesImport(
	ctx context.Context, s *storage.Storage, found hostset.Answer[libvirt.Volume], state *model, diags *diag.Diagnostics,
) bool {
	interrupted, err := s.Interrupted(ctx, found.Host, *found.Value)
	f := state.failure("import", found.Host, err)
	if interrupted {
		f.Err = fmt.Errorf("%w: a run that was creating it was interrupted, so it may lack a part of its content",
			libvirt.ErrOperationInvalid)
		f.Remedy = "Apply without importing it: the provider creates it again, or says what to do."
	}
	if f.Err == nil {
		return false
	}
	diags.Append(f.Error())
	return true
}

// findVolume looks for the volume on the host that had it last, then on all hosts. A warning in diags says that the
// volume's place is unknown, and an error that on_unreachable doesn't allow that.
func (r *volumeResource) findVolume(
	ctx context.Context, s *storage.Storage, state *model,
) (found *hostset.Answer[libvirt.Volume], diags diag.Diagnostics) {
	last, ref := state.CurrentHost.ValueString(), state.ref()
	if _, ok := s.Hosts.Host(last); last != "" && !ok {
		f := state.failure("read", last, errors.New("its last host isn't configured"))
		f.Remedy = "Add the host to the provider's hosts again, under its former name. If the host is off, add it with " +
			"fenced = true: the provider then treats its volumes as gone."
		return nil, diag.Diagnostics{f.Error()}
	}
	answers := s.Volume(ctx, s.Hosts.Named(last), ref)
	if all := hostset.Found(answers); len(all) > 0 {
		return &all[0], nil
	}
	answers = append(answers, s.Volume(ctx, s.Hosts.Without(last), ref)...)
	all := hostset.Found(answers)
	switch len(all) {
	case 1:
		return &all[0], nil
	case 0:
	default:
		shared := hostset.Found(s.Pool(ctx, s.Hosts.Named(all[0].Host), ref.Pool))
		if len(shared) > 0 && shared[0].Value.Shared {
			return &all[0], nil
		}
		diags.Append(state.failure("read", "", fmt.Errorf("%w: hosts %q and %q both have a volume of this name",
			libvirt.ErrInvalid, all[0].Host, all[1].Host)).Error())
		return nil, diags
	}
	for host, err := range hostset.Silent(answers) {
		f := state.failure("read", host, err)
		pool := errors.Is(err, libvirt.ErrPoolInactive) || errors.Is(err, libvirt.ErrNoPool)
		switch {
		case pool && host != last:
			// The volume was never on this host.
		case !pool && r.Data.OnUnreachable != meta.OnUnreachableKeep:
			diags.Append(f.Error())
		default:
			f.Happened = "it is unknown whether the volume exists, so the state keeps it as it was"
			diags.Append(f.Warning())
		}
	}
	return nil, diags
}

// Update grows the volume. Of the other attributes, only what describes a volume changes in place, in the state alone.
func (r *volumeResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	s := r.Data.Storage()
	host := state.CurrentHost.ValueString()
	s.EndCreation(ctx, host, state.ref()) // One that was imported may have an interrupted creation's record.
	if bytes := plan.Size.Bytes(); bytes != nil && !plan.Size.Same(state.Size) {
		hosts, err := s.UserHosts(ctx, host, state.Pool.ValueString())
		if err == nil {
			err = s.Grow(ctx, storage.Growth{
				Host: host, Ref: state.ref(), Bytes: *bytes, Preallocation: plan.Preallocation.ValueString(), Hosts: hosts,
			})
		}
		if err != nil {
			resp.Diagnostics.Append(plan.failure("grow", host, err).AttributeError(path.Root("size")))
			return
		}
		for _, a := range hostset.Found(s.Volume(ctx, s.Hosts.Named(host), state.ref())) {
			resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, roundedKey, plan.rounded(*a.Value))...)
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
	s := r.Data.Storage()
	host := state.CurrentHost.ValueString()
	hosts, err := s.UserHosts(ctx, host, state.Pool.ValueString())
	if err == nil {
		err = s.DeleteUnused(ctx, hosts, host, state.ref())
	}
	if err != nil {
		resp.Diagnostics.Append(state.removalFailure(host, err).Error())
		return
	}
	if len(hosts) > 1 {
		s.RefreshElsewhere(ctx, hosts, host, state.Pool.ValueString())
	}
}

// ImportState accepts "<pool>/<name>" or a path, on any host.
func (r *volumeResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	if !r.Asks("import", noun, &resp.Diagnostics) {
		return
	}
	pool, name, _ := strings.Cut(req.ID, "/")
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
		pool, name = found[0].Value.Pool, found[0].Value.Name
	}
	if pool == "" || name == "" {
		resp.Diagnostics.AddError("Unable to import volume", fmt.Sprintf("%q is neither <pool>/<name> nor a path.", req.ID))
		return
	}
	for attribute, v := range map[string]string{"id": pool + "/" + name, "pool": pool, "name": name} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(attribute), v)...)
	}
}
