package virtualmachine

import (
	"context"
	"path"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	tfpath "github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/meta"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// A disk of a VM can be declared as a file, as a volume, or as an own disk. If the configuration changes from one form
// to another and means the same file or RBD image, the VM doesn't change: the disk is handed over. An RBD image can
// also be declared with network.

// handedOverFile returns the disk's file if the disk was declared in another form before and is the same file, and ""
// otherwise. The id of a volume is the same file if the file has the volume's name. A pool always is. The fleet checks
// both before the apply. An RBD image has a path in place of a file.
func handedOverFile(a, was object) string {
	at := handedFrom(was)
	volume := storage.ParseRef(text(a.string("volume")))
	before, beforeVolume := text(was.string("pool")), text(was.string("volume"))
	switch {
	case at == "":
		return ""
	case text(a.string("pool")) != "" && before == "":
		return at
	case volume != nil && volume.Name == path.Base(domain.SourceAt(at).Name()) &&
		(before == "" || before == volume.Pool) && !isVolumeID(beforeVolume):
		return at
	default:
		return ""
	}
}

// handedFrom returns the path of an observed disk that is a file or an RBD image, "" for other disks.
func handedFrom(a object) string {
	if source := a.object("network"); isSet(source) {
		return networkSource(source).RBDPath()
	}
	at := text(a.string("path"))
	if at == "" {
		at = text(a.string("file"))
	}
	if volume := text(a.string("volume")); at == "" && !isVolumeID(volume) {
		at = volume
	}
	if domain.SourceAt(at).Block != "" {
		return ""
	}
	return at
}

// handedOver returns the files of the disks that are handed over, by key.
func handedOver(declared, prior types.Map) map[string]string {
	over, before := map[string]string{}, elements(prior)
	for key, o := range elements(declared) {
		a, was := open(o), open(before[key])
		if a == nil || was == nil {
			continue
		}
		if at := handedOverFile(a, was); at != "" {
			over[key] = at
		}
	}
	return over
}

// warnOfRemovedVolumes warns about each volume that leaves the VM and is removed by the same plan. If Terraform plans
// the volume later, the plan of the volume warns.
func (r *Resource) warnOfRemovedVolumes(config, state *model) (diags diag.Diagnostics) {
	stays := map[string]bool{}
	for _, o := range elements(config.Disks) {
		stays[text(open(o).string("volume"))] = true
	}
	for _, o := range elements(state.Disks) {
		id := text(open(o).string("volume"))
		if ref := storage.ParseRef(id); ref != nil && isVolumeID(id) && !stays[id] {
			left := meta.SavedVolume{Pool: ref.Pool, Name: ref.Name, Host: text(state.CurrentHost)}
			if r.Data.Volumes.Leaves(left, text(state.Name)) {
				diags.Append(meta.RemovedWithDisk(id, text(state.Name)))
			}
		}
	}
	return diags
}

// checkOwners returns an error for each disk that becomes the VM's own while its file stays a virtfleet_volume. If
// Terraform plans the volume later, the plan of the volume says so.
func (r *Resource) checkOwners(ctx context.Context, state *model, d fleet.Desired) (diags diag.Diagnostics) {
	host := text(state.CurrentHost)
	for _, key := range value.Keys(d.Handed) {
		own, isOwn := d.OwnDisks[key]
		if !isOwn {
			continue
		}
		file := storage.Ref{Pool: own.Pool, Name: path.Base(domain.SourceAt(d.Handed[key]).Name())}
		kept := r.Data.Volumes.Owns(meta.SavedVolume{Pool: file.Pool, Name: file.Name, Host: host}, text(state.Name))
		if slices.ContainsFunc(kept, func(other string) bool {
			return r.Data.Storage().SamePool(ctx, file.Pool, host, other)
		}) {
			at := tfpath.Root("disks").AtMapKey(key).AtName("pool")
			diags.Append(meta.OwnedTwice(at, file.String(), text(state.Name)))
		}
	}
	return diags
}
