package volume

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/tfdiag"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// disk returns the declared volume.
func (m *model) disk() storage.Disk {
	d := storage.Disk{
		Pool: m.Pool.ValueString(), Name: m.Name.ValueString(), Preallocation: m.Preallocation.ValueString(),
		Clone: refOf(m.CopyOf), CloneWritten: true, Lasting: true,
	}
	if !m.Format.IsUnknown() {
		d.Format = m.Format.ValueString()
	}
	if bytes := m.Size.Bytes(); bytes != nil {
		d.Bytes = *bytes
	}
	if image := refOf(m.Image); image != nil && m.Clone.ValueString() == cloneFull {
		d.Clone, d.CloneWritten = image, false
	} else if image != nil {
		d.Overlay = image
	}
	if p := m.Permissions; p != nil {
		d.Mode, d.Owner, d.Group = p.Mode.ValueString(), p.Owner.ValueString(), p.Group.ValueString()
	}
	if e := m.Encryption; e != nil {
		d.Secret = e.Secret.ValueString()
	}
	return d
}

// roundedKey is the private state's entry with the size in bytes that a host has made of the declared one.
const roundedKey = "rounded"

// rounded returns the size that the host made of a declared one that it rounded up: to blocks, to the extents of a
// volume group, to the geometry of a format. It returns nil if the volume has the declared size, or none is declared.
func (m *model) rounded(v libvirt.Volume) any {
	if bytes := m.Size.Bytes(); bytes != nil && *bytes < v.CapacityBytes {
		return v.CapacityBytes
	}
	return nil
}

// usedFormat returns the format that the volume is known to have for libvirt.Volume.UsedAs. as is what an import found
// out, nil for a volume that the provider created.
func (m *model) usedFormat(as *importedAs) string {
	if m.Encryption != nil || as != nil && as.Encrypted {
		return "" // Of an encrypted volume, libvirt knows the size.
	}
	return m.Format.ValueString()
}

// setFromVolume sets the model to the volume on a host. The declared size stays if rounded is what the host made of it.
func (m *model) setFromVolume(host string, v libvirt.Volume, imported bool, rounded uint64) {
	m.ID, m.CurrentHost, m.Path = types.StringValue(m.id()), types.StringValue(host), types.StringValue(v.Path)
	size := value.NewQuantityFromBytes(v.CapacityBytes)
	if m.Size.Bytes() == nil || v.CapacityBytes != rounded && !size.Same(m.Size) {
		m.Size = size
	}
	// What libvirt finds in a raw volume is what its guest has written there: a medium, an image in its first blocks.
	known := !m.Format.IsNull() && !m.Format.IsUnknown()
	same := v.Format == "" || v.HasFormat(m.Format.ValueString())
	if !known || !same && m.Encryption == nil && m.Format.ValueString() != "raw" {
		m.Format = types.StringValue(v.Format)
	}
	// An overlay has all the data once it is based on nothing any more, as after a move with copy_storage = "full".
	overlay := refOf(m.Image) != nil && m.Clone.ValueString() != cloneFull && v.Backing != ""
	if overlay || imported {
		m.Image = m.basedOn(v)
	}
}

// basedOn returns the image that a volume is based on: the declared image if its name matches.
func (m *model) basedOn(v libvirt.Volume) types.String {
	if v.Backing == "" {
		return types.StringNull()
	}
	name := filepath.Base(v.Backing)
	if image := refOf(m.Image); image != nil && image.Name == name {
		return m.Image
	}
	return types.StringValue(storage.Ref{Pool: m.Pool.ValueString(), Name: name}.String())
}

// refOf parses "<pool>/<name>". It returns nil for other values.
func refOf(id attr.Value) *storage.Ref {
	s, ok := id.(types.String)
	if !ok {
		return nil
	}
	return storage.ParseRef(s.ValueString()) // That is "" if it is null or unknown.
}

func (m *model) ref() storage.Ref {
	return storage.Ref{Pool: m.Pool.ValueString(), Name: m.Name.ValueString()}
}

func (m *model) id() string { return m.ref().String() }

func (m *model) noun() string { return fmt.Sprintf("%s %q", noun, m.id()) }

func (m *model) failure(verb, host string, err error) tfdiag.Failure {
	return tfdiag.Failure{Verb: verb, Noun: m.noun(), Host: host, Err: err}
}

// removalFailure returns why the volume can't be deleted, and what to do about it.
func (m *model) removalFailure(host string, err error) tfdiag.Failure {
	f := m.failure("delete", host, err)
	partition, ok := errors.AsType[*storage.PartitionError](err)
	switch {
	case errors.Is(err, storage.ErrCopied):
		f.Remedy = "Nothing was removed. Wait until that run has ended, and apply again. If it was interrupted, repeat it: " +
			"the copy is then made from the beginning."
	case errors.Is(err, storage.ErrInUse):
		f.Remedy = "Nothing was removed. Take the disk from the VM first, and apply. Then remove the virtfleet_volume: " +
			"Terraform removes a volume before it changes a VM."
	case errors.Is(err, storage.ErrOtherPath):
		f.Remedy = fmt.Sprintf("Nothing was removed. Storage pool %q has another volume of this name than at the last "+
			"refresh. Plan again with a refresh to see it.", m.Pool.ValueString())
	case errors.Is(err, storage.ErrRemovesNone):
		f.Remedy = "Nothing was removed. Take the volume out of the state with \"terraform state rm\", or replace its " +
			"resource block by a removed block with lifecycle { destroy = false }. Then remove the LUN with the tools of its " +
			"storage, if nothing uses it."
	case ok && partition.OfAnotherName():
		f.Remedy = fmt.Sprintf("Nothing was removed. Set source.devices of the storage pool to [\"/dev/%s\"] and "+
			"apply, then plan again.", partition.Disk)
	case ok:
		f.Remedy = fmt.Sprintf("Nothing was removed. Take the volume out of the state with \"terraform state rm\". When "+
			"no VM uses it, remove the partition on the host: \"parted -s %s rm %s\", then \"virsh pool-refresh %s\".",
			partition.Device, partition.Number, partition.Pool)
	}
	return f
}

// refusesVolume returns an error if libvirt can't create the volume in a host's pool.
func refusesVolume(plan *model, host string, pool storage.Pool, diags *diag.Diagnostics) bool {
	err := pool.CheckVolume(plan.disk())
	at := path.Root("pool")
	if errors.Is(err, storage.ErrRawOnly) {
		at = path.Root("format")
	}
	if err != nil {
		diags.Append(plan.failure("create", host, err).AttributeError(at))
	}
	return err != nil
}

// lackOfRoom returns the error that the volume's pool has no room for what is planned, or isn't mounted, if err says
// so.
func (m *model) lackOfRoom(verb, host string, err error) (diags diag.Diagnostics) {
	switch f := m.failure(verb, host, err); {
	case errors.Is(err, storage.ErrUnmounted):
		diags.Append(f.AttributeError(path.Root("pool")))
	case errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrOvercommitted):
		diags.Append(f.AttributeError(path.Root("size")))
	}
	return diags
}
