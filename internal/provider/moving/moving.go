package moving

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
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

// Name is what the block is called.
const Name = "migration_options"

// Attributes are those of the block.
var Attributes = map[string]resource.Attribute{
	"transport": resource.StringAttribute{
		MarkdownDescription: "How memory gets from host to host: one of `" + strings.Join(migration.Transports, "`, `") +
			"`. `direct` is a TCP connection between the hosts, which is not encrypted. `tls` is the same, " +
			"encrypted by QEMU: both hosts need certificates where `migrate_tls_x509_cert_dir` in their `qemu.conf` says. " +
			"`ssh_relay` passes through the " +
			"machine that runs Terraform and its SSH connections to both hosts: it is encrypted, and works when the hosts " +
			"can't reach each other. It takes SSH as root. `auto`, the default, is `direct` if the hosts reach each " +
			"other, else `ssh_relay`.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(migration.Transports...)},
	},
	"completion_timeout_per_gib": duration("How long a migration may take for each GB of memory and of " +
		"copied disks before something is done about it: it is disrupted where that is allowed, else aborted. " +
		"Default: `150s`; `0s` is no limit."),
	"progress_timeout": duration("How long what remains to be copied may not shrink before the migration is aborted. " +
		"Default: `150s`; `0s` is no limit."),
	"recovery_timeout": duration("How long a migration that broke in post-copy is tried to be resumed, over the relay " +
		"if need be; once at least. Default: `5m`."),
	"on_irrecoverable": resource.StringAttribute{
		MarkdownDescription: "What becomes of a machine whose migration broke in post-copy and can't be resumed, not " +
			"within `recovery_timeout` either: `keep`, the default, leaves what each host has of it, and the next apply tries " +
			"again; `destroy` ends both parts and leaves its definition, off, on the target: what its guest had in memory is " +
			"lost.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(migration.OnIrrecoverables...)},
	},
	"max_downtime": duration("How long the guest may stand still at the end. Not set: QEMU's own, 300 ms; with " +
		"`stall_detector` 900 ms once the migration stalls."),
	"allow_auto_converge": flag("Whether QEMU may slow down a guest that writes faster than can be copied. " +
		"Default: `false`."),
	"allow_post_copy": flag("Whether the guest may go on on the target before all of its memory is there, once the " +
		"completion timeout is over or, with `stall_detector`, the migration stalls. On hosts whose QEMU doesn't run as " +
		"root it takes the sysctl `vm.unprivileged_userfaultfd=1`. Default: `false`."),
	"allow_workload_disruption": flag("Whether the completion timeout may be met, or with `stall_detector` a stall " +
		"ended, at the cost of the guest's users: by post-copy where that is allowed, else by a pause. Default: the value " +
		"of `allow_post_copy`."),
	"allow_network_change": flag("Whether a machine may move that is in a network which is each host's own (NAT, " +
		"routed, isolated), where its address and connections don't survive. Default: `false`."),
	"copy_storage": resource.StringAttribute{
		MarkdownDescription: "What becomes of disks that the target doesn't reach, of a machine that runs: one of `" +
			strings.Join(migration.CopyModes, "`, `") + "`. `none`, the default: they are in the way. `full`: image files " +
			"(raw, qcow2) that the machine writes to are copied while it runs, each into a new image of the same path, whose " +
			"directory exists on the target. A backing chain becomes one image. `incremental`: of an image that is based on " +
			"another, only what it has besides is copied, into a new one on the same backing files, which have to be on the " +
			"target under the same path. A file that is there already is never overwritten. Other disks, such as CD-ROMs, " +
			"are not copied.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(migration.CopyModes...)},
	},
	"shared_filesystems": resource.ListAttribute{
		MarkdownDescription: "Directories that all hosts see as one although libvirt can't tell, such as `/srv/images` on " +
			"a cluster filesystem or a FUSE mount; libvirt knows NFS, SMB and the like by itself, but of machines that run " +
			"only. Disks in them are reached, neither copied nor removed; those of a machine that runs take " +
			"`cache = \"none\"` or `\"directsync\"`. So is what the firmware of a machine that is off keeps there. That it is " +
			"true is tried before a machine moves: a file that one host makes there has to appear on the other.",
		ElementType: types.StringType,
		Optional:    true,
	},
	"keep_source_disks": flag("Whether the images that were copied stay on the host that the machine left. They are in " +
		"the way when the machine moves back. `false` removes them once it is on the target. Default: `true`."),
	"bandwidth": resource.StringAttribute{
		MarkdownDescription: "Limit in bytes per second: " + value.QuantitySyntax + ". Not set: none.",
		CustomType:          value.QuantityType,
		Optional:            true,
	},
	"parallel_connections": resource.Int64Attribute{
		MarkdownDescription: "How many connections memory is copied through. Default: one, in QEMU's older format.",
		Optional:            true,
	},
	"compression": resource.StringAttribute{
		MarkdownDescription: "How memory is compressed on its way: one of `" + strings.Join(migration.Compressions, "`, `") +
			"`. `none` is the default. `xbzrle` sends of a page that was sent before only what has changed, which helps " +
			"guests that write the same pages again and again; it doesn't work with `parallel_connections`. `zlib` and `zstd` " +
			"compress all, at the cost of CPU time on both hosts; they take `parallel_connections` and libvirt 9.4.",
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(migration.Compressions...)},
	},
	"peer_to_peer": flag("Whether the source's libvirt manages the migration of a machine that runs by itself, so " +
		"that it goes on when Terraform is killed. It takes `peer_uri` of the target in the provider's `hosts`, and a " +
		"`transport` from host to host: `auto` is `direct`. Default: `false`: the provider manages it, and the hosts' " +
		"libvirt need not trust each other."),
	"stall_detector": flag("Whether a guest that writes faster than can be copied is noticed before the completion " +
		"timeout: when what remains shrinks by less than 4 % in 40 s. At a moment when little remains the guest is " +
		"disrupted where that is allowed, stopped if the rest takes about `max_downtime`, or the migration is aborted. " +
		"Default: `false`."),
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

func duration(description string) resource.Attribute {
	return resource.StringAttribute{MarkdownDescription: description, CustomType: value.DurationType, Optional: true}
}

func flag(description string) resource.Attribute {
	return resource.BoolAttribute{MarkdownDescription: description, Optional: true}
}

// OfResource is the block in a resource.
func OfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: Attributes, CustomType: Type, Optional: true,
	}
}

// RequiredOfResource is the block in a resource that says nothing else.
func RequiredOfResource(description string) resource.Attribute {
	return resource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: Attributes, CustomType: Type, Required: true,
	}
}

// OfDataSource is the block in a data source.
func OfDataSource(description string) datasource.Attribute {
	return datasource.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: toDataSource(Attributes), CustomType: Type, Optional: true,
	}
}

// toDataSource are the attributes as a data source has them.
func toDataSource(attributes map[string]resource.Attribute) map[string]datasource.Attribute {
	all := make(map[string]datasource.Attribute, len(attributes))
	for name, a := range attributes {
		all[name] = a
	}
	return all
}

// OfProvider is the block in the provider block.
func OfProvider(description string) provider.Attribute {
	all := make(map[string]provider.Attribute, len(Attributes))
	for name, a := range Attributes {
		all[name] = a
	}
	return provider.SingleNestedAttribute{
		MarkdownDescription: description, Attributes: all, CustomType: Type, Optional: true,
	}
}

// Options are what the block says; what it doesn't say, or isn't known yet, is not set.
func Options(block types.Object) migration.Options {
	a := block.Attributes()
	o := migration.Options{
		Transport:               read[types.String](a, "transport").ValueString(),
		CompletionTimeoutPerGiB: read[value.Duration](a, "completion_timeout_per_gib").Duration(),
		ProgressTimeout:         read[value.Duration](a, "progress_timeout").Duration(),
		RecoveryTimeout:         read[value.Duration](a, "recovery_timeout").Duration(),
		OnIrrecoverable:         read[types.String](a, "on_irrecoverable").ValueString(),
		MaxDowntime:             read[value.Duration](a, "max_downtime").Duration(),
		AllowAutoConverge:       value.Bool(read[types.Bool](a, "allow_auto_converge")),
		AllowPostCopy:           value.Bool(read[types.Bool](a, "allow_post_copy")),
		AllowWorkloadDisruption: value.Bool(read[types.Bool](a, "allow_workload_disruption")),
		AllowNetworkChange:      value.Bool(read[types.Bool](a, "allow_network_change")),
		CopyStorage:             read[types.String](a, "copy_storage").ValueString(),
		SharedFilesystems:       value.StringList(read[types.List](a, "shared_filesystems")),
		KeepSourceDisks:         value.Bool(read[types.Bool](a, "keep_source_disks")),
		Bandwidth:               read[value.Quantity](a, "bandwidth").Bytes(),
		Compression:             read[types.String](a, "compression").ValueString(),
		PeerToPeer:              value.Bool(read[types.Bool](a, "peer_to_peer")),
		StallDetector:           value.Bool(read[types.Bool](a, "stall_detector")),
	}
	if n := read[types.Int64](a, "parallel_connections"); !n.IsNull() && !n.IsUnknown() {
		o.ParallelConnections = new(int(n.ValueInt64()))
	}
	return o
}

// read returns an attribute; of a block that isn't there it is null.
func read[T attr.Value](all map[string]attr.Value, name string) T {
	v, _ := all[name].(T)
	return v
}

// Validate says what is wrong with the block at that path.
func Validate(block types.Object, at path.Path) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range Options(block).Validate() {
		diags.AddAttributeError(at.AtName(p.Path), "Invalid "+Name, p.Message)
	}
	return diags
}
