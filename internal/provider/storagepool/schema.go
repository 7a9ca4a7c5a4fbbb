package storagepool

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/onhosts"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/storage"
)

// The values of on_destroy.
const (
	onDestroyKeep   = "keep"
	onDestroyDelete = "delete"
)

// Schema describes the resource.
func (*poolResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages a libvirt storage pool with the same definition on every host in `hosts`. " +
			"Attributes that you don't set stay as they are on each host. [Storage pools](../guides/storage-pools.md) says " +
			"which attributes each type needs.\n\n" +
			"A change of `target` or `source` stops the pool and starts it again; existing volumes aren't moved. If " +
			"this would leave behind a `virtfleet_volume` or a VM's disk with `pool`, the plan fails. The guide says [what " +
			"running VMs notice](../guides/storage-pools.md#change-and-remove-a-pool). Destroying the resource keeps the " +
			"data unless `on_destroy` is `delete`.\n\n" +
			"If a pool isn't active, the next apply starts it. Until then, its `virtfleet_volume` resources stay in the " +
			"state.\n\n" +
			"libvirt lists the volumes of a pool as of its last refresh. It refreshes the pool when it is started, when " +
			"an apply creates or changes it or a volume in it, and for `virsh pool-refresh`; a plan doesn't. A file put " +
			"there by hand becomes a volume at the next refresh: change `refresh_triggers`.",
		Attributes: map[string]schema.Attribute{
			"id":   value.StableString("Same as `name`."),
			"name": replacedString("Name of the pool, unique on each host. A change replaces the pool."),
			"type": schema.StringAttribute{
				MarkdownDescription: "[Type of the pool](../guides/storage-pools.md#choose-a-type). A change replaces the pool. " +
					"One of " + value.OneOf(storage.PoolTypes()) + ".",
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:    []validator.String{value.Among(storage.PoolTypes()...)},
			},
			"target": targetAttribute(),
			"source": sourceAttribute(),
			"hosts":  onhosts.HostsAttribute("pool"),
			"shared": schema.BoolAttribute{
				MarkdownDescription: "Whether all hosts see the same volumes in the pool, such as a directory that all have " +
					"mounted. Always `true` for `netfs`, `rbd`, `gluster`, `iscsi`, `iscsi-direct` and `mpath`. Default: `false`.",
				Optional: true,
			},
			"autostart": schema.BoolAttribute{
				MarkdownDescription: "Whether libvirt starts the pool when libvirt starts. Default for new pools: `true`.",
				Optional:            true, Computed: true,
			},
			"build": schema.BoolAttribute{
				MarkdownDescription: "Whether to create the storage of a new pool: a directory, filesystem, partition table, " +
					"volume group or ZFS pool. For `dir` and `netfs`, an existing directory is used. For other types, the " +
					"apply fails if such storage exists. Default: `true` for `dir` and `netfs`, otherwise `false`.",
				Optional: true,
			},
			"refresh_triggers": schema.MapAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Any values. After a change, the apply has each host in `hosts` read the pool again, so " +
					"that it lists files that were put there by hand, and no longer those that were removed.",
			},
			"on_destroy": schema.StringAttribute{
				MarkdownDescription: "What a destroy does with the data. `keep`: it stays. `delete` removes the volume group of " +
					"`logical` or the pool of `zfs` **with all its data**, and the directory of `dir`, `fs` and `netfs`; if that " +
					"isn't empty, or for other types, it fails. Default: `keep`.",
				Optional:   true,
				Validators: []validator.String{value.Among(onDestroyKeep, onDestroyDelete)},
			},
			"timeouts": value.Timeouts(ctx, timeouts.Opts{
				Create: true, Update: true, Delete: true,
				CreateDescription: "For creating and starting the pool: `build` of a large disk takes long, and so does a file " +
					"server that is slow to answer. Default: `20m`.",
				UpdateDescription: "For changing the pool, which can stop and start it. Default: `20m`.",
				DeleteDescription: "For deleting the pool. Default: `20m`.",
			}),
			onhosts.StatesName: onhosts.StatesAttribute("pool", "`active`, `inactive`, `missing`, or `outdated` (active with "+
				"an earlier definition)"),
		},
	}
}

func replacedString(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description,
		Required:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

// optionalString returns an attribute that stays as it is on each host if it isn't declared.
func optionalString(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true, Computed: true,
		Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

func targetAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Location of the volumes on the host. The types `logical`, `zfs`, `rbd`, `gluster` and " +
			"`iscsi-direct` need none.",
		Optional: true, Computed: true,
		Attributes: map[string]schema.Attribute{
			"path": optionalString("Directory of the volumes or of their device nodes. Required for `dir`, `fs`, `netfs`, " +
				"`disk`, `iscsi`, `scsi` and `mpath`."),
			"permissions": schema.SingleNestedAttribute{
				MarkdownDescription: "Permissions of the directory, for `dir`. For other types, those of a directory that is " +
					"created.",
				Optional: true, Computed: true,
				Attributes: map[string]schema.Attribute{
					"mode":  optionalString("Mode in octal, such as `0711`."),
					"owner": optionalString("Numeric id of the owner."),
					"group": optionalString("Numeric id of the group."),
					"label": optionalString("SELinux label of the directory. libvirt doesn't set it: the plan fails for a `dir` " +
						"pool if the host has no SELinux, or the directory another label."),
				},
			},
		},
	}
}

func sourceAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Where the storage is from: a server, a device, a volume group. The types `dir` and `mpath` " +
			"need none. [Storage pools](../guides/storage-pools.md#what-each-type-needs) lists what each type needs.",
		Optional: true, Computed: true,
		Attributes: map[string]schema.Attribute{
			"name":   optionalString("Volume group, RBD pool, Gluster volume or ZFS pool."),
			"dir":    optionalString("Directory on the server, for `netfs` and `gluster`."),
			"format": optionalString("Filesystem, partition table or protocol, such as `ext4`, `gpt`, `nfs`, `lvm2`."),
			"devices": schema.ListAttribute{
				MarkdownDescription: "Block devices, or the target of an iSCSI pool (its IQN).",
				ElementType:         types.StringType,
				Optional:            true, Computed: true,
				Validators: []validator.List{listvalidator.SizeAtLeast(1)},
			},
			"hosts": schema.ListNestedAttribute{
				MarkdownDescription: "Servers that the storage is on.",
				Optional:            true, Computed: true,
				Validators: []validator.List{listvalidator.SizeAtLeast(1)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{MarkdownDescription: "Name or address.", Required: true},
					"port": schema.Int64Attribute{MarkdownDescription: "Port. Default: the protocol's own.", Optional: true},
				}},
			},
			"initiator":        optionalString("IQN by which an iSCSI server identifies the host."),
			"protocol_version": optionalString("NFS version."),
			"adapter": schema.SingleNestedAttribute{
				MarkdownDescription: "SCSI adapter of a pool of type `scsi`.",
				Optional:            true, Computed: true,
				Attributes: map[string]schema.Attribute{
					"type":   optionalString("Type of the adapter: `scsi_host` or `fc_host`."),
					"name":   optionalString("Name of the adapter, such as `scsi_host3`."),
					"parent": optionalString("Parent of a virtual adapter."), "wwnn": optionalString("World wide node name."),
					"wwpn": optionalString("World wide port name."),
				},
			},
			"auth": schema.SingleNestedAttribute{
				MarkdownDescription: "How the host authenticates to the server.",
				Optional:            true, Computed: true,
				Attributes: map[string]schema.Attribute{
					"type": schema.StringAttribute{
						MarkdownDescription: "Type of authentication: `ceph` for `rbd`, `chap` for `iscsi` and " +
							"`iscsi-direct`.", Required: true,
						Validators: []validator.String{value.Among("ceph", "chap")},
					},
					"username": schema.StringAttribute{MarkdownDescription: "User name.", Required: true},
					"secret": schema.StringAttribute{
						MarkdownDescription: "Id of a `virtfleet_secret` that is on the same hosts.", Required: true,
					},
				},
			},
		},
	}
}
