package migrationoptions

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	datasource "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	provider "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	resource "github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/migration"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// Name is the name of the block.
const Name = "migration_options"

// Attributes are the attributes of the block in the provider block. The guide "Migration options" describes them in
// detail.
var Attributes = map[string]resource.Attribute{
	"transport": choiceAttribute("How memory is sent to the target: `direct` without encryption, `tls` with it, "+
		"`ssh_relay` through the provider's SSH connections. `auto` is `direct` if the source reaches the target, otherwise "+
		"`ssh_relay`", "auto", migration.Transports),
	"completion_timeout_per_gib": durationAttribute(
		"How long a migration may take for each GB (10⁹ bytes, as in KubeVirt) of memory and copied disks. After that, " +
			"`allow_workload_disruption` decides. `0s`: no limit. Default: `150s`."),
	"progress_timeout": durationAttribute(
		"How long a migration may make no progress before it is aborted. `0s`: no limit. Default: `150s`."),
	"recovery_timeout": durationAttribute("How long to try to resume a migration that broke in post-copy (see " +
		"`allow_post_copy`). Default: `5m`."),
	"on_irrecoverable": choiceAttribute("What to do if a migration that broke in post-copy can't be resumed. `keep`: the "+
		"guest stays paused on both hosts, and the next apply tries again. `destroy`: the guest's memory is lost, and "+
		"the VM is "+
		"off on the target", "keep",
		migration.OnIrrecoverables),
	"max_downtime": durationAttribute("How long the guest may be paused at the end. Default: QEMU's `300ms`; with " +
		"`stall_detector`, `900ms` after a stall."),
	"allow_auto_converge": boolAttribute(
		"Whether QEMU may slow down a guest that writes faster than its memory is copied. Default: `false`."),
	"allow_post_copy": boolAttribute("Whether post-copy may be used: the guest continues on the target while a part " +
		"of its memory is still on the source. If the connection fails then, the guest is paused until the migration is " +
		"resumed. If a host fails then, the guest's memory is lost. Default: `false`."),
	"allow_workload_disruption": boolAttribute(
		"Whether the provider may disrupt the guest after the completion timeout: by post-copy if that is allowed, " +
			"otherwise by a pause until the rest is copied. `false`: the migration is aborted instead. Default: the value of " +
			"`allow_post_copy`."),
	"allow_network_change": boolAttribute("Whether a VM in a network that is private to each host may be moved. " +
		"Its connections break. Default: `false`."),
	"copy_storage": choiceAttribute(
		"How a live migration copies disks that only the VM's host has. `none`: such a disk blocks it. `full`: all that the "+
			"guest sees. `incremental`: only the topmost image; the target must have the backing file. It doesn't apply to "+
			"disks with `pool`",
		"none", migration.CopyModes),
	"shared_filesystems": resource.ListAttribute{
		MarkdownDescription: "Directories that all hosts share. Disks in them aren't copied. For running VMs, list what " +
			"libvirt doesn't know as shared, such as FUSE mounts. For VMs that are off, also list NFS, SMB and so on.",
		ElementType: types.StringType,
		Optional:    true,
	},
	"keep_source_disks": boolAttribute("Whether the originals of copied disks stay on the source. **`false` deletes " +
		"them there.** Those of disks with `pool` are always deleted. Default: `true`."),
	"bandwidth": resource.StringAttribute{
		MarkdownDescription: "Limit in bytes per second, such as `500Mi`, for the memory of one migration " +
			"and for each disk that it copies. Default: no limit.",
		CustomType: value.QuantityType,
		Optional:   true,
	},
	"parallel_connections": resource.Int64Attribute{
		MarkdownDescription: "Number of connections that memory is copied through, with QEMU's multifd. With " +
			"`allow_post_copy`, it requires QEMU 10.1. Default: `0`, one connection without multifd.",
		Optional: true,
	},
	"compression": choiceAttribute("How memory is compressed", "none", migration.Compressions),
	"peer_to_peer": boolAttribute("Whether the source's libvirt manages a live migration, which then continues if " +
		"Terraform is killed. Default: `false`."),
	"stall_detector": boolAttribute("Whether to detect early that a migration stalls, and then do what is allowed " +
		"after the completion timeout, or abort the migration. Default: `false`."),
}

func choiceAttribute(description, otherwise string, from []string) resource.Attribute {
	return resource.StringAttribute{
		MarkdownDescription: description + ". One of " + value.OneOf(from) + ". Default: `" + otherwise + "`.",
		Optional:            true,
		Validators:          []validator.String{value.Among(from...)},
	}
}

// guide links to the page that describes the attributes, from a page in a folder of the documentation.
const guide = " The guide [Migration options](../guides/migration-options.md) describes each."

// linked are the attributes of the block where the page needn't describe them again: it links to the guide.
var linked = describedAs("See [Migration options](../guides/migration-options.md).")

// describedAs returns the block's attributes, each with that description.
func describedAs(description string) map[string]resource.Attribute {
	all := make(map[string]resource.Attribute, len(Attributes))
	for name, a := range Attributes {
		switch a := a.(type) {
		case resource.BoolAttribute:
			a.MarkdownDescription = description
			all[name] = a
		case resource.Int64Attribute:
			a.MarkdownDescription = description
			all[name] = a
		case resource.ListAttribute:
			a.MarkdownDescription = description
			all[name] = a
		case resource.StringAttribute:
			a.MarkdownDescription = description
			all[name] = a
		}
	}
	return all
}

// Type is the type of the block.
var Type = types.ObjectType{AttrTypes: typesOf(Attributes)}

func typesOf(attributes map[string]resource.Attribute) map[string]attr.Type {
	all := make(map[string]attr.Type, len(attributes))
	for name, a := range attributes {
		all[name] = a.GetType()
	}
	return all
}

func durationAttribute(description string) resource.Attribute {
	return resource.StringAttribute{MarkdownDescription: description, CustomType: value.DurationType, Optional: true}
}

func boolAttribute(description string) resource.Attribute {
	return resource.BoolAttribute{MarkdownDescription: description, Optional: true}
}

// OfResource returns the block in a resource.
func OfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: linked, CustomType: Type, Optional: true,
	}
}

// RequiredOfResource returns the block in a resource that has no other settings.
func RequiredOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: linked, CustomType: Type, Required: true,
	}
}

// OfDataSource returns the block in a data source.
func OfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: toDataSource(linked), CustomType: Type, Optional: true,
	}
}

// toDataSource returns the attributes as those of a data source.
func toDataSource(attributes map[string]resource.Attribute) map[string]datasource.Attribute {
	all := make(map[string]datasource.Attribute, len(attributes))
	for name, a := range attributes {
		all[name] = a
	}
	return all
}

// OfProvider returns the block in the provider block.
func OfProvider(description string) provider.Attribute {
	all := make(map[string]provider.Attribute, len(Attributes))
	for name, a := range Attributes {
		all[name] = a
	}
	return provider.SingleNestedAttribute{
		MarkdownDescription: description + strings.Replace(guide, "../", "", 1), Attributes: all, CustomType: Type,
		Optional: true,
	}
}

// Options returns the options in the block. Null and unknown values are not set.
func Options(block types.Object) migration.Options {
	a := block.Attributes()
	o := migration.Options{
		Transport:               blockValue[types.String](a, "transport").ValueString(),
		CompletionTimeoutPerGiB: blockValue[value.Duration](a, "completion_timeout_per_gib").Duration(),
		ProgressTimeout:         blockValue[value.Duration](a, "progress_timeout").Duration(),
		RecoveryTimeout:         blockValue[value.Duration](a, "recovery_timeout").Duration(),
		OnIrrecoverable:         blockValue[types.String](a, "on_irrecoverable").ValueString(),
		MaxDowntime:             blockValue[value.Duration](a, "max_downtime").Duration(),
		AllowAutoConverge:       value.Bool(blockValue[types.Bool](a, "allow_auto_converge")),
		AllowPostCopy:           value.Bool(blockValue[types.Bool](a, "allow_post_copy")),
		AllowWorkloadDisruption: value.Bool(blockValue[types.Bool](a, "allow_workload_disruption")),
		AllowNetworkChange:      value.Bool(blockValue[types.Bool](a, "allow_network_change")),
		CopyStorage:             blockValue[types.String](a, "copy_storage").ValueString(),
		SharedFilesystems:       value.StringList(blockValue[types.List](a, "shared_filesystems")),
		KeepSourceDisks:         value.Bool(blockValue[types.Bool](a, "keep_source_disks")),
		Bandwidth:               blockValue[value.Quantity](a, "bandwidth").Bytes(),
		Compression:             blockValue[types.String](a, "compression").ValueString(),
		PeerToPeer:              value.Bool(blockValue[types.Bool](a, "peer_to_peer")),
		StallDetector:           value.Bool(blockValue[types.Bool](a, "stall_detector")),
	}
	if n := blockValue[types.Int64](a, "parallel_connections"); !n.IsNull() && !n.IsUnknown() {
		o.ParallelConnections = new(int(n.ValueInt64()))
	}
	return o
}

// blockValue returns an attribute, and null if there is no block.
func blockValue[T attr.Value](all map[string]attr.Value, name string) T {
	v, _ := all[name].(T)
	return v
}

// Validate returns errors for the block at that path.
func Validate(block types.Object, at path.Path) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range Options(block).Validate() {
		diags.AddAttributeError(at.AtName(p.Path), "Invalid "+Name, p.Message)
	}
	return diags
}
