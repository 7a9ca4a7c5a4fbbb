package virtualmachine

import (
	"cmp"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/attrpath"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// ownDiskAttributes are the attributes of a disk that is created with its VM.
var ownDiskAttributes = attributes{
	"pool": schema.StringAttribute{
		MarkdownDescription: "Storage pool, of type `dir`, `fs`, `netfs` or `rbd`, in which the disk is created and " +
			"removed with the VM. **If you remove the disk from `disks`, its data is deleted**, unless `on_destroy` is `keep`.",
		Optional: true,
	},
	"image": schema.StringAttribute{
		MarkdownDescription: "`id` of the `virtfleet_image` that the disk starts with. A change is an error, and the disk " +
			"stays: [Change a disk](../guides/images-and-disks.md#change-a-disk). Default: none, the disk is empty.",
		Optional: true,
	},
	"clone": schema.StringAttribute{
		MarkdownDescription: "How the disk is created from its image. One of " + value.OneOf(domain.CloneModes) + ". " +
			"`overlay` holds what the guest writes and reads the rest from the image; `full` is a copy. " +
			"In `rbd` pools, `full` is required. A change is an error. Default: `overlay`.",
		Optional:   true,
		Validators: []validator.String{value.Among(domain.CloneModes...)},
	},
	"size": schema.StringAttribute{
		MarkdownDescription: "Size of a disk with `pool`, such as `20Gi`. Required without `image`. An increase takes " +
			"effect while the VM runs; a decrease fails the plan. A plan doesn't see that another tool has resized the file. " +
			"Default: the size of the image.",
		CustomType: value.QuantityType,
		Optional:   true,
	},
	"preallocation": schema.StringAttribute{
		MarkdownDescription: "Space that a disk with `pool` occupies when it is created. One of " +
			value.OneOf(storage.Preallocations()) + ". `off`: thin. `full`: its whole `size`. `metadata`: thin, with the " +
			"tables of `qcow2`. With `image`, it requires `clone = \"full\"`. A change is an error. Default: `off`.",
		Optional:   true,
		Validators: []validator.String{value.Among(storage.Preallocations()...)},
	},
	"on_destroy": schema.StringAttribute{
		MarkdownDescription: "What happens to a disk with `pool` when the VM is destroyed, or the disk is removed from " +
			"`disks`. Apply a change before that. One of " + value.OneOf(domain.OnDestroyModes) + ". Default: `delete`.",
		Optional:   true,
		Validators: []validator.String{value.Among(domain.OnDestroyModes...)},
	},
}

// isVolumeID reports whether a volume is given by its id, and not by a path.
func isVolumeID(volume string) bool {
	return storage.ParseRef(volume) != nil
}

// ownDiskSource returns the source of a disk whose pool is declared: the last observed path, or else an unknown one.
func ownDiskSource(a, prior object) domain.DiskSource {
	if at := text(a.string("path")); at != "" {
		return domain.SourceAt(at)
	}
	if at := text(prior.string("path")); at != "" && text(prior.string("volume")) == text(a.string("volume")) &&
		(text(prior.string("pool")) == "") == (text(a.string("pool")) == "") {
		return domain.SourceAt(at)
	}
	if at := handedOverFile(a, prior); at != "" {
		return domain.SourceAt(at)
	}
	return domain.DiskSource{File: domain.UnknownFile}
}

// ownDisks returns the disks that are to be created with the VM.
func ownDisks(declared types.Map) map[string]domain.OwnDisk {
	return ownAmong(openAll(declared))
}

// ownAmong is ownDisks for opened disks.
func ownAmong(disks map[string]object) map[string]domain.OwnDisk {
	var own map[string]domain.OwnDisk
	for key, a := range disks {
		if text(a.string("pool")) == "" {
			continue
		}
		if own == nil {
			own = map[string]domain.OwnDisk{}
		}
		disk := domain.OwnDisk{
			Pool: text(a.string("pool")), Image: text(a.string("image")), Clone: text(a.string("clone")),
			OnDestroy: text(a.string("on_destroy")), Preallocation: text(a.string("preallocation")),
		}
		if size := a.quantity("size"); isSet(size) && size.Bytes() != nil {
			disk.Bytes = *size.Bytes()
		}
		own[key] = disk
	}
	return own
}

// ownDiskFromDomain sets the attributes of an observed disk that was created with the VM.
func ownDiskFromDomain(a map[string]attr.Value, own domain.OwnDisk, at string) {
	a["pool"], a["image"] = value.NewStringOrNull(own.Pool), value.NewStringOrNull(own.Image)
	a["clone"], a["on_destroy"] = value.NewStringOrNull(own.Clone), value.NewStringOrNull(own.OnDestroy)
	a["preallocation"] = value.NewStringOrNull(own.Preallocation)
	a["size"], a["path"] = value.NewQuantityNull(), types.StringNull()
	if own.Pool == "" {
		return
	}
	a["file"], a["block"], a["path"] = types.StringNull(), types.StringNull(), value.NewStringOrNull(at)
	if domain.ParseRBDPath(at) != nil {
		a["network"] = types.ObjectNull(networkDiskType.AttrTypes)
	}
	if own.Bytes > 0 {
		a["size"] = value.NewQuantityFromBytes(own.Bytes)
	}
}

// warnUnknownImages warns about disks whose image has an id that is known after apply: refuseOwnDisks can't compare it.
func (p planning) warnUnknownImages(declared map[string]object) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, key := range value.Keys(declared) {
		if !declared[key].string("image").IsUnknown() {
			continue
		}
		image := text(open(elements(withRenamed(p.config.Disks, p.state.Disks))[key]).string("image"))
		if image == "" {
			continue
		}
		diags.AddAttributeWarning(path.Root("disks").AtMapKey(key).AtName("image"), "Disk may not follow its image",
			fmt.Sprintf("Disk %q was created from image %s, and the id of its image is known after apply. A disk never follows "+
				"its image: if the image gets new content, another name or another pool, the apply fails for this virtual "+
				"machine, and the disk and its data stay.\n\nTo keep the disk as it is, set "+
				"lifecycle { ignore_changes = [disks[%[1]q].image] }.", key, image))
	}
	return diags
}

// planDiskPath plans the path of a disk. A volume or own disk keeps its path, and the path of a new one is known after
// apply. Other disks have no path.
func planDiskPath(prior types.Map) edit {
	before := elements(prior)
	return func(key string, a object) bool {
		was := object(nil)
		if !a["pool"].IsNull() || !a["volume"].IsNull() {
			was = open(before[key])
		}
		var at attr.Value
		switch pool, volume := a.string("pool"), a.string("volume"); {
		case pool.IsUnknown(), volume.IsUnknown():
			at = types.StringUnknown()
		case text(pool) == "" && !isVolumeID(text(volume)):
			at = types.StringNull()
		case isSet(was["path"]) && sameMeaning("", pool, was.string("pool")) && sameMeaning("", volume, was.string("volume")):
			at = was["path"]
		case handedOverFile(a, was) != "":
			at = types.StringValue(handedOverFile(a, was))
		default:
			at = types.StringUnknown()
		}
		if at.Equal(a["path"]) {
			return false
		}
		a["path"] = at
		return true
	}
}

// validateOwnDisks checks the attributes that only disks with a pool can have.
func validateOwnDisks(disks map[string]object) (diags diag.Diagnostics) {
	own := ownAmong(disks)
	for _, key := range value.Keys(disks) {
		a := disks[key]
		refuse := func(name, why string) {
			diags.Append(attrpath.Error(path.Root("disks").AtMapKey(key).AtName(name), invalid, why))
		}
		switch {
		case a == nil, a["pool"].IsUnknown(): // The pool may turn out to be null.
		case !isGiven(a, "pool"):
			refuseOfOwnDisks(a, refuse)
		default:
			validateOwnDisk(a, own[key].Based(), refuse)
		}
	}
	return diags
}

func isGiven(a object, name string) bool { return isSet(a[name]) && !isNothing(a[name]) }

// refuseOfOwnDisks refuses what a disk without a pool can't have.
func refuseOfOwnDisks(a object, refuse func(name, why string)) {
	for _, name := range []string{"image", "clone", "size", "preallocation", "on_destroy"} {
		if isGiven(a, name) {
			refuse(name, fmt.Sprintf("Only a disk with pool has %s: one that is created with the virtual machine.", name))
		}
	}
}

// validateOwnDisk checks a disk with a pool. overlay says that it is based on its image.
func validateOwnDisk(a object, overlay bool, refuse func(name, why string)) {
	hasImage := a["image"].IsUnknown() || isGiven(a, "image")
	if !hasImage && !a["size"].IsUnknown() && !isGiven(a, "size") {
		refuse("size", "A disk with neither image nor size would have no room.")
	}
	if why := a.quantity("size").LacksUnit(); why != "" {
		refuse("size", why)
	}
	if image := text(a.string("image")); image != "" && !isVolumeID(image) {
		refuse("image", fmt.Sprintf("%q isn't the id of a virtfleet_image, <pool>/<volume>. If this configuration creates "+
			"the image, write virtfleet_image.<name>.id, without quotation marks.", image))
	}
	if !hasImage && isGiven(a, "clone") {
		refuse("clone", "Without an image there is nothing to clone.")
	}
	if device := text(a.string("device")); device != "" && device != "disk" && device != "lun" {
		refuse("device", "Only disks are created with the virtual machine.")
	}
	if why := preallocationMisfit(a); why != "" {
		refuse("preallocation", why)
	}
	format := text(a.string("format"))
	if format != "" && format != "qcow2" && (format != "raw" || overlay) {
		refuse("format", fmt.Sprintf("It can't be %s: a disk that is created with the virtual machine is qcow2, or raw "+
			"if it isn't an overlay.", format))
	}
}

// preallocationMisfit returns why a disk can't be created with its preallocation, or "" if it can.
func preallocationMisfit(a object) string {
	preallocation := text(a.string("preallocation"))
	switch {
	case preallocation == "" || preallocation == storage.PreallocationOff:
		return ""
	case isSet(a.string("image")) && !a.string("clone").IsUnknown() && text(a.string("clone")) != domain.CloneFull:
		return fmt.Sprintf("An overlay of an image can't have preallocation = %q. Set clone = \"full\".", preallocation)
	case preallocation == storage.PreallocationMetadata && text(a.string("format")) == "raw":
		return "A raw disk has no tables to write. Use \"off\" or \"full\"."
	default:
		return ""
	}
}

// refuseOwnDisks returns errors for changes that are impossible for an existing own disk.
func (p planning) refuseOwnDisks() (diags diag.Diagnostics) {
	if p.state == nil {
		return nil
	}
	all, before := elements(p.config.Disks), elements(withRenamed(p.config.Disks, p.state.Disks))
	for _, key := range value.Keys(all) {
		a, was := open(all[key]), open(before[key])
		switch at := path.Root("disks").AtMapKey(key); {
		case was == nil, text(a.string("pool")) == "":
		case text(was.string("pool")) != "":
			diags.Append(refuseRecreation(at, key, a, was)...)
			diags.Append(refuseShrinking(at, key, a, was)...)
		case handedOverFile(a, was) == "":
			diags.Append(attrpath.Error(at.AtName("pool"), invalid, fmt.Sprintf("Disk %q exists and isn't a file. A disk with "+
				"pool would be created again, without its data.\n\nDeclare the new disk under another key.", key)))
		}
	}
	return diags
}

// refuseRecreation returns errors for changes that would create an own disk again.
func refuseRecreation(at path.Path, key string, a, was object) (diags diag.Diagnostics) {
	for _, name := range []string{"pool", "image", "clone", "format", "preallocation"} {
		v := a.string(name)
		if v.IsUnknown() || name == "format" && v.IsNull() || text(v) == text(was.string(name)) ||
			name == "clone" && (text(v) == domain.CloneFull) == (text(was.string(name)) == domain.CloneFull) ||
			name == "preallocation" && orOff(v) == orOff(was.string(name)) {
			continue
		}
		diags.Append(attrpath.Error(at.AtName(name), "Disk would be created again", fmt.Sprintf(
			"Disk %q was created with %s = %q, and now has %q: it would be created again, without its data.\n\nTo keep it, "+
				"set %[2]s as it was, or set lifecycle { ignore_changes = [disks[%[1]q].%[2]s] }. To create the virtual "+
				"machine again with all its disks, run \"terraform taint\" for it and apply.",
			key, name, text(was.string(name)), text(v))))
	}
	if secret := open(a.object("encryption")).string("secret"); isSet(secret) && !a.object("encryption").IsUnknown() &&
		(text(secret) == "") != (text(open(was.object("encryption")).string("secret")) == "") {
		diags.Append(attrpath.Error(at.AtName("encryption"), "Disk would be created again", fmt.Sprintf(
			"Disk %q was created with encryption or without it, and this can't be changed: it would be created again, "+
				"without its data.\n\nTo keep it, set encryption as it was. To encrypt the data, declare another disk under "+
				"another key, and copy the data in the guest.", key)))
	}
	return diags
}

// refuseShrinking returns an error for a smaller size of an own disk.
func refuseShrinking(at path.Path, key string, a, was object) (diags diag.Diagnostics) {
	size, had := a.quantity("size"), was.quantity("size")
	if isSet(size) && isSet(had) && size.Bytes() != nil && had.Bytes() != nil && *size.Bytes() < *had.Bytes() {
		diags.Append(attrpath.Error(at.AtName("size"), "Disks never shrink", fmt.Sprintf("Disk %q has %s, and size is %s: "+
			"the data beyond that size would be lost.\n\nSet size to %[2]q or more.", key, had.ValueString(),
			size.ValueString())))
	}
	return diags
}

func orOff(preallocation types.String) string {
	return cmp.Or(text(preallocation), storage.PreallocationOff)
}
