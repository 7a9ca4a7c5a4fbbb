package storagepool

import (
	"context"

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

// Values of on_destroy.
const (
	onDestroyKeep   = "keep"
	onDestroyDelete = "delete"
)

// Schema describes the resource.
func (*poolResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A libvirt storage pool, the same on every host that is listed. What isn't set here is left " +
			"as the host has it. A pool that isn't active is started by the next apply, and nothing is concluded from what is " +
			"not seen in it meanwhile. A changed `target` or `source` is changed in place: the pool is stopped for a moment, " +
			"which running VMs don't notice; what was in it is not moved. Destroying the resource keeps the data unless " +
			"`on_destroy` says otherwise.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				MarkdownDescription: "The pool's name.",
				Computed:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"name": replaced("Name of the pool, unique on each host."),
			"type": schema.StringAttribute{
				MarkdownDescription: "What the pool is made of: one of " + value.OneOf(storage.PoolTypes()) + ".",
				Required:            true,
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
				Validators:          []validator.String{stringvalidator.OneOf(storage.PoolTypes()...)},
			},
			"target": target(),
			"source": source(),
			"hosts":  onhosts.HostsAttribute("pool"),
			"shared": schema.BoolAttribute{
				MarkdownDescription: "Every host sees the same volumes in it, as in a directory that is mounted everywhere. " +
					"Always so for `netfs`, `rbd`, `gluster`, `iscsi`, `iscsi-direct` and `mpath`, whatever is set here. " +
					"Default: `false`.",
				Optional: true,
			},
			"autostart": schema.BoolAttribute{
				MarkdownDescription: "Whether the host starts the pool when libvirt starts. Not set: on for a new pool, else as " +
					"the host has it.",
				Optional: true,
			},
			"build": schema.BoolAttribute{
				MarkdownDescription: "Make what the pool stands on when it is made: a directory, a mount point, a filesystem, a " +
					"partition table, a volume group. Something that is there already is never overwritten. Default: `true` for " +
					"`dir` and `netfs`, otherwise `false`.",
				Optional: true,
			},
			"on_destroy": schema.StringAttribute{
				MarkdownDescription: "What becomes of the data when the resource is destroyed: `keep` leaves it where it is; " +
					"`delete` removes what the pool stands on, which a directory that isn't empty refuses. Default: `keep`.",
				Optional:   true,
				Validators: []validator.String{stringvalidator.OneOf(onDestroyKeep, onDestroyDelete)},
			},
			onhosts.StatesName: onhosts.StatesAttribute("pool", "`active`, `inactive` or `missing`"),
		},
	}
}

func replaced(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description,
		Required:            true,
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

func text(description string) schema.Attribute {
	return schema.StringAttribute{
		MarkdownDescription: description, Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

func target() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Where the volumes are on the host.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"path": text("Directory of the volumes or of their device nodes. `dir`, `fs` and `netfs` need one."),
			"permissions": schema.SingleNestedAttribute{
				MarkdownDescription: "Of the directory, where it is made.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"mode":  text("Octal: `0711`."),
					"owner": text("Id of the user."),
					"group": text("Id of the group."),
					"label": text("SELinux label."),
				},
			},
		},
	}
}

func source() schema.Attribute {
	return schema.SingleNestedAttribute{
		MarkdownDescription: "Where the storage comes from.",
		Optional:            true,
		Attributes: map[string]schema.Attribute{
			"name":   text("Volume group, RBD pool, Gluster volume or ZFS pool."),
			"dir":    text("Directory on the server, for `netfs` and `gluster`."),
			"format": text("Filesystem, partition table or protocol, such as `ext4`, `gpt`, `nfs`, `lvm2`."),
			"devices": schema.ListAttribute{
				MarkdownDescription: "Block devices, or the target of an iSCSI pool (its IQN).",
				ElementType:         types.StringType,
				Optional:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
			},
			"hosts": schema.ListNestedAttribute{
				MarkdownDescription: "Servers.",
				Optional:            true,
				Validators:          []validator.List{listvalidator.SizeAtLeast(1)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{MarkdownDescription: "Name or address.", Required: true},
					"port": schema.Int64Attribute{MarkdownDescription: "Not set: the protocol's own.", Optional: true},
				}},
			},
			"initiator":        text("IQN that an iSCSI server knows the host by."),
			"protocol_version": text("Version of NFS."),
			"adapter": schema.SingleNestedAttribute{
				MarkdownDescription: "SCSI adapter of a pool of type `scsi`.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"type": text("`scsi_host` or `fc_host`."), "name": text("Such as `scsi_host3`."),
					"parent": text("Adapter that a virtual one is made of."), "wwnn": text("World wide node name."),
					"wwpn": text("World wide port name."),
				},
			},
			"auth": schema.SingleNestedAttribute{
				MarkdownDescription: "How the host proves to the server who it is.",
				Optional:            true,
				Attributes: map[string]schema.Attribute{
					"type": schema.StringAttribute{
						MarkdownDescription: "`ceph` or `chap`.", Required: true,
						Validators: []validator.String{stringvalidator.OneOf("ceph", "chap")},
					},
					"username": schema.StringAttribute{MarkdownDescription: "Who it is.", Required: true},
					"secret": schema.StringAttribute{
						MarkdownDescription: "Id of a `virtfleet_secret` that is on the same hosts.", Required: true,
					},
				},
			},
		},
	}
}
