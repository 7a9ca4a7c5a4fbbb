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

// Attributes are the attributes of the block. The guide "Migration options" has what else there is to know of them, and
// their defaults, so that each is explained in one place.
var Attributes = map[string]resource.Attribute{
	"transport": resource.StringAttribute{
		MarkdownDescription: "How the migration's data gets to the target: `auto`, `direct`, `tls` or `ssh_relay`.",
		Optional:            true, Validators: among(migration.Transports),
	},
	"completion_timeout_per_gib": resource.StringAttribute{
		MarkdownDescription: "How long the migration may take for each GB of data to copy. Then it disrupts the guest, " +
			"or is aborted.",
		Optional: true, CustomType: value.DurationType,
	},
	"progress_timeout": resource.StringAttribute{
		MarkdownDescription: "How long the migration may make no progress before it is aborted.",
		Optional:            true, CustomType: value.DurationType,
	},
	"recovery_timeout": resource.StringAttribute{
		MarkdownDescription: "How long to try to resume a migration that broke in post-copy.",
		Optional:            true, CustomType: value.DurationType,
	},
	"on_irrecoverable": resource.StringAttribute{
		MarkdownDescription: "If a post-copy can't be resumed: `keep` both halves of the VM, or `destroy` them, **which " +
			"loses its memory**.",
		Optional: true, Validators: among(migration.OnIrrecoverables),
	},
	"max_downtime": resource.StringAttribute{
		MarkdownDescription: "How long the guest may be paused at the end of the migration.",
		Optional:            true, CustomType: value.DurationType,
	},
	"allow_auto_converge": resource.BoolAttribute{
		MarkdownDescription: "Whether QEMU may slow down a guest that writes faster than its memory is copied.",
		Optional:            true,
	},
	"allow_post_copy": resource.BoolAttribute{
		MarkdownDescription: "Whether the guest may continue on the target before all of its memory is there.",
		Optional:            true,
	},
	"allow_workload_disruption": resource.BoolAttribute{
		MarkdownDescription: "Whether the guest may be disrupted if the migration takes too long.",
		Optional:            true,
	},
	"allow_network_change": resource.BoolAttribute{
		MarkdownDescription: "Whether a VM in a network that is private to each host may move. Its connections break.",
		Optional:            true,
	},
	"copy_storage": resource.StringAttribute{
		MarkdownDescription: "How a running VM's disks that only the source has are copied: `none`, `full`, `incremental`.",
		Optional:            true, Validators: among(migration.CopyModes),
	},
	"shared_filesystems": resource.SetAttribute{
		MarkdownDescription: "Directories that all hosts share.",
		Optional:            true, ElementType: types.StringType,
	},
	"keep_source_disks": resource.BoolAttribute{
		MarkdownDescription: "Whether the original files of copied disks stay on the source: **`false` deletes them**.",
		Optional:            true,
	},
	"bandwidth": resource.StringAttribute{
		MarkdownDescription: "Limit for the memory, and for each copied disk, in bytes per second, such as `500Mi`.",
		Optional:            true, CustomType: value.QuantityType,
	},
	"parallel_connections": resource.Int64Attribute{
		MarkdownDescription: "Number of connections that memory is copied through.",
		Optional:            true,
	},
	"compression": resource.StringAttribute{
		MarkdownDescription: "How memory is compressed: `none`, `xbzrle`, `zlib` or `zstd`.",
		Optional:            true, Validators: among(migration.Compressions),
	},
	"peer_to_peer": resource.BoolAttribute{
		MarkdownDescription: "Whether the source's libvirt manages the migration, also after Terraform was killed.",
		Optional:            true,
	},
	"stall_detector": resource.BoolAttribute{
		MarkdownDescription: "Whether to detect early that a guest writes faster than its memory is copied.",
		Optional:            true,
	},
}

func among(choices []string) []validator.String { return []validator.String{value.Among(choices...)} }

// guide links to the page that describes the attributes, from a page in a folder of the documentation.
const guide = " See [Migration options](../guides/migration-options.md)."

// Type is the type of the block.
var Type = types.ObjectType{AttrTypes: typesOf(Attributes)}

func typesOf(attributes map[string]resource.Attribute) map[string]attr.Type {
	all := make(map[string]attr.Type, len(attributes))
	for name, a := range attributes {
		all[name] = a.GetType()
	}
	return all
}

// OfResource returns the block in a resource.
func OfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: Attributes, CustomType: Type, Optional: true,
	}
}

// RequiredOfResource returns the block in a resource that has no other settings.
func RequiredOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: Attributes, CustomType: Type, Required: true,
	}
}

// OfDataSource returns the block in a data source.
func OfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description + guide, Attributes: toDataSource(Attributes), CustomType: Type, Optional: true,
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
		SharedFilesystems:       value.StringSet(blockValue[types.Set](a, "shared_filesystems")),
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
