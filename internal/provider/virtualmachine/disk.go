package virtualmachine

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// unknownSource stands for the source of a new disk that is known after apply, where a disk without one would be
// another thing.
const unknownSource = "/known-after-apply"

var (
	networkDiskAttributes = attributes{
		"protocol": schema.StringAttribute{
			MarkdownDescription: "Protocol: " + value.OneOf(domain.DiskProtocols) + ".",
			Required:            true,
		},
		"name": schema.StringAttribute{MarkdownDescription: "Name of the export, image or target.", Required: true},
		"hosts": schema.ListAttribute{
			MarkdownDescription: "Servers, as `host:port`.",
			ElementType:         types.StringType,
			Required:            true,
		},
	}
	networkDiskType = objectType(networkDiskAttributes)
)

// diskAttributes: where the data lives is part of what a disk is, so it is Optional alone; everything else that isn't
// declared is left alone.
var diskAttributes = attributes{
	"file": schema.StringAttribute{
		MarkdownDescription: "Path of an image file on the host. On a host that is reached over SSH it is looked for when " +
			"planning; one that isn't there is an error if the machine is to run.",
		Optional: true,
	},
	"block": schema.StringAttribute{
		MarkdownDescription: "Path of a block device on the host. It is looked for as `file` is.", Optional: true,
	},
	"volume": schema.StringAttribute{
		MarkdownDescription: "Path of an existing volume in one of the host's storage pools. It is checked when planning.",
		Optional:            true,
	},
	"network": schema.SingleNestedAttribute{
		MarkdownDescription: "Storage that the hypervisor reaches over the network.",
		Attributes:          networkDiskAttributes,
		CustomType:          networkDiskType,
		Optional:            true,
	},
	"other": optionalString("What a disk that wasn't made here is backed by, where nothing else describes it. It can be " +
		"kept, but not declared anew."),
	"device":     optionalString("What the guest sees: " + value.OneOf(domain.DiskDevices) + ". Default: `disk`."),
	"bus":        optionalString("Bus that it is attached to: " + value.OneOf(domain.DiskBuses) + "."),
	"format":     optionalString("Format of the data: " + value.OneOf(domain.DiskFormats) + "."),
	"cache":      optionalString("Cache mode: " + value.OneOf(domain.DiskCaches) + "."),
	"read_only":  optionalBool("Whether the guest can't write to it."),
	"serial":     optionalString("Serial number that the guest sees."),
	"boot_order": bootOrder(),
	"shared": schema.BoolAttribute{
		MarkdownDescription: "Whether all hosts see one and the same `file`, `block` or `volume` although libvirt can't " +
			"tell, as on a cluster filesystem or a FUSE mount; of a machine that runs it knows NFS, SMB and the like itself. " +
			"Such a disk is neither copied nor removed when the machine moves. To move while the machine runs it takes " +
			"`cache = \"none\"` or `\"directsync\"` unless it is read-only; to move while it is off it has to be a file. That " +
			"it is true of a file is tried before: another one that its host makes beside it has to appear on the target.",
		Optional: true,
	},
}

var diskType = objectType(diskAttributes)

// bootOrder is the same attribute for disks and interfaces, which share one order.
func bootOrder() schema.Int64Attribute {
	return optionalInt("Place in the boot order, from 1. Disks and interfaces share one order.")
}

// disksToDomain maps declared disks. What the prior state knows of a disk stands in for a source that is known after
// apply, or that the schema can't express.
func disksToDomain(declared, prior types.Map) map[string]domain.Disk {
	disks := elements(declared)
	if disks == nil {
		return nil
	}
	before := elements(prior)
	out := make(map[string]domain.Disk, len(disks))
	for key, o := range disks {
		out[key] = diskToDomain(open(o), open(before[key]))
	}
	return out
}

func diskToDomain(a, prior object) domain.Disk {
	return domain.Disk{
		Source:    diskSource(a, prior),
		Device:    text(a.string("device")),
		Bus:       text(a.string("bus")),
		Format:    text(a.string("format")),
		Cache:     text(a.string("cache")),
		Serial:    text(a.string("serial")),
		ReadOnly:  value.Bool(a.bool("read_only")),
		BootOrder: value.Int(a.int("boot_order")),
	}
}

func diskSource(a, prior object) domain.DiskSource {
	for _, name := range diskSources {
		if v := a[name]; v != nil && !isKnown(v) {
			if prior == nil {
				return domain.DiskSource{File: unknownSource}
			}
			return diskSource(prior, nil)
		}
	}
	switch {
	case set(a.string("file")):
		return domain.DiskSource{File: text(a.string("file"))}
	case set(a.string("block")):
		return domain.DiskSource{Block: text(a.string("block"))}
	case set(a.string("volume")):
		return volumeSource(text(a.string("volume")))
	case set(a.object("network")):
		n := open(a.object("network"))
		return domain.DiskSource{Network: &domain.NetworkSource{
			Protocol: text(n.string("protocol")), Name: text(n.string("name")), Hosts: value.StringList(n.list("hosts")),
		}}
	default:
		return domain.DiskSource{Other: text(a.string("other"))}
	}
}

// volumeSource tells by its path whether a volume is a file or a device, as far as it can be told without asking the
// host: pools of block devices live below /dev.
func volumeSource(path string) domain.DiskSource {
	if strings.HasPrefix(path, "/dev/") {
		return domain.DiskSource{Block: path}
	}
	return domain.DiskSource{File: path}
}

// sharedDisks are the keys of the disks that are declared to be shared.
func sharedDisks(declared types.Map) []string {
	var keys []string
	for key, o := range elements(declared) {
		if open(o).bool("shared").ValueBool() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// diskVolumes returns the known paths of the disks that are declared as volumes.
func diskVolumes(declared types.Map) map[string]string {
	out := make(map[string]string)
	for key, o := range elements(declared) {
		if v := open(o).string("volume"); set(v) {
			out[key] = v.ValueString()
		}
	}
	return out
}

// files returns the known paths that have to be on the host, by attribute. A volume is looked for in storage pools.
func (m *model) files() map[string]string {
	out := make(map[string]string)
	add := func(attribute string, path types.String) {
		if set(path) && path.ValueString() != "" {
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
	return out
}

// disksFromDomain maps observed disks. The hypervisor knows a path only: a disk that was declared as a volume stays
// one.
func disksFromDomain(disks map[string]domain.Disk, shared []string, prior types.Map) types.Map {
	before := elements(prior)
	out := make(map[string]types.Object, len(disks))
	for key, d := range disks {
		out[key] = diskFromDomain(d, slices.Contains(shared, key), open(before[key]))
	}
	return mapOf(diskType, out)
}

func diskFromDomain(d domain.Disk, shared bool, prior object) types.Object {
	a := map[string]attr.Value{
		"file":       value.NewStringOrNull(d.Source.File),
		"block":      value.NewStringOrNull(d.Source.Block),
		"volume":     types.StringNull(),
		"network":    networkDiskFromDomain(d.Source.Network),
		"other":      value.NewStringOrNull(d.Source.Other),
		"device":     value.NewStringOrNull(d.Device),
		"bus":        value.NewStringOrNull(d.Bus),
		"format":     value.NewStringOrNull(d.Format),
		"cache":      value.NewStringOrNull(d.Cache),
		"read_only":  types.BoolPointerValue(d.ReadOnly),
		"serial":     value.NewStringOrNull(d.Serial),
		"boot_order": value.NewInt(d.BootOrder),
		"shared":     types.BoolNull(),
	}
	if shared {
		a["shared"] = types.BoolValue(true)
	}
	if path := d.Source.File + d.Source.Block; path != "" && !prior.string("volume").IsNull() {
		a["file"], a["block"], a["volume"] = types.StringNull(), types.StringNull(), types.StringValue(path)
	}
	return types.ObjectValueMust(diskType.AttrTypes, a)
}

func networkDiskFromDomain(n *domain.NetworkSource) types.Object {
	if n == nil {
		return types.ObjectNull(networkDiskType.AttrTypes)
	}
	hosts := n.Hosts
	if hosts == nil {
		hosts = []string{}
	}
	return types.ObjectValueMust(networkDiskType.AttrTypes, map[string]attr.Value{
		"protocol": types.StringValue(n.Protocol),
		"name":     types.StringValue(n.Name),
		"hosts":    value.NewStringList(hosts),
	})
}
