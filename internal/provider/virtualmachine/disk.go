package virtualmachine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

var (
	networkDiskAttributes = mergeAttributes(blockLevels["disks.*.network"], attributes{
		"protocol": schema.StringAttribute{
			MarkdownDescription: "Protocol: " + value.OneOf(domain.DiskProtocols) + ".",
			Required:            true,
		},
		"name": schema.StringAttribute{MarkdownDescription: "Name on the server: `nbd`: the export; `rbd`: " +
			"`<pool>/<image>`; `iscsi`: `<iqn>/<lun>`; `gluster`: `<volume>/<path>`; other protocols: the " +
			"path.", Required: true},
		"hosts": schema.ListAttribute{
			MarkdownDescription: "Servers, as `host:port`.",
			ElementType:         types.StringType,
			Required:            true,
		},
		"auth": schema.SingleNestedAttribute{
			MarkdownDescription: "How QEMU authenticates to the server, for `rbd` (cephx), `iscsi` (CHAP), `http`, " +
				"`https`, `ftp` and `ftps` (user name and password). If you don't set it, it stays as it is.",
			Attributes: diskAuthAttributes,
			CustomType: diskAuthType,
			Optional:   true,
		},
	})
	networkDiskType = objectType(networkDiskAttributes)

	diskAuthAttributes = attributes{
		"username": schema.StringAttribute{MarkdownDescription: "User name.", Required: true},
		"secret": schema.StringAttribute{
			MarkdownDescription: "`id` of the `virtfleet_secret`: usage `ceph` for `rbd`, `iscsi` for all others, also " +
				"for web servers. Each host that the VM may run on must have the secret.",
			Required: true,
		},
	}
	diskAuthType = objectType(diskAuthAttributes)
)

// diskAttributes are the attributes of a disk. Where its data is stored defines the disk, so those attributes are
// Optional only. All others are left alone if they aren't declared.
var diskAttributes = mergeAttributes(blockLevels["disks.*"], attributes{
	"file": schema.StringAttribute{
		MarkdownDescription: "Path of an image file on the host. If the host is reached over SSH, the plan fails if it " +
			"is missing and the VM would start. The provider doesn't choose a host by its files: set `host` if only one has it.",
		Optional: true,
	},
	"block": schema.StringAttribute{
		MarkdownDescription: "Path of a block device on the host. If the host is reached over SSH, the plan looks for " +
			"it; a missing device is an error if `run_strategy` starts the VM. If several hosts have one of that path, and " +
			"the VM has no `host`, the plan warns.", Optional: true,
	},
	"volume": schema.StringAttribute{
		MarkdownDescription: "Existing volume in a storage pool of the host: the `id` of a `virtfleet_volume` " +
			"(`<pool>/<name>`), or a path. For pools of type `iscsi-direct` and `gluster`, use `network`. The disk gets " +
			"the login of an `rbd` pool once; later differences aren't shown.",
		Optional: true,
	},
	"network": schema.SingleNestedAttribute{
		MarkdownDescription: "Network storage, which QEMU reaches itself.",
		Attributes:          networkDiskAttributes,
		CustomType:          networkDiskType,
		Optional:            true,
	},
	"pool":          ownDiskAttributes["pool"],
	"image":         ownDiskAttributes["image"],
	"clone":         ownDiskAttributes["clone"],
	"size":          ownDiskAttributes["size"],
	"preallocation": ownDiskAttributes["preallocation"],
	"on_destroy":    ownDiskAttributes["on_destroy"],
	"path": computedString("Path on the host of a disk with `pool`, or of a disk whose `volume` is an id; in an " +
		"`rbd` pool, `rbd:<pool>/<image>@<hosts>`."),
	"other": optionalString("Set by an import for disks that no other attribute describes. Copy the value to your " +
		"configuration unchanged; it can't be used for new disks."),
	"device": optionalString("Kind of the drive: " + value.OneOf(domain.DiskDevices) + ". Default for new disks: `disk`."),
	"bus": optionalString("Bus of the disk: " + value.OneOf(domain.DiskBuses) + ". Default for new disks: `virtio`; " +
		"of a `cdrom`, `sata` (`ide` with the machine type `pc`, `scsi` on other architectures); of a `lun`, `scsi`; of a " +
		"`floppy`, `fdc`."),
	"format": optionalString("Format: " + value.OneOf(domain.DiskFormats) + ". Required if the backing " +
		"file isn't a `virtfleet_image`. Default for new disks: `qcow2` with `pool` (`rbd`: `raw`) or a name `*.qcow2`, " +
		"otherwise what a storage pool reports, or `raw`."),
	"cache": optionalString("Cache mode: " + value.OneOf(domain.DiskCaches) + ". Default for new disks: `default` " +
		"(`writeback`) for a disk that is stored as a file, otherwise `none`."),
	"read_only": optionalBool("Whether the disk is read-only for the guest. Default for new disks: `true` for a " +
		"`cdrom`, otherwise `false`."),
	"serial":     optionalString("Serial number that the guest sees. `\"\"` removes it."),
	"boot_order": bootOrder(),
	"shared": schema.BoolAttribute{
		MarkdownDescription: "Whether all hosts share the storage of this `file`, `block` or `volume`. A move then neither " +
			"copies nor removes the disk. With a `block`, which no move copies, only the plan's warning ends. Not the same as " +
			"`shareable`. Default: `false`.",
		Optional: true,
	},
})

var diskType = objectType(diskAttributes)

// bootOrder returns the attribute for disks and interfaces, which share one order.
func bootOrder() schema.Int64Attribute {
	return optionalInt("Position in the boot order, from 1; `0` removes it. Disks and interfaces share one order.")
}

// disksToDomain maps declared disks. The prior state supplies sources that are known only after apply, or that the
// schema can't express.
func disksToDomain(declared, prior types.Map) map[string]domain.Disk {
	return devicesToDomain(declared, prior, diskToDomain, domain.Disk{Source: domain.DiskSource{File: domain.UnknownFile}})
}

func diskToDomain(a object, prior types.Object) domain.Disk {
	d := domain.Disk{
		Source:    diskSource(a, prior),
		Device:    text(a.string("device")),
		Bus:       text(a.string("bus")),
		Format:    text(a.string("format")),
		Cache:     text(a.string("cache")),
		Serial:    value.String(a.string("serial")),
		ReadOnly:  value.Bool(a.bool("read_only")),
		BootOrder: value.Int(a.int("boot_order")),
	}
	declareRows(&d.Values, "disks.*", "disks.*.", a)
	return d
}

// diskSource returns where a disk's data is stored. prior is opened only if it is needed, which is rare.
func diskSource(a object, prior types.Object) domain.DiskSource {
	for _, name := range diskSources {
		if v := a[name]; v != nil && !isKnown(v) {
			if !isSet(prior) {
				return domain.DiskSource{File: domain.UnknownFile}
			}
			return diskSource(open(prior), types.Object{})
		}
	}
	switch {
	case text(a.string("file")) != "":
		return domain.DiskSource{File: text(a.string("file"))}
	case text(a.string("block")) != "":
		return domain.DiskSource{Block: text(a.string("block"))}
	case text(a.string("pool")) != "", isVolumeID(text(a.string("volume"))):
		return ownDiskSource(a, open(prior))
	case text(a.string("volume")) != "":
		return domain.SourceAt(text(a.string("volume")))
	case isSet(a.object("network")):
		return networkSource(a.object("network"))
	default:
		return domain.DiskSource{Other: text(a.string("other"))}
	}
}

func networkSource(o types.Object) domain.DiskSource {
	n := open(o)
	source := &domain.NetworkSource{
		Protocol: text(n.string("protocol")), Name: text(n.string("name")), Hosts: value.StringList(n.list("hosts")),
	}
	if auth := open(n.object("auth")); isKnown(auth.string("username")) && isKnown(auth.string("secret")) && auth != nil {
		source.Auth = &domain.SourceAuth{Username: text(auth.string("username")), Secret: text(auth.string("secret"))}
	}
	declareRows(&source.Values, "disks.*.network", "disks.*.network.", n)
	return domain.DiskSource{Network: source}
}

// sharedDisks returns the keys of the disks that are declared as shared.
func sharedDisks(declared map[string]object) []string {
	var keys []string
	for key, a := range declared {
		if a.bool("shared").ValueBool() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// diskVolumes returns the known paths of the disks that are declared as volumes.
func diskVolumes(declared map[string]object) map[string]string {
	out := make(map[string]string)
	for key, a := range declared {
		if v := text(a.string("volume")); v != "" {
			out[key] = v
		}
	}
	return out
}

// requiredFiles returns the known paths that must exist on the host, by attribute. Volumes are looked up in storage
// pools.
func (m *model) requiredFiles() map[string]string {
	out := make(map[string]string)
	add := func(attribute string, path types.String) {
		if isSet(path) && path.ValueString() != "" {
			out[attribute] = path.ValueString()
		}
	}
	for key, o := range elements(m.Disks) {
		a := open(o)
		add("disks."+key+".file", a.string("file"))
		add("disks."+key+".block", a.string("block"))
	}
	kernel := open(m.Kernel)
	add("kernel.path", kernel.string("path"))
	add("kernel.initrd", kernel.string("initrd"))
	firmware := open(m.Firmware)
	add("firmware.loader", firmware.string("loader"))
	add("firmware.nvram_template", firmware.string("nvram_template"))
	for name, path := range open(m.Platform).stringMap("fw_cfg_files").Elements() {
		if path, ok := path.(types.String); ok {
			add("platform.fw_cfg_files."+name, path)
		}
	}
	for key, o := range elements(open(m.Devices).stringMap("filesystems")) {
		add("devices.filesystems."+key+".source", open(o).string("source"))
	}
	for key, o := range elements(open(m.Devices).stringMap("serials")) {
		if port := open(o); text(port.string("type")) == "dev" {
			add("devices.serials."+key+".path", port.string("path"))
		}
	}
	for key, o := range elements(open(m.Devices).stringMap("host_devices")) {
		add("devices.host_devices."+key+".rom_file", open(o).string("rom_file"))
	}
	if vsock := open(m.Devices).object("vsock"); isSet(vsock) && text(open(vsock).string("model")) != domain.None {
		out[domain.Vsock] = domain.VhostVsock
	}
	for _, name := range []string{"graphics", "second_graphics", "egl_headless"} {
		add("devices."+name+".rendernode", open(open(m.Devices).object(name)).string("rendernode"))
	}
	for path := range elements(open(open(m.Platform).object("resources")).stringMap("blkio_devices")) {
		out[fmt.Sprintf("%s[%q]", domain.BlkioDevices, path)] = path
	}
	return out
}

// disksFromDomain maps observed disks. The hypervisor knows only a path, so a disk that was declared as a volume is
// read as a volume. everything says that the VM is being imported.
func disksFromDomain(
	disks map[string]domain.Disk, recorded domain.Metadata, prior types.Map, everything bool,
) types.Map {
	before := elements(prior)
	out := make(map[string]types.Object, len(disks))
	for key, d := range disks {
		if key == domain.MediumKey {
			continue // This drive belongs to cloud_init.
		}
		own, made := recorded.OwnDisks[key]
		if !made || own.Creating {
			own = domain.OwnDisk{}
		}
		out[key] = diskFromDomain(d, slices.Contains(recorded.SharedDisks, key), own, open(before[key]), everything)
	}
	return mapOf(diskType, out)
}

func diskFromDomain(d domain.Disk, shared bool, own domain.OwnDisk, prior object, everything bool) types.Object {
	a := map[string]attr.Value{
		"file":       value.NewStringOrNull(d.Source.File),
		"block":      value.NewStringOrNull(d.Source.Block),
		"volume":     types.StringNull(),
		"network":    networkDiskFromDomain(d.Source.Network, prior, everything),
		"other":      value.NewStringOrNull(d.Source.Other),
		"device":     value.NewStringOrNull(d.Device),
		"bus":        value.NewStringOrNull(d.Bus),
		"format":     value.NewStringOrNull(d.Format),
		"cache":      value.NewStringOrNull(d.Cache),
		"read_only":  types.BoolPointerValue(d.ReadOnly),
		"serial":     stringOrNull(d.Serial),
		"boot_order": value.NewInt(d.BootOrder),
		"shared":     types.BoolNull(),
	}
	if shared {
		a["shared"] = types.BoolValue(true)
	}
	readRows(a, "disks.*", rowReader{facts: d.Values, strip: "disks.*."}, prior, everything)
	path := d.Source.File + d.Source.Block
	at := cmp.Or(path, d.Source.RBDPath())
	ownDiskFromDomain(a, own, at)
	if volume := text(prior.string("volume")); volume != "" && own.Pool == "" {
		if path != "" {
			a["file"], a["block"], a["volume"] = types.StringNull(), types.StringNull(), types.StringValue(path)
		}
		if at != "" && isVolumeID(volume) && (prior["path"].IsUnknown() || text(prior.string("path")) == at) {
			a["volume"], a["path"] = types.StringValue(volume), types.StringValue(at)
			a["network"] = types.ObjectNull(networkDiskType.AttrTypes)
		}
	}
	return types.ObjectValueMust(diskType.AttrTypes, a)
}

// withVolumesNotApplied returns the observed disks after an update that failed. A disk that still has its former image
// was read as the planned volume, because the volume's path isn't known before the apply. It gets its former volume, so
// that the next plan shows the change again.
func withVolumesNotApplied(now, planned, before types.Map) types.Map {
	plans, states := elements(planned), elements(before)
	return editDevices(now, diskType, func(key string, a object) bool {
		plan, was := open(plans[key]), open(states[key])
		if was == nil || !isVolumeID(text(plan.string("volume"))) || !plan["path"].IsUnknown() ||
			!domain.SameImage(diskSource(a, types.Object{}), diskSource(was, types.Object{})) {
			return false
		}
		for _, name := range []string{"file", "block", "volume", "network", "path"} {
			a[name] = was[name]
		}
		return true
	})
}

func networkDiskFromDomain(n *domain.NetworkSource, prior object, everything bool) types.Object {
	if n == nil {
		return types.ObjectNull(networkDiskType.AttrTypes)
	}
	hosts := n.Hosts
	if hosts == nil {
		hosts = []string{}
	}
	was := open(prior.object("network"))
	auth := types.ObjectNull(diskAuthType.AttrTypes)
	if declared := isSet(was.object("auth")); n.Auth != nil && (declared || everything) {
		auth = types.ObjectValueMust(diskAuthType.AttrTypes, map[string]attr.Value{
			"username": types.StringValue(n.Auth.Username), "secret": types.StringValue(n.Auth.Secret),
		})
	}
	a := map[string]attr.Value{
		"auth":     auth,
		"protocol": types.StringValue(n.Protocol),
		"name":     types.StringValue(n.Name),
		"hosts":    value.NewStringList(hosts),
	}
	readRows(a, "disks.*.network", rowReader{facts: n.Values, strip: "disks.*.network."}, was, everything)
	return types.ObjectValueMust(networkDiskType.AttrTypes, a)
}

// planDiskFormat plans an unknown format if a disk gets a new source: the apply finds out the format of the new image.
func planDiskFormat(config, prior types.Map) edit {
	declared, before := elements(config), elements(prior)
	return func(key string, a object) bool {
		if says := open(declared[key]); says == nil || text(says.string("format")) != "" {
			return false
		}
		was := open(before[key])
		if was == nil || maps.EqualFunc(a, was, attr.Value.Equal) {
			return false
		}
		known := true
		for _, name := range diskSources {
			known = known && isKnown(a[name])
		}
		if known && domain.SameImage(diskSource(a, types.Object{}), diskSource(was, types.Object{})) {
			return false
		}
		if v := a.string("format"); v.IsUnknown() || isSet(v) && v.ValueString() == "" {
			return false
		}
		a["format"] = types.StringUnknown()
		return true
	}
}
