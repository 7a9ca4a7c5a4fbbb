package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// Read finds the volume, first on the host that had it last.
func (r *volumeResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !r.Asks("read", noun, &resp.Diagnostics) {
		return
	}
	s := r.Data.Storage()
	r.Data.Fleet.ReadAhead([]string{state.CurrentHost.ValueString()})
	imported := state.Path.IsNull()
	before := state
	var last lastPlace
	_, diags := meta.ReadPrivate(ctx, req.Private, privateUsers, &last.users)
	resp.Diagnostics.Append(diags...)
	_, diags = meta.ReadPrivate(ctx, req.Private, privateMounts, &last.mounts)
	resp.Diagnostics.Append(diags...)
	found, diags := r.findVolume(ctx, s, &state, last, state.locate(ctx, s, req.Private))
	resp.Diagnostics.Append(diags...)
	switch {
	case resp.Diagnostics.HasError():
	case found != nil && imported && r.refusesImport(ctx, s, *found, &state, &resp.Diagnostics):
	case found != nil && found.Host != before.CurrentHost.ValueString() &&
		r.refusesHalfCopy(ctx, *found, &state, &resp.Diagnostics):
	case found != nil:
		var rounded uint64
		_, diags := meta.ReadPrivate(ctx, req.Private, roundedKey, &rounded)
		resp.Diagnostics.Append(diags...)
		as, diags := readImported(ctx, req.Private)
		resp.Diagnostics.Append(diags...)
		resp.Diagnostics.Append(recordHost(ctx, s, found.Host, resp.Private)...)
		resp.Diagnostics.Append(recordUsers(ctx, s, *found, resp.Private)...)
		resp.Diagnostics.Append(recordMount(ctx, s, found.Host, *found.Value, last.mounts, resp.Private)...)
		used, converted, diags := state.asConverted(ctx, req.Private, *found.Value, state.usedFormat(as))
		resp.Diagnostics.Append(diags...)
		resp.Diagnostics.Append(noteConversion(ctx, resp.Private, converted)...)
		state.setFromVolume(found.Host, used, imported, rounded)
		if !imported {
			resp.Diagnostics.Append(noteDrift(ctx, req.Private, resp.Private, &before, &state)...)
		} else {
			as := importedAs{Encrypted: found.Value.Encrypted}
			state.Encryption = importedEncryption(ctx, s, *found)
			resp.Diagnostics.Append(meta.WritePrivate(ctx, resp.Private, privateImported, as)...)
		}
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	case len(diags) > 0:
		// Unknown, so the state stays as it was.
	case imported:
		err := onhosts.NotFound(noun, state.id())
		if host := state.CurrentHost.ValueString(); host != "" {
			err = fmt.Errorf("%w: host %q has no volume %q", libvirt.ErrNotFound, host, state.id())
		}
		f := tfdiag.Failure{Verb: "import", Noun: noun, Err: err}
		f.Remedy = fmt.Sprintf("Correct the id. If the volume was made without libvirt, run \"virsh pool-refresh %s\" on "+
			"its host first.", state.Pool.ValueString())
		resp.Diagnostics.Append(f.Error())
	default:
		kept := r.keepMissing(ctx, s, &state, false, nil)
		resp.Diagnostics.Append(kept...)
		if len(kept) == 0 {
			resp.Diagnostics.Append(warnLost(ctx, s, &state)...)
			resp.State.RemoveResource(ctx)
		}
	}
}

// findVolume looks for the volume on the host that had it last, then on all hosts. at is what was known of its place.
// located is why that host is not the one of the state, or can't be asked which one it is; nil if it is that.
// A warning in diags says that the volume's place is unknown, and an error that on_unreachable doesn't allow that, or
// that another volume may have its name.
func (r *volumeResource) findVolume(
	ctx context.Context, s *storage.Storage, state *model, at lastPlace, located error,
) (found *hostset.Answer[libvirt.Volume], diags diag.Diagnostics) {
	last, ref := state.CurrentHost.ValueString(), state.ref()
	if _, ok := s.Hosts.Host(last); last != "" && !ok {
		f := state.failure("read", last, errors.New("its last host isn't configured"))
		f.Remedy = "Add the host to the provider's hosts again, under its former name. If the host is off, add it with " +
			"fenced = true: the provider then treats its volumes as gone."
		return nil, diag.Diagnostics{f.Error()}
	}
	if errors.Is(located, hostset.ErrOtherHost) {
		return nil, diag.Diagnostics{state.failure("read", last, located).Error()}
	}
	answers := []hostset.Answer[libvirt.Volume]{{Host: last, Err: located}}
	if located == nil {
		answers = s.Volume(ctx, s.Hosts.Named(last), ref)
	}
	if len(answers) > 0 && answers[0].Value == nil && answers[0].Err == nil {
		answers[0].Err = state.mountGone(ctx, s, at.mounts)
	}
	if all := hostset.Found(answers); len(all) > 0 {
		return &all[0], nil
	}
	if last != "" && state.Path.IsNull() { // The volume to import is the one of this host.
		return nil, r.silenceDiagnostics(state, answers, nil)
	}
	at.noPool = len(answers) > 0 && errors.Is(answers[0].Err, libvirt.ErrNoPool)
	at.missing = at.noPool || len(answers) > 0 && answers[0].Err == nil
	mayHaveIt := len(answers) > 0 && !at.missing
	answers = append(answers, s.Volume(ctx, s.Hosts.Without(last), ref)...)
	all := hostset.Found(answers)
	if last != "" { // What another resource has isn't this resource's volume.
		taken := r.Data.Volumes.Hosts(ref.Pool, ref.Name)
		all = slices.DeleteFunc(all, func(a hostset.Answer[libvirt.Volume]) bool { return slices.Contains(taken, a.Host) })
	}
	switch {
	case len(all) == 0:
	case at.isSame(ctx, s, ref.Pool, last, all[0].Host):
		return &all[0], nil
	case mayHaveIt:
		// Another host's volume of the name may be another volume, and this one may still be where it was.
	case last != "":
		return r.findMoved(ctx, s, state, at, all)
	case len(all) == 1:
		// The imported volume may be the one of a host that can't tell.
		if diags = r.silenceDiagnostics(state, answers, all); len(diags) == 0 {
			found = &all[0]
		}
		return found, diags
	default:
		f := state.failure("import", "", fmt.Errorf("%w: hosts %q and %q both have a volume of this name",
			libvirt.ErrInvalid, all[0].Host, all[1].Host))
		f.Remedy = state.importRemedy(all)
		return nil, diag.Diagnostics{f.Error()}
	}
	return nil, r.silenceDiagnostics(state, answers, all)
}

// silenceDiagnostics returns the errors and warnings for the hosts that can't tell whether they have the volume. has
// are the hosts that have a volume of its name.
func (r *volumeResource) silenceDiagnostics(
	state *model, answers, has []hostset.Answer[libvirt.Volume],
) (diags diag.Diagnostics) {
	for host, err := range hostset.Silent(answers) {
		diags.Append(r.silenceDiagnostic(state, host, err, has)...)
	}
	return diags
}

// silenceDiagnostic returns the error or warning for a host that can't tell whether it has the volume.
func (r *volumeResource) silenceDiagnostic(
	state *model, host string, err error, has []hostset.Answer[libvirt.Volume],
) diag.Diagnostics {
	imported := state.Path.IsNull()
	f := state.failure("read", host, err)
	inactive := errors.Is(err, libvirt.ErrPoolInactive)
	switch {
	case imported && errors.Is(err, libvirt.ErrNoPool):
		return nil
	case imported: // There is no state yet that could be kept.
		f.Verb = "import"
		if len(has) > 0 {
			f.Happened = "it is unknown whether this host has a volume of this name too"
			f.Remedy = state.importRemedy(has)
		}
		return diag.Diagnostics{f.Error()}
	case (inactive || errors.Is(err, libvirt.ErrNoPool)) && host != state.CurrentHost.ValueString():
		return nil // The volume was never on this host.
	case !inactive && !errors.Is(err, libvirt.ErrNoPool) && r.Data.OnUnreachable != meta.OnUnreachableKeep:
		return diag.Diagnostics{f.Error()}
	default:
		f.Happened = "it is unknown whether the volume exists, so the state keeps it as it was"
		if errors.Is(err, storage.ErrMountGone) {
			f.Remedy = storage.MountFirst(state.Pool.ValueString()) + ", and plan again. If what was there is lost, take the " +
				"volume out of the state with \"terraform state rm\": the next apply creates an empty one."
		}
		return diag.Diagnostics{f.Warning()}
	}
}

// warnLost warns about a volume that leaves the state because its last host is fenced. It returns nothing if the hosts
// that answer share the pool: then the volume isn't gone with that host.
func warnLost(ctx context.Context, s *storage.Storage, state *model) diag.Diagnostics {
	last, ok := s.Hosts.Host(state.CurrentHost.ValueString())
	if !ok || !last.Fenced || s.IsShared(ctx, s.Hosts, state.Pool.ValueString()) {
		return nil
	}
	return diag.Diagnostics{diag.NewWarningDiagnostic("Volume is lost with its host", fmt.Sprintf("Host %q, which had %s "+
		"last, is fenced, and no other host has it. If it is created again, it has none of its data. Restore the data "+
		"before a VM uses it. If the host may come back, remove fenced before you apply.", last.Name, state.noun()))}
}

// keepMissing returns why a volume that its last host doesn't have stays in the state: nothing for one that is gone.
// Otherwise the resource would take the volume that another host has elsewhere, or the next apply would create an empty
// one if elsewhere is nil. That is wrong if libvirt's list is old, or if the filesystem of the pool isn't mounted.
// noPool says that the host doesn't have the pool, as after libvirt was set up again.
func (r *volumeResource) keepMissing(
	ctx context.Context, s *storage.Storage, state *model, noPool bool, elsewhere *hostset.Answer[libvirt.Volume],
) diag.Diagnostics {
	host, pool, file := state.CurrentHost.ValueString(), state.Pool.ValueString(), state.Path.ValueString()
	f := tfdiag.Failure{Verb: "read", Noun: state.noun(), Host: host}
	refresh := fmt.Sprintf("\"virsh pool-refresh %s\"", pool)
	lacks := fmt.Sprintf("Storage pool %q is active and doesn't have the volume", pool)
	repair := storage.MountFirst(pool) + ", and plan again."
	if noPool {
		lacks = fmt.Sprintf("The host has no storage pool %q", pool)
		repair = "Create the pool there again."
	}
	switch has := s.HasFile(ctx, host, file); {
	case has && noPool:
		f.Happened = fmt.Sprintf("%s, but it has %s. The state keeps the volume as it was.", lacks, file)
		f.Remedy = repair + " If the volume has moved, remove that file."
		return diag.Diagnostics{f.Warning()}
	case has:
		f.Happened = fmt.Sprintf("Storage pool %q doesn't list the volume, but the host has %s: libvirt's list of the pool "+
			"is outdated. The state keeps the volume as it was.", pool, file)
		f.Remedy = fmt.Sprintf("Run %s on the host, then plan again. If the pool is in another directory now, set its "+
			"target.path back, or move the file there.", refresh)
		return diag.Diagnostics{f.Warning()}
	}
	users, err := s.UsersOfMissing(ctx, host, libvirt.Volume{Pool: pool, Name: state.Name.ValueString(), Path: file})
	if err == nil && len(users) > 0 && elsewhere != nil {
		// A VM that was moved there may still have a definition here.
		moved, _ := s.KnownUsers(ctx, s.Hosts.Named(elsewhere.Host), *elsewhere.Value)
		users = slices.DeleteFunc(users, func(u storage.User) bool {
			return u.VM != "" && slices.ContainsFunc(moved, func(m storage.User) bool { return m.UUID == u.UUID })
		})
	}
	switch {
	case err != nil:
		f.Happened = "storage pool " + strconv.Quote(pool) + " doesn't have the volume, and whether a VM uses it is unknown"
		f.Err = err
		f.Remedy = "Plan again when the host answers. Don't remove the volume from the state: the next apply would create " +
			"an empty one."
	case len(users) == 0:
		return nil
	default:
		f.Happened = fmt.Sprintf("%s, but %s. Another volume would lack its data", lacks, users[0])
		f.Remedy = repair + " If the volume is lost, take it out of the state with \"terraform state rm\": the next apply " +
			"creates an empty one. To remove the volume, remove it from the configuration and run \"terraform apply " +
			"-refresh=false\"."
	}
	return diag.Diagnostics{f.Error()}
}
